package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// cursor reads the records of one segment, each verified, and verified to
// follow the one before.
type cursor struct {
	w      *window
	seg    segment
	off    int64 // behind the last record that was read
	size   int64 // where reading ends
	chain  record.Chain
	sealed bool
}

func newCursor(w *window, seg segment, size int64) *cursor {
	return &cursor{w: w, seg: seg, off: segmentHeader, size: size, chain: seg.before}
}

// next reads one record. ErrShort and ErrCorrupt mean that none verifies at the
// offset, ErrVersion and ErrChain that one does, and cannot be used; any other
// error is one of reading.
func (c *cursor) next() (record.Record, error) {
	if c.sealed || c.size-c.off < frameBytes {
		return record.Record{}, record.ErrShort
	}
	head, err := c.w.read(c.off, frameBytes)
	if err != nil {
		return record.Record{}, err
	}
	if tag(head[:tagBytes]) != c.seg.tag {
		return record.Record{}, record.ErrCorrupt
	}
	_, n, err := record.Peek(head[tagBytes:])
	if err != nil {
		return record.Record{}, err
	}
	if c.size-c.off < int64(tagBytes+n) {
		return record.Record{}, record.ErrShort
	}
	frame, err := c.w.read(c.off, tagBytes+n)
	if err != nil {
		return record.Record{}, err
	}
	r, _, err := record.Decode(frame[tagBytes:])
	if err != nil {
		return record.Record{}, err
	}
	if err := c.chain.Next(&r); err != nil {
		return record.Record{}, err
	}
	c.off += int64(tagBytes + n)
	c.sealed = r.Kind == record.KindSeal
	return r, nil
}

// skip reads as far as records verify, and says why no further.
func (c *cursor) skip() error {
	for {
		if _, err := c.next(); err != nil {
			return err
		}
	}
}

// judge decides what the place is at which skip stopped because of why: the end
// of the log, the incomplete record that a crash left there (cut says how many
// bytes it has), or damage. Only one record is ever on its way to the disk, it
// is written at this place, and the rest of the file is zero. So whatever shows
// that a record was begun behind this place shows that the one here had been
// complete.
func (c *cursor) judge(why error, last bool) (cut int64, err error) {
	switch {
	case errors.Is(why, record.ErrVersion):
		return 0, newer(c.seg.name, why)
	case errors.Is(why, record.ErrChain):
		return 0, c.damage(why, "a record verifies that does not belong there")
	case !errors.Is(why, record.ErrShort) && !errors.Is(why, record.ErrCorrupt):
		return 0, explain("read", c.seg.name, why)
	}
	rest, err := survey(c.w.f, c.off, c.size, c.seg.tag)
	if err != nil {
		return 0, explain("read", c.seg.name, err)
	}
	switch {
	case c.sealed && rest.used > 0:
		return 0, c.damage(nil, "something stands behind the seal, which is the end")
	case rest.tagAt > 0:
		return 0, c.damage(why, "no record verifies here, and another one stands behind it, at offset %d", rest.tagAt)
	case c.size < c.seg.room && !c.sealed:
		return 0, c.damage(nil, "the file has %d bytes, and was made with %d", c.size, c.seg.room)
	case rest.used == 0:
		return 0, nil
	case !last:
		return 0, c.damage(why, "no record verifies here, and more files follow")
	}
	if extent, known := c.extent(); known && rest.used > extent {
		return 0, c.damage(why, "no record verifies here, and bytes stand behind its %d", extent)
	}
	return rest.used, nil
}

// extent is the size of the record at the cursor, if its header is whole. A
// header lies in two sectors at most, and each is written whole or not at all:
// with the beginning and the end, everything between them is there.
func (c *cursor) extent() (int64, bool) {
	if c.size-c.off < frameBytes {
		return 0, false
	}
	head, err := c.w.read(c.off, frameBytes)
	if err != nil || tag(head[:tagBytes]) != c.seg.tag || head[frameBytes-1] == 0 {
		return 0, false
	}
	r, n, err := record.Peek(head[tagBytes:])
	return int64(tagBytes + n), err == nil && r.Prev == c.chain.Sum
}

func (c *cursor) damage(cause error, what string, args ...any) *Damage {
	return &Damage{File: c.seg.name, Offset: c.off, What: fmt.Sprintf(what, args...), Cause: cause}
}

// Records implements journal.Log. The bodies belong to the caller.
func (l *Log) Records(from tenure.LSN) iter.Seq2[record.Record, error] {
	l.mu.Lock()
	segs := slices.Clone(l.segs)
	l.mu.Unlock()
	return func(yield func(record.Record, error) bool) {
		for i := range segs {
			unwanted := segs[i].tip.Last < from || segs[i].end == segmentHeader
			if !unwanted && !l.replay(segs[i], from, yield) {
				return
			}
		}
	}
}

// replay yields the records of one segment; false means that it is over.
func (l *Log) replay(seg segment, from tenure.LSN, yield func(record.Record, error) bool) bool {
	f, err := l.fs.Open(seg.name, false)
	if errors.Is(err, fs.ErrNotExist) {
		err = &tenure.Error{Code: tenure.ErrCompacted, LSN: from, Why: seg.name + " was trimmed while it was to be read: read again from a snapshot", Cause: err}
	}
	if err != nil {
		yield(record.Record{}, explain("open", seg.name, err))
		return false
	}
	defer f.Close()
	c := newCursor(&window{f: f, size: seg.end, keep: true}, seg, seg.end)
	for c.off < seg.end {
		r, err := c.next()
		if errors.Is(err, record.ErrShort) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrChain) {
			err = c.damage(err, "a record that was there does not verify any more")
		}
		if err != nil {
			yield(record.Record{}, explain("read", seg.name, err))
			return false
		}
		if r.Last >= from && !yield(r, nil) {
			return false
		}
	}
	return true
}

// window reads ahead in a file.
type window struct {
	f    File
	size int64
	at   int64  // offset of b
	b    []byte // what was read
	keep bool   // leave what was handed out alone
}

const readAhead = 256 << 10

// read returns the n bytes at off, which are valid until the next read, or for
// ever with keep. They have to lie below the size.
func (w *window) read(off int64, n int) ([]byte, error) {
	if off >= w.at && off+int64(n) <= w.at+int64(len(w.b)) {
		return w.b[off-w.at:][:n:n], nil
	}
	want := int(min(w.size-off, int64(max(n, readAhead))))
	if want < n {
		return nil, io.ErrUnexpectedEOF
	}
	if w.keep || cap(w.b) < want {
		w.b = make([]byte, want)
	}
	w.at, w.b = off, w.b[:want]
	got, err := w.f.ReadAt(w.b, off)
	if got == want {
		return w.b[:n:n], nil
	}
	w.b = w.b[:0]
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// remains is what stands behind the last record.
type remains struct {
	used  int64 // bytes up to the last that is not zero
	tagAt int64 // offset of the tag of a later record; 0 if there is none
}

// survey reads what is in a file from an offset on.
func survey(f File, from, size int64, mark tag) (remains, error) {
	var found remains
	w := window{f: f, size: size}
	for at := from; at < size; {
		n := int(min(size-at, readAhead))
		b, err := w.read(at, n)
		if err != nil {
			return remains{}, err
		}
		if used := len(bytes.TrimRight(b, "\x00")); used > 0 {
			found.used = at - from + int64(used)
		}
		skip := 0
		if at == from {
			skip = 1
		}
		if i := bytes.Index(b[min(skip, n):], mark[:]); i >= 0 && found.tagAt == 0 {
			found.tagAt = at + int64(skip+i)
		}
		if at+int64(n) == size {
			break
		}
		at += int64(n) - (tagBytes - 1) // a tag may lie across
	}
	return found, nil
}
