package faultfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/wal"
)

func Example() {
	fs := faultfs.New()
	f, _ := fs.Create("file")
	f.WriteAt([]byte("data"), 0)
	f.Sync()
	_, err := fs.Crash(faultfs.Nothing).Open("file", false)
	fmt.Println(err) // the name was never synced

	fs.SyncDir(".")
	_, err = fs.Crash(faultfs.Nothing).Open("file", false)
	fmt.Println(err)
	// Output:
	// open file: file does not exist
	// <nil>
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func read(t *testing.T, fs *faultfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, false)
	if err != nil {
		return err.Error()
	}
	size := must[int64](t)(f.Size())
	b := make([]byte, size)
	if size > 0 {
		must[int](t)(f.ReadAt(b, 0))
	}
	return string(b)
}

// outcomes is what a crash may leave of a file, over many crashes.
func outcomes(t *testing.T, fs *faultfs.FS, name string, show func(string) string) []string {
	t.Helper()
	seen := map[string]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		seen[show(read(t, fs.Crash(func(n int) int { return rng.IntN(n + 1) }), name))] = true
	}
	var all []string
	for s := range seen {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func synced(t *testing.T) (*faultfs.FS, wal.File) {
	t.Helper()
	fs := faultfs.New()
	f := must[wal.File](t)(fs.Create("file"))
	must[int](t)(f.WriteAt(bytes.Repeat([]byte("a"), 1024), 0))
	if err := errors.Join(f.Sync(), fs.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return fs, f
}

// sectors shows the first byte of each sector, and the size.
func sectors(s string) string {
	shown := ""
	for i := 0; i < len(s); i += 512 {
		if s[i] == 0 {
			shown += "0"
			continue
		}
		shown += s[i : i+1]
	}
	return fmt.Sprint(shown, len(s))
}

func TestSectorsAreKeptOneByOne(t *testing.T) {
	fs, f := synced(t)
	must[int](t)(f.WriteAt(bytes.Repeat([]byte("b"), 1024), 0))
	must[int](t)(f.WriteAt([]byte("c"), 0))
	want := []string{"aa1024", "ab1024", "ba1024", "bb1024", "ca1024", "cb1024"}
	if got := outcomes(t, fs, "file", sectors); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := sectors(read(t, fs.Crash(faultfs.Everything), "file")); got != "cb1024" {
		t.Error(got)
	}
	f.Sync()
	if got := outcomes(t, fs, "file", sectors); !slices.Equal(got, []string{"cb1024"}) {
		t.Error(got)
	}
}

func TestSizesAreKeptApartFromContents(t *testing.T) {
	fs, f := synced(t)
	must[int](t)(f.WriteAt(bytes.Repeat([]byte("b"), 512), 1024))
	if got := outcomes(t, fs, "file", sectors); !slices.Equal(got, []string{"aa01536", "aa1024", "aab1536"}) {
		t.Error(got)
	}
	f.Sync()
	if err := f.Truncate(512); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, fs, "file", sectors); !slices.Contains(got, "a512") || !slices.Contains(got, "aab1536") {
		t.Error(got)
	}
	if err := f.Preallocate(1024); err != nil {
		t.Fatal(err)
	}
	if got := sectors(read(t, fs, "file")); got != "a01024" {
		t.Error(got)
	}
	f.Sync()
	if got := outcomes(t, fs, "file", sectors); !slices.Equal(got, []string{"a01024"}) {
		t.Error(got)
	}
}

func TestNamesAreDurableAfterSyncDir(t *testing.T) {
	fs, _ := synced(t)
	g := must[wal.File](t)(fs.Create("new"))
	must[int](t)(g.WriteAt([]byte("g"), 0))
	g.Sync()
	if err := fs.Rename("new", "file"); err != nil {
		t.Fatal(err)
	}
	head := func(s string) string { return s[:1] }
	if got := outcomes(t, fs, "file", head); !slices.Equal(got, []string{"a", "g"}) {
		t.Error(got)
	}
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove("file"); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, fs, "file", head); !slices.Equal(got, []string{"g", "o"}) { // "open file: …"
		t.Error(got)
	}
}

func TestFaults(t *testing.T) {
	cases := []struct {
		name  string
		fault faultfs.Fault
		kind  faultfs.Kind
		seen  string // afterwards
		kept  string // by a crash that keeps nothing, after a sync that succeeds
	}{
		{"write fails", faultfs.Fault{Err: syscall.EIO}, faultfs.Write, "aa1024", "aa1024"},
		{"write is short", faultfs.Fault{Err: syscall.ENOSPC, Part: 512}, faultfs.Write, "ba1024", "ba1024"},
		{"write fails, and is done", faultfs.Fault{Err: syscall.EIO, Done: true}, faultfs.Write, "bb1024", "bb1024"},
		{"sync fails", faultfs.Fault{Err: syscall.EIO}, faultfs.Sync, "bb1024", "bb1024"},
		{"sync fails and forgets", faultfs.Fault{Err: syscall.EIO, Lost: true}, faultfs.Sync, "bb1024", "aa1024"},
	}
	for _, c := range cases {
		fs, f := synced(t)
		fs.Before = func(op faultfs.Op) faultfs.Fault {
			if op.Kind == c.kind {
				return c.fault
			}
			return faultfs.Fault{}
		}
		n, err := f.WriteAt(bytes.Repeat([]byte("b"), 1024), 0)
		if c.kind == faultfs.Sync {
			err = f.Sync()
		} else if c.fault.Part > 0 && n != c.fault.Part {
			t.Errorf("%s: %d bytes", c.name, n)
		}
		if !errors.Is(err, c.fault.Err) {
			t.Errorf("%s: %v", c.name, err)
		}
		fs.Before = nil
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := sectors(read(t, fs, "file")); got != c.seen {
			t.Errorf("%s: %s is seen, want %s", c.name, got, c.seen)
		}
		if got := sectors(read(t, fs.Crash(faultfs.Nothing), "file")); got != c.kept {
			t.Errorf("%s: %s is kept, want %s", c.name, got, c.kept)
		}
	}
}

func TestLie(t *testing.T) {
	fs, f := synced(t)
	must[int](t)(f.WriteAt([]byte("b"), 0))
	fs.Before = func(faultfs.Op) faultfs.Fault { return faultfs.Fault{Lie: true} }
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := sectors(read(t, fs.Crash(faultfs.Nothing), "file")); got != "aa1024" {
		t.Error(got)
	}
}

func TestKill(t *testing.T) {
	fs, f := synced(t)
	if _, err := fs.Lock("LOCK", false); err != nil {
		t.Fatal(err)
	}
	var used *wal.InUse
	if _, err := fs.Lock("LOCK", true); !errors.As(err, &used) {
		t.Errorf("lock: %v", err)
	}
	must[int](t)(f.WriteAt([]byte("b"), 0))
	fs.Kill()
	if _, err := f.WriteAt([]byte("c"), 0); !errors.Is(err, faultfs.ErrKilled) {
		t.Errorf("write: %v", err)
	}
	if got := sectors(read(t, fs, "file")); got != "ba1024" {
		t.Error(got)
	}
	for range 2 {
		if _, err := fs.Lock("LOCK", true); err != nil {
			t.Errorf("lock: %v", err)
		}
	}
}
