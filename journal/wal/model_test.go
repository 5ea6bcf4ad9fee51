package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/logtest"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

const dir = "data/journal"

// small makes files of a few records, the same ones each time.
func small() wal.Options {
	return wal.Options{
		SegmentBytes: 2 << 10,
		Now:          func() time.Time { return time.Unix(1_700_000_000, 0) },
		Rand:         rand.NewChaCha8([32]byte{1}),
	}
}

// model drives a log and knows what must be found after a crash at any moment.
type model struct {
	fs   *faultfs.FS
	log  *wal.Log
	h    logtest.History // what was acknowledged
	sent *record.Record  // what is being appended

	before  tenure.LSN // records below may be gone
	snaps   map[tenure.LSN][]byte
	current tenure.LSN // of the snapshot being written or removed; 0: none
	writing []byte     // nil: being removed

	cuts int // how many checks met one
}

func newModel(fs *faultfs.FS) *model { return &model{fs: fs, snaps: map[tenure.LSN][]byte{}} }

func (m *model) open() (err error) {
	m.log, _, err = wal.Open(m.fs, dir, small())
	m.h.Log = m.log
	return err
}

func (m *model) append(r record.Record) error {
	b := m.h.Encode(&r)
	m.sent = &r
	if err := m.log.Append(r.Prev, b); err != nil {
		return err
	}
	m.sent = nil
	m.h.Add(r)
	return nil
}

func (m *model) commands(sizes ...int) error {
	for i, n := range sizes {
		m.h.Slot++
		body := strings.Repeat(fmt.Sprintf("%d.%d ", m.h.Tip.Last, i), n/4+1)
		if err := m.append(m.h.Next(1+i%3, body)); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) seal() error {
	return m.append(record.Record{Kind: record.KindSeal, First: m.h.Tip.Last + 1, Last: m.h.Tip.Last})
}

func (m *model) trim(before tenure.LSN) error {
	m.before = max(m.before, before)
	return m.log.Trim(before)
}

func (m *model) save(at tenure.LSN, n int) error {
	m.current, m.writing = at, bytes.Repeat([]byte{byte(n), 7, 9}, n)
	err := m.log.SaveSnapshot(at, func(w io.Writer) error {
		_, err := w.Write(m.writing)
		return err
	})
	if err != nil {
		return err
	}
	m.snaps[at] = m.writing
	m.current = 0
	return nil
}

func (m *model) drop(at tenure.LSN) error {
	m.current, m.writing = at, nil
	if err := m.log.RemoveSnapshot(at); err != nil {
		return err
	}
	delete(m.snaps, at)
	m.current = 0
	return nil
}

// life is all that can happen to a log: made, written over several files,
// snapshots taken, replaced and removed, trimmed, sealed, opened again, killed,
// and recovered.
func (m *model) life() error {
	steps := []func() error{
		m.open,
		func() error { return m.commands(0, 10, 300, 700, 20) },
		func() error { return m.save(3, 100) },
		func() error { return m.commands(500, 500, 5000, 1, 2) },
		func() error { return m.save(8, 30_000) },
		func() error { return m.save(8, 500) },
		func() error { return m.trim(m.h.Records[7].Last + 1) },
		func() error { return m.drop(3) },
		m.seal, m.close, m.open,
		func() error { return m.commands(40, 600) },
		m.kill, m.open,
		func() error { return m.commands(700, 3, 900) },
		func() error {
			at := m.h.Tip.Last + 5000
			return m.append(record.Record{Kind: record.KindJump, First: at, Last: at, Body: record.AppendJump(nil, record.Jump{From: m.h.Tip.Last, Reason: "a cut"})})
		},
		m.seal,
		func() error { return m.commands(9) },
		m.seal, m.close, m.open, m.seal, m.close, m.open, m.kill, m.open,
		func() error { return m.commands(5) },
		m.close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) kill() error {
	m.fs.Kill()
	return nil
}

func (m *model) close() error { return m.log.Close() }

// check opens what a crash left: the acknowledged records have to be there,
// and nothing else but the one that was on its way. It returns what it found.
func (m *model) check(fs *faultfs.FS) (served, error) {
	l, report, err := wal.Open(fs, dir, small())
	if err != nil {
		return served{}, err
	}
	if report.Cut {
		m.cuts++
	}
	found, err := m.matches(fs, l, report)
	return served{found, report}, errors.Join(err, l.Close())
}

// served is what a log had after it was opened.
type served struct {
	records []record.Record
	report  wal.Report
}

func (m *model) matches(fs *faultfs.FS, l *wal.Log, report wal.Report) ([]record.Record, error) {
	var found []record.Record
	for r, err := range l.Records(0) {
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	if err := m.expected(found, report); err != nil {
		return nil, err
	}
	names, err := fs.List(dir)
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") {
			return nil, fmt.Errorf("%s was left", name)
		}
	}
	return found, errors.Join(err, m.snapshots(l))
}

func (m *model) expected(found []record.Record, report wal.Report) error {
	all := slices.Clone(m.h.Records)
	if m.sent != nil {
		all = append(all, *m.sent)
	}
	if report.Cut && m.sent == nil {
		return fmt.Errorf("a cut of %d bytes was reported, with nothing on its way", report.CutBytes)
	}
	if len(found) == 0 {
		if len(m.h.Records) > 0 {
			return fmt.Errorf("none of %d acknowledged records was found", len(m.h.Records))
		}
		return nil
	}
	start := slices.IndexFunc(all, func(r record.Record) bool { return r.Sum == found[0].Sum })
	if start < 0 {
		return fmt.Errorf("the first record found, LSN %d, was never appended", found[0].First)
	}
	end := start + len(found)
	if end < len(m.h.Records) || end > len(all) {
		return fmt.Errorf("records %d to %d were found, %d are acknowledged, %d were sent", start, end, len(m.h.Records), len(all))
	}
	for i, r := range found {
		if all[start+i].Sum != r.Sum || !bytes.Equal(all[start+i].Body, r.Body) {
			return fmt.Errorf("record %d is another one", i)
		}
	}
	if start > 0 && all[start-1].Last >= m.before {
		return fmt.Errorf("LSN %d is gone, and was not to be trimmed", all[start-1].Last)
	}
	sealed := found[len(found)-1].Kind == record.KindSeal
	if report.Sealed != (sealed && !report.Cut) || report.Tip.Sum != found[len(found)-1].Sum {
		return fmt.Errorf("the report %+v does not go with the last record, a %v", report, found[len(found)-1].Kind)
	}
	return nil
}

func (m *model) snapshots(l *wal.Log) error {
	kept, err := l.Snapshots()
	if err != nil {
		return err
	}
	for at := range m.snaps {
		if at != m.current && !slices.Contains(kept, at) {
			return fmt.Errorf("snapshot %d is gone", at)
		}
	}
	for _, at := range kept {
		r, err := l.OpenSnapshot(at)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		r.Close()
		was, known := m.snaps[at]
		asKnown := known && bytes.Equal(b, was)
		asSent := at == m.current && m.writing != nil && bytes.Equal(b, m.writing)
		if err != nil || !asKnown && !asSent {
			return fmt.Errorf("snapshot %d has %d bytes that were not saved (%v)", at, len(b), err)
		}
	}
	return nil
}
