package kernel

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/tenurehq/tenure"
)

func op(n uint64) (b [16]byte) {
	binary.BigEndian.PutUint64(b[8:], n)
	return b
}

// BenchmarkStep is one acquire and one release of a resource among 100,000,
// with history and its ticks.
func BenchmarkStep(b *testing.B) {
	limits := tenure.DefaultLimits()
	limits.History = 100_000
	s := New(0, limits)
	names := make([]tenure.Resource, 100_000)
	for i := range names {
		names[i] = tenure.Resource(fmt.Sprintf("runner.reserve/%017d", i))
	}
	one := make([]tenure.Resource, 1)
	at := At{}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		one[0] = names[i%len(names)]
		at.LSN++
		at.Slot += 1
		out, _ := s.Step(at, &Command{Kind: KindAcquire, Resources: one, Holder: "holder-000000001", TTL: 15000, Grace: 1500, Op: op(uint64(i + 1)), Seen: at.LSN - 1})
		if out.Code != Granted {
			b.Fatal(out.Code)
		}
		at.LSN++
		out, _ = s.Step(at, &Command{Kind: KindRelease, Lease: out.Lease.ID, Epoch: 1, Holder: "holder-000000001"})
		if out.Code != Released {
			b.Fatal(out.Code)
		}
		if i%1024 == 0 {
			at.LSN++
			s.Step(at, &Command{Kind: KindTick})
		}
	}
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkRefusal is an acquire that finds its resource held.
func BenchmarkRefusal(b *testing.B) {
	s := New(0, tenure.DefaultLimits())
	c := Command{Kind: KindAcquire, Resources: []tenure.Resource{"default/a"}, Holder: "ann", TTL: 15000, Op: op(1)}
	s.Step(At{LSN: 1}, &c)
	c.Op, c.Seen = op(2), 1
	b.ReportAllocs()
	for b.Loop() {
		if out, _ := s.Step(At{LSN: 2}, &c); out.Code != Held {
			b.Fatal(out.Code)
		}
	}
}

// BenchmarkMemory reports the heap that a live lease with a name of 32 bytes
// and a holder of 16 takes, with everything that finds it.
func BenchmarkMemory(b *testing.B) {
	const leases = 1_000_000
	for range b.N {
		before := heap()
		s := New(0, tenure.DefaultLimits())
		for i := range tenure.LSN(leases) {
			name := tenure.Resource(fmt.Sprintf("runner.reserve/%017d", i))
			holder := tenure.Holder(fmt.Sprintf("holder-%09d", i))
			out, _ := s.Step(At{LSN: i + 1}, &Command{Kind: KindAcquire, Resources: []tenure.Resource{name}, Holder: holder, TTL: 15000, Op: op(uint64(i + 1)), Seen: i})
			if out.Code != Granted {
				b.Fatal(out.Code)
			}
		}
		used := heap() - before
		b.ReportMetric(float64(used)/leases, "B/lease")
		b.ReportMetric(float64(used)/(1<<20), "MiB")
		runtime.KeepAlive(s)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
