package wal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

const (
	snapshotFormat = 1
	snapshotHeader = 40
	chunkBytes     = 64 << 10
)

var snapshotMagic = [8]byte{0x9e, 'T', 'N', 'R', 'S', 'N', 'P', '\n'}

func (l *Log) snapshotName(at tenure.LSN) string {
	return filepath.Join(l.dir, numbered(snapshotPrefix, uint64(at)))
}

// SaveSnapshot implements journal.Log.
func (l *Log) SaveSnapshot(at tenure.LSN, write func(io.Writer) error) error {
	if err := l.alive(); err != nil {
		return err
	}
	l.snapping.Lock()
	defer l.snapping.Unlock()
	name := l.snapshotName(at)
	f, err := l.publish(name, func(f File) error {
		w := newSnapshotWriter(f, at)
		if err := write(w); err != nil {
			return err
		}
		return w.finish()
	}, nil)
	if err != nil {
		// Whatever is left of it is removed by the next Open at the latest.
		_ = l.fs.Remove(name + temporary)
		return explain("save", name, err)
	}
	return explain("save", name, f.Close())
}

// Snapshots implements journal.Log.
func (l *Log) Snapshots() ([]tenure.LSN, error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return nil, explain("list the snapshots in", l.dir, err)
	}
	var kept []tenure.LSN
	for _, name := range names {
		if at, ok := number(snapshotPrefix, name); ok {
			kept = append(kept, tenure.LSN(at))
		}
	}
	slices.Sort(kept)
	slices.Reverse(kept)
	return kept, nil
}

// OpenSnapshot implements journal.Log. Damage is found at the latest where it
// is: no byte is returned that is not the one that was saved.
func (l *Log) OpenSnapshot(at tenure.LSN) (io.ReadCloser, error) {
	name := l.snapshotName(at)
	f, err := l.fs.Open(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing(at, err)
	}
	if err != nil {
		return nil, explain("open", name, err)
	}
	r := &snapshotReader{f: f, name: name}
	if err := r.begin(at); err != nil {
		f.Close()
		return nil, explain("read", name, err)
	}
	return r, nil
}

// RemoveSnapshot implements journal.Log.
func (l *Log) RemoveSnapshot(at tenure.LSN) error {
	if err := l.alive(); err != nil {
		return err
	}
	name := l.snapshotName(at)
	err := l.fs.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(at, err)
	}
	if err != nil {
		return explain("remove", name, err)
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.die("sync directory", l.dir, err)
	}
	return nil
}

func missing(at tenure.LSN, err error) error {
	return &tenure.Error{Code: tenure.ErrNotFound, LSN: at, Why: fmt.Sprintf("there is no snapshot at LSN %d", at), Cause: err}
}

// snapshotWriter cuts what is written into chunks, each with a checksum over
// itself and the checksum of the one before.
type snapshotWriter struct {
	f     File
	off   int64
	total uint64
	sum   [16]byte
	b     []byte // 4 bytes of length, and the chunk so far
	began bool
	at    tenure.LSN
}

func newSnapshotWriter(f File, at tenure.LSN) *snapshotWriter {
	return &snapshotWriter{f: f, at: at, b: make([]byte, 4, 4+chunkBytes+16)}
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 4+chunkBytes-len(w.b))
		w.b, rest = append(w.b, rest[:n]...), rest[n:]
		if len(w.b) < 4+chunkBytes {
			break
		}
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// flush writes the chunk: its length, itself, its checksum.
func (w *snapshotWriter) flush() error {
	if err := w.begin(); err != nil {
		return err
	}
	n := len(w.b) - 4
	binary.LittleEndian.PutUint32(w.b, uint32(n))
	w.total += uint64(n)
	return w.emit()
}

// finish writes the last chunk, and the end: length zero, the total, a checksum.
func (w *snapshotWriter) finish() error {
	if err := w.begin(); err != nil {
		return err
	}
	if len(w.b) > 4 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	clear(w.b)
	w.b = binary.LittleEndian.AppendUint64(w.b, w.total)
	return w.emit()
}

func (w *snapshotWriter) begin() error {
	if w.began {
		return nil
	}
	w.began = true
	head := append([]byte(nil), snapshotMagic[:]...)
	head = binary.LittleEndian.AppendUint64(head, snapshotFormat)
	head = binary.LittleEndian.AppendUint64(head, uint64(w.at))
	head = appendSum(head)
	w.sum = [16]byte(head[24:])
	w.off = snapshotHeader
	return writeAt(w.f, head, 0)
}

func (w *snapshotWriter) emit() error {
	w.sum = link(w.sum, w.b)
	w.b = append(w.b, w.sum[:]...)
	err := writeAt(w.f, w.b, w.off)
	w.off += int64(len(w.b))
	w.b = w.b[:4]
	return err
}

// link is the checksum of b behind something with the checksum before.
func link(before [16]byte, b []byte) [16]byte {
	h := sha256.New()
	h.Write(before[:])
	h.Write(b)
	return [16]byte(h.Sum(nil)[:16])
}

// snapshotReader returns what was written, each chunk only once it verifies.
type snapshotReader struct {
	f     File
	name  string
	w     window
	off   int64
	total uint64
	sum   [16]byte
	rest  []byte // of the chunk that verified
	err   error
}

func (r *snapshotReader) Close() error { return r.f.Close() }

func (r *snapshotReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.chunk()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *snapshotReader) begin(at tenure.LSN) error {
	size, err := r.f.Size()
	if err != nil {
		return err
	}
	r.w = window{f: r.f, size: size}
	if size < snapshotHeader {
		return r.damage("the header is incomplete")
	}
	head, err := r.w.read(0, snapshotHeader)
	if err != nil {
		return err
	}
	if string(head[:8]) != string(snapshotMagic[:]) || !intact(head) {
		return r.damage("the header does not verify")
	}
	if v := binary.LittleEndian.Uint64(head[8:]); v != snapshotFormat {
		return newer(r.name, fmt.Errorf("%w: snapshot format %d, this one reads %d", record.ErrVersion, v, snapshotFormat))
	}
	if was := tenure.LSN(binary.LittleEndian.Uint64(head[16:])); was != at {
		return r.damage("it was taken at LSN %d: files were renamed", was)
	}
	r.sum = [16]byte(head[24:])
	r.off = snapshotHeader
	return nil
}

// chunk returns the next chunk, io.EOF behind the end, or what is wrong.
func (r *snapshotReader) chunk() ([]byte, error) {
	left := r.w.size - r.off
	if left < 4+16 {
		return nil, r.damage("it ends before its end")
	}
	head, err := r.w.read(r.off, 4)
	if err != nil {
		return nil, explain("read", r.name, err)
	}
	n := int64(binary.LittleEndian.Uint32(head))
	end := n == 0
	if end {
		n = 8
	}
	if n > chunkBytes || left < 4+n+16 {
		return nil, r.damage("a chunk of %d bytes does not fit", n)
	}
	b, err := r.w.read(r.off, int(4+n+16))
	if err != nil {
		return nil, explain("read", r.name, err)
	}
	data, sum := b[:4+n], [16]byte(b[4+n:])
	if r.sum = link(r.sum, data); r.sum != sum {
		return nil, r.damage("a chunk does not verify")
	}
	if !end {
		r.off += int64(len(b))
		r.total += uint64(n)
		return data[4:], nil
	}
	if left != 4+n+16 || binary.LittleEndian.Uint64(data[4:]) != r.total {
		return nil, r.damage("it goes on behind its end")
	}
	return nil, io.EOF
}

func (r *snapshotReader) damage(what string, args ...any) error {
	return &Damage{
		File:   r.name,
		Offset: r.off,
		What:   fmt.Sprintf(what, args...),
		Remedy: "an older snapshot replaces it, if the records behind that one are still there; if not, restore the latest backup into a new directory",
	}
}
