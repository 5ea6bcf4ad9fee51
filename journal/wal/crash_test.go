package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

// keeps are the ways in which a crash treats what was not synced.
func keeps(seed, subsets int) []faultfs.Keep {
	all := []faultfs.Keep{faultfs.Nothing, faultfs.Everything}
	for i := range subsets {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		all = append(all, func(n int) int { return rng.IntN(n + 1) })
	}
	return all
}

// crashes runs act on fs and gives every image that a crash behind one of its
// operations may leave to see.
func crashes(fs *faultfs.FS, subsets int, act func() error, see func(op faultfs.Op, image *faultfs.FS) error) error {
	var errs []error
	fs.After = func(op faultfs.Op) {
		for i, keep := range keeps(op.N, subsets) {
			if err := see(op, fs.Crash(keep)); err != nil && len(errs) < 5 {
				errs = append(errs, fmt.Errorf("crash behind operation %d, %s %s, image %d: %w", op.N, op.Kind, op.Name, i, err))
			}
		}
	}
	err := act()
	fs.After = nil
	return errors.Join(append(errs, err)...)
}

// Every crash point of a log's life, and of each recovery: what was
// acknowledged is there, and again after a second crash in or after the
// recovery.
//
// proves: T11
func TestT11_EveryCrashPoint(t *testing.T) {
	subsets, inner := 8, 1
	if testing.Short() || raceEnabled {
		subsets, inner = 1, 0
	}
	images := 0
	m := newModel(faultfs.New())
	err := crashes(m.fs, subsets, m.life, func(op faultfs.Op, image *faultfs.FS) error {
		images++
		var found served
		check := func() (err error) {
			found, err = m.check(image)
			return err
		}
		// The recovery may crash at any point itself.
		err := crashes(image, inner, check, func(_ faultfs.Op, again *faultfs.FS) error {
			images++
			_, err := m.check(again)
			return err
		})
		if err != nil {
			return err
		}
		return m.twice(image, found)
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.cuts < images/200 {
		t.Errorf("%d of %d images had a tail to cut", m.cuts, images)
	}
	t.Logf("%d images of %d operations, %d with a tail to cut", images, m.fs.Ops(), m.cuts)
}

// twice checks that what a recovery served stays: after a power cut that takes
// everything unsynced, and together with a record that is appended then.
func (m *model) twice(fs *faultfs.FS, found served) error {
	after := fs.Crash(faultfs.Nothing)
	l, report, err := wal.Open(after, dir, small())
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	if report.Cut != found.report.Cut || report.CutOffset != found.report.CutOffset {
		return fmt.Errorf("a cut is forgotten before anything stands in its place: %+v, then %+v", found.report, report)
	}
	var sums []record.Sum
	var tip record.Chain
	for r, err := range l.Records(0) {
		if err != nil {
			return err
		}
		sums = append(sums, r.Sum)
		tip = record.Chain{Sum: r.Sum, Last: r.Last, Slot: r.Slot}
	}
	if !slices.EqualFunc(sums, found.records, func(s record.Sum, r record.Record) bool { return s == r.Sum }) {
		return fmt.Errorf("%d records were served after the recovery, and %d after the next crash", len(found.records), len(sums))
	}
	if err := keepsLast(l, tip); err != nil {
		return err
	}
	next := record.Record{Kind: record.KindCommands, First: tip.Last + 1, Last: tip.Last + 1, Slot: tip.Slot, Prev: tip.Sum, Body: []byte("goes on")}
	if err := l.Append(next.Prev, record.Append(nil, &next)); err != nil {
		return err
	}
	l, report, err = wal.Open(after.Crash(faultfs.Nothing), dir, small())
	if err != nil {
		return fmt.Errorf("open after going on: %w", err)
	}
	if report.Tip.Sum != next.Sum || report.Cut {
		return fmt.Errorf("a record that was acknowledged after the recovery is gone: %+v", report)
	}
	return l.Close()
}

// keepsLast trims all that can be trimmed: the last record has to stay.
func keepsLast(l *wal.Log, tip record.Chain) error {
	if err := l.Trim(tenure.MaxLSN); err != nil {
		return err
	}
	var last record.Sum
	for r, err := range l.Records(0) {
		if err != nil {
			return err
		}
		last = r.Sum
	}
	if last != tip.Sum {
		return errors.New("the last record was trimmed")
	}
	return nil
}

// Every operation of a log's life fails in every way. The log acknowledges
// nothing more, and what the next process serves from what the system still has
// in memory survives a power cut.
//
// proves: T11
func TestT11_EveryFailure(t *testing.T) {
	whole := newModel(faultfs.New())
	if err := whole.life(); err != nil {
		t.Fatal(err)
	}
	faults := map[string]faultfs.Fault{
		"EIO":                         {Err: syscall.EIO},
		"ENOSPC":                      {Err: syscall.ENOSPC},
		"EIO, and done":               {Err: syscall.EIO, Done: true},
		"short":                       {Err: syscall.ENOSPC, Part: 100},
		"short by a sector":           {Err: syscall.EIO, Part: 512},
		"EIO, and the pages are lost": {Err: syscall.EIO, Lost: true},
	}
	for name, fault := range faults {
		for n := 1; n <= whole.fs.Ops(); n++ {
			if err := failAt(n, fault); err != nil {
				t.Errorf("%s at operation %d: %v", name, n, err)
			}
		}
	}
}

func failAt(n int, fault faultfs.Fault) error {
	m := newModel(faultfs.New())
	var hit faultfs.Op
	m.fs.Before = func(op faultfs.Op) faultfs.Fault {
		if op.N != n {
			return faultfs.Fault{}
		}
		hit = op
		if fault.Lost && op.Kind != faultfs.Sync || fault.Part > 0 && op.Kind != faultfs.Write {
			return faultfs.Fault{Err: fault.Err}
		}
		return fault
	}
	err := m.life()
	m.fs.Before = nil
	if err == nil && hit.Kind != faultfs.Truncate {
		return fmt.Errorf("%s %s failed, and nobody noticed", hit.Kind, hit.Name)
	}
	if err != nil && !errors.Is(err, fault.Err) {
		return fmt.Errorf("%s %s: the error is %w", hit.Kind, hit.Name, err)
	}
	if m.sent != nil {
		if err := m.halted(); err != nil {
			return err
		}
	}
	m.fs.Kill()
	found, err := m.check(m.fs)
	if err != nil {
		return fmt.Errorf("%s %s: reopen: %w", hit.Kind, hit.Name, err)
	}
	if err := m.twice(m.fs, found); err != nil {
		return fmt.Errorf("%s %s: %w", hit.Kind, hit.Name, err)
	}
	return nil
}

// halted checks that a log whose append failed does nothing any more.
func (m *model) halted() error {
	ops := m.fs.Ops()
	r := m.h.Next(1, "once more")
	err := m.log.Append(m.h.Tip.Sum, m.h.Encode(&r))
	if !errors.Is(err, tenure.ErrHalted) || m.log.Trim(1) == nil || m.log.RemoveSnapshot(8) == nil {
		return fmt.Errorf("the log goes on after a failed append: %v", err)
	}
	if now := m.fs.Ops(); now != ops {
		return fmt.Errorf("%d operations after a failed append", now-ops)
	}
	return nil
}

// A process that ends while a snapshot gets its name may leave one that is seen
// and not durable, beside a log that was sealed. Once served, it stays.
//
// proves: T11
func TestT11_SnapshotSeenIsDurable(t *testing.T) {
	m := made(t, 4<<10, "one")
	m.fs.Before = func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.SyncDir {
			return faultfs.Fault{}
		}
		if err := m.seal(); err != nil {
			t.Error(err)
		}
		m.fs.Kill()
		return faultfs.Fault{Err: syscall.EIO}
	}
	if err := m.save(1, 50); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	m.fs.Before = nil
	l, report := open(t, m.fs, dir, small())
	if kept, err := l.Snapshots(); err != nil || len(kept) != 1 || !report.Sealed || report.Rewritten {
		t.Fatalf("%v, %v, %+v", kept, err, report)
	}
	l, _ = open(t, m.fs.Crash(faultfs.Nothing), dir, small())
	if kept, err := l.Snapshots(); err != nil || len(kept) != 1 {
		t.Errorf("a snapshot that was served is gone: %v, %v", kept, err)
	}
}
