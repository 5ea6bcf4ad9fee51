package enginetest_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/memlog"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

// proves: T1, T2, T3, T4, T5, T6, T7, T9, T10, T11, T12, T13, T14
func TestJournalInMemory(t *testing.T) {
	enginetest.RunInBubble(t, memory(""))
}

// A tail that was cut off makes the LSN jump; nothing else may differ.
//
// proves: T7
func TestJournalAfterDamage(t *testing.T) {
	enginetest.RunInBubble(t, memory("the tail was cut off"))
}

// Real files, in the time of a bubble.
//
// proves: T7, T11
func TestJournalOnDisk(t *testing.T) {
	enginetest.RunInBubble(t, disk)
}

// memory is a journal over the log in memory, opened after each crash with
// that damage.
func memory(damage string) enginetest.Open {
	return func(t *testing.T, limits tenure.Limits) enginetest.Subject {
		log, inFlight := memlog.New(), false
		e := journalOn(t, log, "", limits)
		return enginetest.Subject{
			Engine: e,
			Restart: func() tenure.Engine {
				log = log.Crash(inFlight)
				shut(t, e)
				e = journalOn(t, log, damage, limits)
				return e
			},
			Recreate: func() tenure.Engine {
				shut(t, e)
				log = memlog.New()
				e = journalOn(t, log, "", limits)
				return e
			},
			Lose: func(executed bool) {
				inFlight = executed
				when := map[bool]memlog.Moment{true: memlog.After, false: memlog.Before}[executed]
				log.Fail(func(int) (memlog.Moment, error) { return when, errLost })
			},
		}
	}
}

var errLost = errors.New("the answer is lost")

// disk is a journal in a directory. A crash is a copy of its files.
func disk(t *testing.T, limits tenure.Limits) enginetest.Subject {
	dir := t.TempDir()
	log := openDir(t, dir)
	e := journalOn(t, log, "", limits)
	reopen := func() tenure.Engine {
		shut(t, e)
		log = openDir(t, dir)
		e = journalOn(t, log, "", limits)
		return e
	}
	return enginetest.Subject{
		Engine: e,
		Restart: func() tenure.Engine {
			dir = crashed(t, dir)
			return reopen()
		},
		Recreate: func() tenure.Engine {
			dir = t.TempDir()
			return reopen()
		},
		Lose: func(executed bool) { log.lose(executed) },
	}
}

func journalOn(t *testing.T, log journal.Log, damage string, limits tenure.Limits) *journal.Engine {
	t.Helper()
	e, err := journal.OpenLog(log, damage, journal.Config{Limits: limits, Clock: clock.Monotonic()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, e) })
	return e
}

// shut closes what is of no use any more, which a failed write may have left
// unable to say a clean goodbye.
func shut(t *testing.T, e *journal.Engine) {
	t.Helper()
	if err := e.Close(); err != nil && e.Halted() == nil {
		t.Errorf("close: %v", err)
	}
}

func openDir(t *testing.T, dir string) *lossy {
	t.Helper()
	log, _, err := wal.Open(wal.OS{}, dir, wal.Options{SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return &lossy{Log: log}
}

// crashed copies what a crash at this moment would leave: everything that was
// written, but no lock.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err == nil && f.Name() != "LOCK" {
			err = os.WriteFile(filepath.Join(to, f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// lossy is a log whose next append can fail, before or after it was stored.
type lossy struct {
	journal.Log
	fails, stores bool
}

// lose is called while nothing is on its way.
func (l *lossy) lose(executed bool) { l.fails, l.stores = true, executed }

func (l *lossy) Append(prev record.Sum, rec []byte) error {
	if !l.fails {
		return l.Log.Append(prev, rec)
	}
	if l.stores {
		if err := l.Log.Append(prev, rec); err != nil {
			return err
		}
	}
	return errLost
}
