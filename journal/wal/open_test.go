package wal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

// refused opens what has to be refused with a code, a path and a remedy.
func refused(t *testing.T, fs wal.FS, dir string, opt wal.Options, code tenure.Code, says ...string) {
	t.Helper()
	_, _, err := wal.Open(fs, dir, opt)
	if !errors.Is(err, code) {
		t.Errorf("open: %v, want %v", err, code)
		return
	}
	for _, s := range append(says, dir) {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	readOnly := wal.Options{ReadOnly: true}
	t.Run("in use", func(t *testing.T) {
		at := t.TempDir()
		l, _ := open(t, wal.OS{}, at, wal.Options{})
		refused(t, wal.OS{}, at, wal.Options{}, tenure.ErrUnavailable, "process "+strconv.Itoa(os.Getpid()), "stop")
		refused(t, wal.OS{}, at, readOnly, tenure.ErrUnavailable, "stop")
		l.Close()
		open(t, wal.OS{}, at, wal.Options{})
	})
	t.Run("a file", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(at, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, wal.OS{}, at, wal.Options{}, tenure.ErrInvalid, "a file is where")
		refused(t, wal.OS{}, filepath.Join(at, "below"), wal.Options{}, tenure.ErrInvalid, "a file is where")
	})
	t.Run("not Tenure's", func(t *testing.T) {
		at := t.TempDir()
		if err := os.WriteFile(filepath.Join(at, "notes.txt"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, wal.OS{}, at, wal.Options{}, tenure.ErrInvalid, "notes.txt", "empty directory")
		if names, _ := (wal.OS{}).List(at); len(names) != 1 {
			t.Errorf("something was left in a directory of others: %v", names)
		}
	})
	t.Run("not there, or empty, to be read", func(t *testing.T) {
		refused(t, wal.OS{}, filepath.Join(t.TempDir(), "none"), readOnly, tenure.ErrNotFound)
		refused(t, wal.OS{}, t.TempDir(), readOnly, tenure.ErrInvalid)
	})
	t.Run("the marker was removed", func(t *testing.T) {
		m := made(t, 4<<10, "one")
		m.log.Close()
		m.fs.Remove(dir + "/TENURE")
		refused(t, m.fs, dir, small(), tenure.ErrInvalid, "TENURE", "backup")
	})
}

func TestOpenRefusesNewerVersions(t *testing.T) {
	m := made(t, 4<<10, "one")
	m.log.Close()
	whole := m.fs.Crash(faultfs.Everything)
	resum := func(b []byte) {
		sum := sha256.Sum256(b[:len(b)-16])
		copy(b[len(b)-16:], sum[:16])
	}
	t.Run("journal", func(t *testing.T) {
		fs := whole.Crash(faultfs.Everything)
		fs.Edit(dir+"/TENURE", func(b []byte) []byte {
			text, _, _ := strings.Cut(strings.Replace(string(b), "format: 1", "format: 7", 1), "check: ")
			sum := sha256.Sum256([]byte(text))
			return []byte(text + "check: " + hex.EncodeToString(sum[:16]) + "\n")
		})
		refused(t, fs, dir, small(), tenure.ErrUnsupported, "format 7", "up to 1")
	})
	t.Run("segment", func(t *testing.T) {
		fs := whole.Crash(faultfs.Everything)
		fs.Edit(first, func(b []byte) []byte { b[8] = 2; resum(b[:112]); return b })
		refused(t, fs, dir, small(), tenure.ErrUnsupported, "format 2")
	})
	t.Run("record", func(t *testing.T) {
		fs := whole.Crash(faultfs.Everything)
		fs.Edit(first, func(b []byte) []byte {
			r := b[128 : 128+record.HeaderBytes+3]
			r[4] = 3
			sum := sha256.Sum256(append(append([]byte(nil), r[:64]...), r[80:]...))
			copy(r[64:], sum[:16])
			return b
		})
		refused(t, fs, dir, small(), tenure.ErrUnsupported, "format 3", "up to 1")
	})
	t.Run("snapshot", func(t *testing.T) {
		m := made(t, 4<<10)
		if err := m.save(7, 10); err != nil {
			t.Fatal(err)
		}
		m.fs.Edit(dir+"/snap-00000000000000000007", func(b []byte) []byte { b[8] = 9; resum(b[:40]); return b })
		if _, err := m.log.OpenSnapshot(7); !errors.Is(err, tenure.ErrUnsupported) || !errors.Is(err, record.ErrVersion) {
			t.Errorf("open snapshot: %v", err)
		}
	})
}

// What the system refuses is passed on with its meaning and a remedy.
func TestOpenExplains(t *testing.T) {
	cases := []struct {
		err  error
		code tenure.Code
		says string
	}{
		{syscall.EACCES, tenure.ErrDenied, "permission"},
		{syscall.EROFS, tenure.ErrDenied, "read-only"},
		{syscall.ENOSPC, tenure.ErrFull, "space"},
		{syscall.EIO, tenure.ErrUnavailable, "disk"},
	}
	for _, c := range cases {
		for _, kind := range []faultfs.Kind{faultfs.Lock, faultfs.List, faultfs.Reserve, faultfs.Write, faultfs.Rename} {
			fs := faultfs.New()
			fs.Before = func(op faultfs.Op) faultfs.Fault {
				if op.Kind == kind {
					return faultfs.Fault{Err: c.err}
				}
				return faultfs.Fault{}
			}
			refused(t, fs, dir, small(), c.code, c.says)
			if _, _, err := wal.Open(fs, dir, small()); !errors.Is(err, c.err) {
				t.Errorf("%v is lost in %v", c.err, err)
			}
		}
	}
}

// A file that cannot be read is not taken for a damaged one, and nothing is cut.
func TestReadErrorsAreNotDamage(t *testing.T) {
	m := made(t, 4<<10, "one", "two")
	m.log.Close()
	for n := range 100 {
		fs := m.fs.Crash(faultfs.Everything)
		reads := 0
		fs.Before = func(op faultfs.Op) faultfs.Fault {
			if op.Kind != faultfs.Read {
				return faultfs.Fault{}
			}
			if reads++; reads == n+1 {
				return faultfs.Fault{Err: syscall.EIO}
			}
			return faultfs.Fault{}
		}
		l, _, err := wal.Open(fs, dir, small())
		if err == nil {
			if n < 4 {
				t.Errorf("%d reads", n)
			}
			l.Close()
			return
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, wal.ErrDamaged) {
			t.Errorf("read %d: %v", n, err)
		}
		fs.Before = nil
		fs.Kill()
		if _, err := m.check(fs); err != nil {
			t.Errorf("read %d: afterwards: %v", n, err)
		}
	}
	t.Error("no read succeeded")
}

// The first process of two at the same moment gets the journal.
func TestKilledOwnerLeavesNoLock(t *testing.T) {
	m := made(t, 4<<10, "one")
	refused(t, m.fs, dir, small(), tenure.ErrUnavailable)
	m.fs.Kill()
	if _, err := m.check(m.fs); err != nil {
		t.Error(err)
	}
}

func TestReportOfANewJournal(t *testing.T) {
	at := filepath.Join(t.TempDir(), "a", "b")
	l, report := open(t, wal.OS{}, at, wal.Options{})
	if !report.Created || report.Sealed || report.Cut || report.Segments != 1 || report.First != 1 {
		t.Errorf("the report is %+v", report)
	}
	info, err := os.Stat(at)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info, err)
	}
	l.Close()
	if _, report = open(t, wal.OS{}, at, wal.Options{}); report.Created {
		t.Errorf("the report is %+v", report)
	}
}
