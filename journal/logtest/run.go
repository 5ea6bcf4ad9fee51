// Package logtest holds the suite that every journal.Log passes.
package logtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/record"
)

// Subject is a log under test.
type Subject struct {
	// Log is empty, and open.
	Log journal.Log
	// Reopen opens again what the last log left when it was closed.
	Reopen func() journal.Log
}

// Run runs the suite, with a subject of its own for each case.
func Run(t *testing.T, start func(t *testing.T) Subject) {
	cases := []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"AppendAndRead", appendAndRead},
		{"ReadFromAnywhere", readFromAnywhere},
		{"AppendOnlyBehindTheLast", appendOnlyBehindTheLast},
		{"KindsAndJumps", kindsAndJumps},
		{"LargeRecords", largeRecords},
		{"BodiesStay", bodiesStay},
		{"ReadWhatWasThere", readWhatWasThere},
		{"ReadBesideAppend", readBesideAppend},
		{"StopReading", stopReading},
		{"Trim", trim},
		{"TrimKeepsTheLast", trimKeepsTheLast},
		{"Snapshots", snapshots},
		{"SnapshotReplaced", snapshotReplaced},
		{"SnapshotFails", snapshotFails},
		{"SnapshotMissing", snapshotMissing},
		{"Closed", closed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, start(t)) })
	}
}

// proves: T9, T11
func appendAndRead(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	Equal(t, s.Log, 0, nil)
	for i := range 40 {
		h.Commands(t, i%4, strings.Repeat("x", i*7))
	}
	Equal(t, s.Log, 0, h.Records)
	log := again(t, s)
	Equal(t, log, 0, h.Records)
	h.Log = log
	h.Commands(t, 2, "after the reopening")
	Equal(t, log, 0, h.Records)
}

func readFromAnywhere(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for i := range 30 {
		h.Commands(t, 1+i%3, "body")
	}
	for from := tenure.LSN(0); from <= h.Tip.Last+2; from++ {
		i := slices.IndexFunc(h.Records, func(r record.Record) bool { return r.Last >= from })
		want := h.Records[len(h.Records):]
		if i >= 0 {
			want = h.Records[i:]
		}
		Equal(t, s.Log, from, want)
	}
}

// A record is refused unless it follows the last one in every respect, nothing
// is written, and the log goes on.
func appendOnlyBehindTheLast(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	h.Slot = 3
	h.Commands(t, 2, "one")
	h.Commands(t, 2, "two") // in slot 5
	wrong := map[string]record.Record{
		"another predecessor": {Kind: record.KindCommands, First: 5, Last: 5, Slot: 5, Prev: h.Records[0].Sum},
		"none":                {Kind: record.KindCommands, First: 5, Last: 5, Slot: 5},
		"an LSN again":        {Kind: record.KindCommands, First: 4, Last: 5, Slot: 5, Prev: h.Tip.Sum},
		"a gap":               {Kind: record.KindCommands, First: 6, Last: 6, Slot: 5, Prev: h.Tip.Sum},
		"a jump back":         {Kind: record.KindJump, First: 3, Last: 3, Slot: 5, Prev: h.Tip.Sum},
		"a slot back":         {Kind: record.KindCommands, First: 5, Last: 5, Slot: 4, Prev: h.Tip.Sum},
	}
	for name, r := range wrong {
		if err := s.Log.Append(r.Prev, record.Append(nil, &r)); !errors.Is(err, record.ErrChain) {
			t.Errorf("append %s: %v, want ErrChain", name, err)
		}
	}
	right := record.Record{Kind: record.KindCommands, First: 5, Last: 5, Slot: 5, Prev: h.Tip.Sum}
	b := record.Append(nil, &right)
	if err := s.Log.Append(h.Records[0].Sum, b); !errors.Is(err, record.ErrChain) {
		t.Errorf("append behind another record than it says: %v, want ErrChain", err)
	}
	if err := s.Log.Append(h.Tip.Sum, b[:len(b)-1]); err == nil {
		t.Error("half a record was appended")
	}
	if err := s.Log.Append(h.Tip.Sum, append(slices.Clone(b), 0)); err == nil {
		t.Error("a record and a byte were appended")
	}
	Equal(t, s.Log, 0, h.Records)
	h.Commands(t, 1, "three")
	Equal(t, again(t, s), 0, h.Records)
}

func kindsAndJumps(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	jump := record.AppendJump(nil, record.Jump{Reason: "a new store"})
	h.Append(t, record.Record{Kind: record.KindJump, First: 1000, Last: 1000, Body: jump})
	h.Commands(t, 3, "a")
	h.Append(t, record.Record{Kind: record.KindSeal, First: h.Tip.Last + 1, Last: h.Tip.Last})
	h.Log = again(t, s)
	Equal(t, h.Log, 0, h.Records)
	h.Commands(t, 1, "behind a seal")
	h.Append(t, record.Record{Kind: record.KindSeal, First: h.Tip.Last + 1, Last: h.Tip.Last})
	s.Log = h.Log
	h.Log = again(t, s)
	h.Append(t, record.Record{Kind: record.KindSeal, First: h.Tip.Last + 1, Last: h.Tip.Last})
	h.Append(t, record.Record{Kind: record.KindJump, First: h.Tip.Last + 500, Last: h.Tip.Last + 499})
	h.Commands(t, 1, "behind a jump that uses none")
	Equal(t, h.Log, 0, h.Records)
}

func largeRecords(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for _, n := range []int{0, 1, 300 << 10, 3, 1 << 20, 256 << 10, 10} {
		h.Commands(t, 1, strings.Repeat("L", n))
	}
	Equal(t, s.Log, 0, h.Records)
	Equal(t, again(t, s), 0, h.Records)
}

// What was appended and what was yielded belongs to the caller afterwards.
func bodiesStay(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for i := range 20 {
		b := h.Commands(t, 1, fmt.Sprintf("body %d", i))
		for j := range b {
			b[j] = 0xff
		}
	}
	Equal(t, s.Log, 0, h.Records)
}

// A sequence has what was there when it was asked for.
func readWhatWasThere(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	h.Commands(t, 1, "a")
	early := s.Log.Records(0)
	had := slices.Clone(h.Records)
	h.Commands(t, 1, "b")
	if got := collect(t, early); len(got) != len(had) {
		t.Errorf("%d records, want the %d that were there", len(got), len(had))
	}
	if got := collect(t, early); len(got) != len(had) {
		t.Errorf("read again: %d records, want %d", len(got), len(had))
	}
}

func readBesideAppend(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- readUntil(s.Log, stop) }()
	for i := range 200 {
		h.Commands(t, 1, strings.Repeat("y", i))
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	Equal(t, s.Log, 0, h.Records)
}

// readUntil reads the log again and again: each time what was there before has
// to be there again.
func readUntil(log journal.Log, stop <-chan struct{}) error {
	seen := 0
	for {
		n := 0
		for r, err := range log.Records(0) {
			n++
			if err != nil || r.Last != tenure.LSN(n) {
				return fmt.Errorf("record %d: LSN %d, error %w", n, r.Last, err)
			}
		}
		if n < seen {
			return fmt.Errorf("%d records after %d were seen", n, seen)
		}
		seen = n
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func stopReading(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for range 10 {
		h.Commands(t, 1, "z")
	}
	n := 0
	for range s.Log.Records(0) {
		if n++; n == 3 {
			break
		}
	}
	h.Commands(t, 1, "and on")
	Equal(t, s.Log, 0, h.Records)
}

func trim(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for range 100 {
		h.Commands(t, 1, strings.Repeat("t", 200))
	}
	for before := range tenure.LSN(76) {
		if err := s.Log.Trim(before); err != nil {
			t.Fatal(err)
		}
		Equal(t, s.Log, before, h.Records[max(before, 1)-1:])
		suffix(t, s.Log, h.Records)
	}
	h.Commands(t, 1, "after")
	h.Log = again(t, s)
	suffix(t, h.Log, h.Records)
	Equal(t, h.Log, 75, h.Records[74:])
}

// The position that the next record has to follow can always be read.
func trimKeepsTheLast(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	for range 50 {
		h.Commands(t, 1, strings.Repeat("t", 300))
	}
	h.Append(t, record.Record{Kind: record.KindSeal, First: h.Tip.Last + 1, Last: h.Tip.Last})
	s.Log = again(t, s)
	if err := s.Log.Trim(tenure.MaxLSN); err != nil {
		t.Fatal(err)
	}
	suffix(t, s.Log, h.Records)
	h.Log = again(t, s)
	suffix(t, h.Log, h.Records)
	h.Commands(t, 1, "goes on")
	suffix(t, h.Log, h.Records)
}

// suffix checks that the log has some of the last records, the last included.
func suffix(t *testing.T, log journal.Log, all []record.Record) {
	t.Helper()
	got := collect(t, log.Records(0))
	if len(got) == 0 || len(got) > len(all) {
		t.Fatalf("%d records are left of %d", len(got), len(all))
	}
	same(t, got, all[len(all)-len(got):])
}

func again(t *testing.T, s Subject) journal.Log {
	t.Helper()
	if err := s.Log.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return s.Reopen()
}

func closed(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	h.Commands(t, 1, "a")
	if err := s.Log.Close(); err != nil {
		t.Fatal(err)
	}
	r := record.Record{Kind: record.KindCommands, First: 2, Last: 2, Prev: h.Tip.Sum}
	if err := s.Log.Append(r.Prev, record.Append(nil, &r)); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("append to a closed log: %v, want ErrUnavailable", err)
	}
	Equal(t, s.Reopen(), 0, h.Records)
}

func save(t *testing.T, log journal.Log, at tenure.LSN, b []byte) {
	t.Helper()
	err := log.SaveSnapshot(at, func(w io.Writer) error {
		for part := range slices.Chunk(b, 1000) {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("save snapshot %d: %v", at, err)
	}
}

func wantSnapshot(t *testing.T, log journal.Log, at tenure.LSN, want []byte) {
	t.Helper()
	r, err := log.OpenSnapshot(at)
	if err != nil {
		t.Fatalf("open snapshot %d: %v", at, err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("snapshot %d: %d bytes, %v; want %d bytes", at, len(got), err, len(want))
	}
}
