package wal_test

import (
	"testing"

	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/logtest"
	"github.com/tenurehq/tenure/journal/wal"
)

// open opens a log that has to open.
func open(t testing.TB, fs wal.FS, dir string, opt wal.Options) (*wal.Log, wal.Report) {
	t.Helper()
	l, report, err := wal.Open(fs, dir, opt)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	t.Cleanup(func() { l.Close() })
	return l, report
}

func TestLog(t *testing.T) {
	for name, size := range map[string]int64{"default": 0, "small files": 4 << 10} {
		t.Run("OS, "+name, func(t *testing.T) { run(t, func(t *testing.T) (wal.FS, string) { return wal.OS{}, t.TempDir() }, size) })
		t.Run("memory, "+name, func(t *testing.T) { run(t, func(t *testing.T) (wal.FS, string) { return faultfs.New(), "a/b" }, size) })
	}
}

func run(t *testing.T, where func(*testing.T) (wal.FS, string), size int64) {
	logtest.Run(t, func(t *testing.T) logtest.Subject {
		fs, dir := where(t)
		if _, memory := fs.(*faultfs.FS); memory && size == 0 {
			size = 1 << 20
		}
		reopen := func() journal.Log {
			l, _ := open(t, fs, dir, wal.Options{SegmentBytes: size})
			return l
		}
		return logtest.Subject{Log: reopen(), Reopen: reopen}
	})
}
