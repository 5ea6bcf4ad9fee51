package logtest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
)

func snapshots(t *testing.T, s Subject) {
	bodies := map[tenure.LSN][]byte{
		0:    {},
		7:    []byte("seven"),
		1000: bytes.Repeat([]byte("k"), 64<<10),
		1001: bytes.Repeat([]byte("m"), 300<<10+17),
		2000: []byte("the last"),
	}
	want := []tenure.LSN{2000, 1001, 1000, 7, 0}
	(&History{Log: s.Log}).Commands(t, 2000, "what they are taken of")
	for at, b := range bodies {
		save(t, s.Log, at, b)
	}
	check := func(log journal.Log) {
		t.Helper()
		got, err := log.Snapshots()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("snapshots: %v, %v; want %v", got, err, want)
		}
		for _, at := range want {
			wantSnapshot(t, log, at, bodies[at])
		}
	}
	check(s.Log)
	s.Log = again(t, s)
	check(s.Log)
	if err := s.Log.RemoveSnapshot(1000); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(at tenure.LSN) bool { return at == 1000 })
	check(s.Log)
	check(again(t, s))
}

func snapshotReplaced(t *testing.T, s Subject) {
	(&History{Log: s.Log}).Commands(t, 5, "what it is taken of")
	save(t, s.Log, 5, bytes.Repeat([]byte("old"), 100))
	save(t, s.Log, 5, []byte("new"))
	wantSnapshot(t, s.Log, 5, []byte("new"))
	wantSnapshot(t, again(t, s), 5, []byte("new"))
}

// A snapshot whose writing fails leaves what was there.
func snapshotFails(t *testing.T, s Subject) {
	h := History{Log: s.Log}
	h.Commands(t, 6, "what they are taken of")
	save(t, s.Log, 5, []byte("whole"))
	stop := errors.New("no more")
	for _, at := range []tenure.LSN{5, 6} {
		err := s.Log.SaveSnapshot(at, func(w io.Writer) error {
			_, err := w.Write(make([]byte, 100<<10))
			return errors.Join(err, stop)
		})
		if !errors.Is(err, stop) {
			t.Errorf("save snapshot %d: %v, want the writer's error", at, err)
		}
	}
	wantSnapshot(t, s.Log, 5, []byte("whole"))
	got, err := s.Log.Snapshots()
	if err != nil || !slices.Equal(got, []tenure.LSN{5}) {
		t.Errorf("snapshots: %v, %v; want 5 alone", got, err)
	}
	h.Commands(t, 1, "the log goes on")
}

func snapshotMissing(t *testing.T, s Subject) {
	if _, err := s.Log.OpenSnapshot(9); !errors.Is(err, tenure.ErrNotFound) {
		t.Errorf("open: %v, want ErrNotFound", err)
	}
	if err := s.Log.RemoveSnapshot(9); !errors.Is(err, tenure.ErrNotFound) {
		t.Errorf("remove: %v, want ErrNotFound", err)
	}
}
