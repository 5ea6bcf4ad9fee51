package liveness_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

const million = 1_000_000

// crowded is a table of a million leases.
func crowded(clk clock.Clock) *liveness.Table {
	table := liveness.New(clk, liveness.Config{})
	for n := 1; n <= million; n++ {
		table.Track(active(n))
	}
	return table
}

func randomRefs(n int) []tenure.Ref {
	refs := make([]tenure.Ref, n)
	for i := range refs {
		refs[i] = ref(1+rand.IntN(million), 1)
	}
	return refs
}

// A million leases take under 100 MB. proves: T12
func TestAMillionLeasesFit(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var clk clock.Manual
	table := crowded(&clk)
	used := heap() - before
	runtime.KeepAlive(table)
	t.Logf("%d MB", used>>20)
	if used > 100_000_000 {
		t.Errorf("%d bytes for a million leases", used)
	}
	for n := 1; n <= million; n++ {
		table.Forget(id(n))
		if n%2 == 0 {
			table.Track(active(million + n))
		}
	}
	if again := heap() - before; again > 100_000_000 {
		t.Errorf("%d bytes after half of them were replaced", again)
	}
	runtime.KeepAlive(table)
}

// BenchmarkRenew is one beat, in batches of 100 over a million leases.
func BenchmarkRenew(b *testing.B) {
	table := crowded(clock.Boot())
	refs, each := randomRefs(100*1024), make([]error, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 100 {
		at := i % len(refs)
		table.Renew(refs[at:at+100], each)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "beats/s")
}

// BenchmarkAMillionLapse condemns and withdraws a million leases that are due
// at once.
func BenchmarkAMillionLapse(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		var clk clock.Manual
		table := crowded(&clk)
		clk.Advance(ttl)
		buf := make([]liveness.Proposal, 0, liveness.SweepMax)
		b.StartTimer()
		for lapsed := 0; lapsed < million; lapsed += len(buf) {
			buf = table.Due(liveness.SweepMax, buf[:0])
			for _, p := range buf {
				table.Withdraw(p.Lease, 2)
			}
		}
	}
}

// BenchmarkRenewWhileAMillionLapse is a batch of 100 beats while all others are
// reaped; it reports how long the slowest waited.
func BenchmarkRenewWhileAMillionLapse(b *testing.B) {
	var clk clock.Manual
	table := crowded(&clk)
	clk.Advance(ttl)
	stop := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		var buf []liveness.Proposal
		for {
			select {
			case <-stop:
				return
			default:
			}
			buf = table.Due(liveness.SweepMax, buf[:0])
			for _, p := range buf {
				table.Withdraw(p.Lease, 2)
			}
		}
	}()
	refs, each := randomRefs(100), make([]error, 100)
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		table.Renew(refs, each)
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	close(stop)
	<-over
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
}
