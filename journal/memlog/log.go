// Package memlog is a journal's log in memory. It is as durable as the process:
// the domain in which an acknowledged change is safe is this program, and
// nothing else. It serves programs that want leases among their own goroutines,
// and tests, for which it can crash ([Log.Crash]) and fail ([Log.Fail]).
package memlog

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// Log is a log in memory. It is safe for concurrent use by one appender and
// any number of readers.
type Log struct {
	mu      sync.Mutex
	records []record.Record
	tip     record.Chain
	snaps   map[tenure.LSN][]byte
	appends int
	flight  bool         // the last record was stored and never acknowledged
	safe    record.Chain // with flight: the position before it
	dead    error
	fail    func(n int) (Moment, error)
}

// New returns an empty log.
func New() *Log { return &Log{snaps: map[tenure.LSN][]byte{}} }

// Moment says when an append that fails does so.
type Moment uint8

const (
	Before Moment = iota // nothing was stored
	After                // the record was stored, and nobody was told
)

// Fail makes appends fail: it is asked before each, with the number of the
// append (1 is the first of this log), and a non-nil error is what the append
// returns. The log is dead from then on, as a disk's is. nil ends it.
func (l *Log) Fail(ask func(n int) (Moment, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = ask
}

// Crash returns what a crash at this moment would leave: a log of its own with
// every acknowledged record, and, if inFlight, the one whose append failed after
// it was stored. l itself goes on.
func (l *Log) Crash(inFlight bool) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &Log{records: slices.Clone(l.records), tip: l.tip, snaps: maps.Clone(l.snaps)}
	if l.flight && !inFlight {
		c.records, c.tip = c.records[:len(c.records)-1], l.safe
	}
	return c
}

// Append implements journal.Log.
func (l *Log) Append(prev record.Sum, rec []byte) error {
	r, n, err := record.Decode(rec)
	if err != nil || n != len(rec) {
		return fmt.Errorf("memlog: append what is not one record of %d bytes: %w", len(rec), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return l.dead
	}
	next := l.tip
	if prev != r.Prev {
		return fmt.Errorf("memlog: append behind %v: %w", prev, record.ErrChain)
	}
	if err := next.Next(&r); err != nil {
		return fmt.Errorf("memlog: append: %w", err)
	}
	l.appends++
	var when Moment
	var fault error
	if l.fail != nil {
		when, fault = l.fail(l.appends)
	}
	if fault != nil {
		l.dead = &tenure.Error{Code: tenure.ErrHalted, Why: "an append to the log in memory failed", Cause: fault}
		if when == Before {
			return l.dead
		}
		l.flight, l.safe = true, l.tip
	}
	r.Body = bytes.Clone(r.Body)
	l.records = append(l.records, r)
	l.tip = next
	return l.dead
}

// Records implements journal.Log.
func (l *Log) Records(from tenure.LSN) iter.Seq2[record.Record, error] {
	l.mu.Lock()
	known := slices.Clone(l.records)
	if l.flight {
		known = known[:len(known)-1]
	}
	l.mu.Unlock()
	return func(yield func(record.Record, error) bool) {
		for _, r := range known {
			if r.Last >= from && !yield(r, nil) {
				return
			}
		}
	}
}

// Trim implements journal.Log. The last record is always kept.
func (l *Log) Trim(before tenure.LSN) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return l.dead
	}
	old := 0
	for old < len(l.records)-1 && l.records[old].Last < before {
		old++
	}
	l.records = slices.Delete(l.records, 0, old)
	return nil
}

// SaveSnapshot implements journal.Log.
func (l *Log) SaveSnapshot(at tenure.LSN, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snaps[at] = b.Bytes()
	return nil
}

// Snapshots implements journal.Log.
func (l *Log) Snapshots() ([]tenure.LSN, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := slices.Sorted(maps.Keys(l.snaps))
	slices.Reverse(kept)
	return kept, nil
}

// OpenSnapshot implements journal.Log.
func (l *Log) OpenSnapshot(at tenure.LSN) (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.snaps[at]
	if !ok {
		return nil, missing(at)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// RemoveSnapshot implements journal.Log.
func (l *Log) RemoveSnapshot(at tenure.LSN) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.snaps[at]; !ok {
		return missing(at)
	}
	delete(l.snaps, at)
	return nil
}

// Close implements journal.Log. The log refuses appends from then on; what it
// holds can still be read, and taken over by [Log.Crash].
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead == nil {
		l.dead = &tenure.Error{Code: tenure.ErrUnavailable, Why: "the log in memory is closed"}
	}
	return nil
}

func missing(at tenure.LSN) error {
	return &tenure.Error{Code: tenure.ErrNotFound, LSN: at, Why: fmt.Sprintf("there is no snapshot at LSN %d", at)}
}
