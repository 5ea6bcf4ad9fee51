package logtest

import (
	"bytes"
	"iter"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/record"
)

// History appends to a log and remembers what it appended.
type History struct {
	Log     journal.Log
	Tip     record.Chain
	Slot    uint64 // of the next record; it never goes back
	Records []record.Record
}

// Encode completes a record so that it follows the last one, and encodes it.
func (h *History) Encode(r *record.Record) []byte {
	r.Prev, r.Slot = h.Tip.Sum, max(h.Slot, h.Tip.Slot)
	return record.Append(nil, r)
}

// Add remembers a record as appended.
func (h *History) Add(r record.Record) {
	h.Records = append(h.Records, r)
	h.Tip = record.Chain{Sum: r.Sum, Last: r.Last, Slot: r.Slot}
}

// Try appends a record behind the last one, and remembers it if that succeeded.
func (h *History) Try(r record.Record) error {
	b := h.Encode(&r)
	err := h.Log.Append(r.Prev, b)
	if err == nil {
		h.Add(r)
	}
	return err
}

// Append is Try for records that have to be appended. It returns the bytes.
func (h *History) Append(t testing.TB, r record.Record) []byte {
	t.Helper()
	b := h.Encode(&r)
	if err := h.Log.Append(r.Prev, b); err != nil {
		t.Fatalf("append LSN %d: %v", r.First, err)
	}
	r.Body = bytes.Clone(r.Body)
	h.Add(r)
	return b
}

// Commands appends a commands record that uses n LSNs.
func (h *History) Commands(t testing.TB, n int, body string) []byte {
	t.Helper()
	h.Slot++
	return h.Append(t, h.Next(n, body))
}

// Next is a commands record that uses the next n LSNs.
func (h *History) Next(n int, body string) record.Record {
	return record.Record{
		Kind:  record.KindCommands,
		Rules: 1,
		First: h.Tip.Last + 1,
		Last:  h.Tip.Last + tenure.LSN(n),
		Wall:  1_700_000_000_000,
		Body:  []byte(body),
	}
}

// Equal checks that the log yields exactly these records.
func Equal(t *testing.T, log journal.Log, from tenure.LSN, want []record.Record) {
	t.Helper()
	same(t, collect(t, log.Records(from)), want)
}

func collect(t *testing.T, seq iter.Seq2[record.Record, error]) []record.Record {
	t.Helper()
	var got []record.Record
	for r, err := range seq {
		if err != nil {
			t.Fatalf("after %d records: %v", len(got), err)
		}
		got = append(got, r)
	}
	return got
}

func same(t *testing.T, got, want []record.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		equal := bytes.Equal(g.Body, w.Body)
		g.Body, w.Body = nil, nil
		if !equal || !sameHeader(g, w) {
			t.Fatalf("record %d is LSN %d to %d, sum %v; want LSN %d to %d, sum %v", i, g.First, g.Last, g.Sum, w.First, w.Last, w.Sum)
		}
	}
}

// sameHeader compares everything but the bodies.
func sameHeader(a, b record.Record) bool {
	return a.Version == b.Version && a.Rules == b.Rules && a.Kind == b.Kind && a.Shard == b.Shard &&
		a.First == b.First && a.Last == b.Last && a.Slot == b.Slot && a.Wall == b.Wall && a.Prev == b.Prev && a.Sum == b.Sum
}
