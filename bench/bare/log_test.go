package bare

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCommit is one durable commit of 100 bytes, into files that were only
// allocated and into files that were written before. TENURE_BENCH_DIR names a
// directory on the disk to measure; the default is this one.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		for _, zeroed := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/zeroed=%v", callers, zeroed), func(b *testing.B) {
				l, err := Open(scratch(b), Options{Zeroed: zeroed, Frame: 96})
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				b.SetParallelism((callers + 1) / 2)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					woken, p := make(chan error, 1), make([]byte, 100)
					for pb.Next() {
						if err := l.Commit(p, woken); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			})
		}
	}
}

// What was committed is in the file, in order, each batch behind a frame.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Segment: 4096, Frame: 2})
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	for _, p := range []string{"one", "two"} {
		if err := l.Commit([]byte(p), woken); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "000001.bare"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\x00\x00one\x00\x00two"; string(got[:len(want)]) != want || len(got) != 4096 {
		t.Errorf("the file begins with %q and has %d bytes", got[:len(want)], len(got))
	}
}

// scratch is a directory on the disk to measure: the system's for temporary
// files may be in memory.
func scratch(b *testing.B) string {
	root := os.Getenv("TENURE_BENCH_DIR")
	if root == "" {
		root = "."
	}
	dir, err := os.MkdirTemp(root, "bench-data-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
