package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// Log is a journal's log in a directory. It implements journal.Log: one
// goroutine appends, everything else may run beside it.
type Log struct {
	fs   FS
	dir  string
	opt  Options
	lock io.Closer // nil: reading a directory that has no lock file

	// The appender's own.
	active File // nil: the last file is sealed
	buf    []byte

	trimming sync.Mutex
	snapping sync.Mutex

	mu   sync.Mutex // guards what follows
	segs []segment  // oldest first, never empty; the last one is written to
	dead error      // why nothing is written any more
}

// Open opens the journal in a directory, or makes one where there is none or an
// empty one. It reads and verifies all of it; what it found, and did, is in the
// report.
//
// The error is a [*Damage], or a [*tenure.Error]: ErrDenied (permission, a
// read-only file system), ErrFull (no space), ErrUnavailable (in use by another
// process, or the system refused something), ErrUnsupported (written by a newer
// version), ErrInvalid (not a journal, or not a directory), ErrNotFound (to be
// read only, and not there).
func Open(fsys FS, dir string, opt Options) (*Log, Report, error) {
	opt = opt.withDefaults()
	l := &Log{fs: fsys, dir: dir, opt: opt}
	report, err := l.open()
	if err != nil {
		l.release()
		return nil, report, err
	}
	return l, report, nil
}

// Options of [Open]. The zero value is for production.
type Options struct {
	// SegmentBytes is the size of a file of the log, 64 MiB by default. A
	// record that is larger gets a file of its own.
	SegmentBytes int64

	// ReadOnly changes nothing in the directory: [Report] says what would be
	// done. The lock is shared with other readers.
	ReadOnly bool

	// Now and Rand are the system's clock and random source by default.
	Now  func() time.Time
	Rand io.Reader
}

const leastSegment = 1 << 10

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	o.SegmentBytes = max(o.SegmentBytes, leastSegment)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return o
}

// Report is what [Open] found and did, or would do if it only reads.
type Report struct {
	Created bool // there was no journal
	Sealed  bool // the last record is a seal: nothing is missing

	// Cut says that an incomplete record was at the end, where it was, and how
	// many bytes of it. It is reported again by every open until something is
	// appended in its place, so that the LSN jump that has to follow a cut is
	// never forgotten.
	Cut       bool
	CutFile   string
	CutOffset int64
	CutBytes  int64

	// Rewritten says that the last file was not known to be durable, and was
	// written again.
	Rewritten bool

	Tip      record.Chain // what the next record has to follow
	First    tenure.LSN   // the lowest LSN that a kept record may have
	Segments int
	Bytes    int64 // of the records in them, headers included
}

// Append implements journal.Log: one write and one sync. A record that does not
// follow the last one is refused with an error that is [record.ErrChain], and
// nothing happened. Any other error is final: the log is dead, and whether the
// record will be found by the next Open is not known.
func (l *Log) Append(prev record.Sum, rec []byte) error {
	l.mu.Lock()
	seg, err := l.segs[len(l.segs)-1], l.dead
	l.mu.Unlock()
	if err != nil {
		return err
	}
	r, n, err := record.Peek(rec)
	if err != nil || n != len(rec) {
		return fmt.Errorf("wal: append what is not one record: %w", errors.Join(err, record.ErrCorrupt))
	}
	tip := seg.tip
	if prev != r.Prev {
		return fmt.Errorf("wal: append behind %v: %w", prev, record.ErrChain)
	}
	if err := tip.Next(&r); err != nil {
		return fmt.Errorf("wal: append: %w", err)
	}
	if seg.sealed || seg.end+int64(tagBytes+len(rec)) >= seg.size {
		if seg, err = l.rotate(seg, len(rec)); err != nil {
			return l.die("start a new file behind", seg.name, err)
		}
	}
	return l.write(seg, tip, r.Kind == record.KindSeal, rec)
}

// write makes the record durable in the active segment, and then known.
func (l *Log) write(seg segment, tip record.Chain, seal bool, rec []byte) error {
	l.buf = append(append(l.buf[:0], seg.tag[:]...), rec...)
	defer l.shrink()
	if err := writeAt(l.active, l.buf, seg.end); err != nil {
		return l.die("write to", seg.name, err)
	}
	if err := l.active.Sync(); err != nil {
		return l.die("sync", seg.name, err)
	}
	seg.end += int64(len(l.buf))
	seg.tip, seg.sealed = tip, seal
	if seal && l.active.Truncate(seg.end) == nil {
		// A file that ends with a seal, and not with spare room, says that the
		// seal was synced: it needs no rewriting when it is opened.
		seg.size = seg.end
	}
	l.mu.Lock()
	l.segs[len(l.segs)-1] = seg
	l.mu.Unlock()
	return nil
}

// shrink gives back the buffer of an exceptionally large record.
func (l *Log) shrink() {
	if cap(l.buf) > 4<<20 {
		l.buf = nil
	}
}

// rotate goes on in a new segment. There is always room behind the last record
// of a file, or its length would say that it is sealed.
func (l *Log) rotate(old segment, n int) (segment, error) {
	s, err := l.newSegment(old.seq+1, old.tip)
	if err != nil {
		return old, err
	}
	f, err := l.create(&s, max(l.opt.SegmentBytes, segmentHeader+tagBytes+int64(n)+1))
	if err != nil {
		return old, err
	}
	if l.active != nil {
		l.active.Close() // all of it is durable
	}
	l.active = f
	l.mu.Lock()
	l.segs = append(l.segs, s)
	l.mu.Unlock()
	return s, nil
}

// die makes the log refuse everything from now on.
func (l *Log) die(doing, name string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead == nil {
		l.dead = dead(doing, name, err)
	}
	return l.dead
}

// alive is the error of a log that must not be written to.
func (l *Log) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Trim implements journal.Log: it removes whole files, the oldest first, and
// never the one with the last record.
func (l *Log) Trim(before tenure.LSN) error {
	l.trimming.Lock()
	defer l.trimming.Unlock()
	for {
		name, err := l.trimmable(before)
		if err != nil || name == "" {
			return err
		}
		if err := l.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain("remove", name, err)
		}
		// The next one goes only when this one is gone for good: a crash must
		// not bring it back without its successor.
		if err := l.fs.SyncDir(l.dir); err != nil {
			return l.die("sync directory", l.dir, err)
		}
		l.mu.Lock()
		l.segs = slices.Delete(l.segs, 0, 1)
		l.mu.Unlock()
	}
}

// trimmable is the name of the oldest file, if all its records may be
// forgotten and a later file has a record.
func (l *Log) trimmable(before tenure.LSN) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return "", l.dead
	}
	old := l.segs[0]
	behind := l.segs[len(l.segs)-1].tip.Sum != old.tip.Sum
	if !behind || old.tip.Last >= before {
		return "", nil
	}
	return old.name, nil
}

// Close implements journal.Log. It may not run beside other calls.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.dead == nil {
		l.dead = &tenure.Error{Code: tenure.ErrUnavailable, Why: "the journal in " + l.dir + " is closed: open it again"}
	}
	l.mu.Unlock()
	return explain("close", filepath.Join(l.dir, lockName), l.release())
}

func (l *Log) release() error {
	var errs []error
	if l.active != nil {
		errs = append(errs, l.active.Close())
		l.active = nil
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
		l.lock = nil
	}
	return errors.Join(errs...)
}
