package liveness_test

import (
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/liveness"
)

// From the shortest TTL to the longest Duration, over every level of the wheel.
// proves: T6
func TestT6_LateByATickAtMostForEveryTTL(t *testing.T) {
	for _, d := range []time.Duration{
		1, time.Millisecond - 1, time.Millisecond, 10 * time.Millisecond, 63 * time.Millisecond, 64 * time.Millisecond, 65 * time.Millisecond,
		4095 * time.Millisecond, 4096*time.Millisecond + 1, 15 * time.Second, 5 * time.Minute, 24 * time.Hour, 30 * 24 * time.Hour, 100 * 365 * 24 * time.Hour,
	} {
		t.Run(d.String(), func(t *testing.T) {
			b := newBench(t)
			b.clk.Advance(3*time.Hour + 1234567) // the wheel is not at 0
			b.due()
			l := active(1)
			l.TTL = d
			b.Track(l)
			b.dueAfter(d, lapse(1))
		})
	}
	t.Run("as good as never", func(t *testing.T) {
		b := newBench(t)
		l := active(1)
		l.TTL, l.Grace = liveness.Never, liveness.Never
		b.Track(l)
		b.beat(1, 1, nil)
		b.Withdraw(id(1), 2)
		b.clk.Advance(100 * 365 * 24 * time.Hour)
		b.due()
	})
}

// The wheel goes round many times; a lease that beats is never due, and due
// once when it stops.
func TestTheWheelGoesRound(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.TTL = 100 * time.Millisecond
	b.Track(l)
	long := active(2)
	long.TTL = time.Hour
	b.Track(long)
	for range 30_000 { // 27 minutes
		b.clk.Advance(54321 * time.Microsecond)
		b.beat(1, 1, nil)
		b.due()
	}
	b.dueAfter(l.TTL, lapse(1))
}

// Next may be too early and never too late, and whoever sleeps for it gets
// there in a few steps.
func TestNextLeadsToWhatIsDue(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Millisecond, 15 * time.Second, 24 * time.Hour} {
		b := newBench(t)
		if _, ok := b.Next(); ok {
			t.Fatal("an empty table has something due")
		}
		l := active(1)
		l.TTL = d
		b.Track(l)
		start, steps := b.clk.Now(), 0
		for ; ; steps++ {
			in, ok := b.Next()
			if !ok || steps > 8 {
				t.Fatalf("%v: step %d: next in %v, %v", d, steps, in, ok)
			}
			b.clk.Advance(in)
			if len(b.Due(1, nil)) > 0 {
				break
			}
		}
		if took := b.clk.Now() - start; took < d || took > d+liveness.Tick {
			t.Errorf("%v: due after %v", d, took)
		}
	}
}

// What is due within the current tick is left alone until the next: neither
// Due nor whoever sleeps for Next spins on it.
func TestNothingSpinsWithinATick(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.TTL = 5*liveness.Tick + liveness.Tick/2
	b.Track(l)
	b.clk.Advance(5*liveness.Tick + liveness.Tick/4)
	for range 100 {
		b.due()
	}
	if visited := liveness.Visited(b.Table); visited > 8 {
		t.Errorf("%d visits for one lease that is not due", visited)
	}
	if in, ok := b.Next(); in != 3*liveness.Tick/4 || !ok {
		t.Errorf("next is in %v, %v", in, ok)
	}
}

// One call of Due does a bounded amount of work and says that there is more.
func TestDueIsBounded(t *testing.T) {
	b := newBench(t)
	const n = 3 * liveness.DueVisits
	for i := 1; i <= n; i++ {
		b.Track(active(i))
	}
	b.clk.Advance(ttl / 2)
	for i := 1; i <= n; i++ {
		b.beat(i, 1, nil)
	}
	b.clk.Advance(ttl / 2) // every slot has come, and nothing is due
	before := liveness.Visited(b.Table)
	b.due()
	if visited := liveness.Visited(b.Table) - before; visited > liveness.DueVisits {
		t.Fatalf("one call visited %d entries, at most %d are allowed", visited, liveness.DueVisits)
	}
	if in, ok := b.Next(); in != 0 || !ok {
		t.Fatalf("with work left, next is %v, %v", in, ok)
	}
	b.clk.Advance(ttl / 2)
	seen := map[tenure.LeaseID]bool{}
	for len(seen) < n {
		got := b.Due(liveness.SweepMax, nil)
		if len(got) > liveness.SweepMax {
			t.Fatalf("%d proposals, at most %d were asked for", len(got), liveness.SweepMax)
		}
		if in, _ := b.Next(); len(got) == 0 && in > 0 {
			t.Fatalf("%d of %d were proposed", len(seen), n)
		}
		for _, p := range got {
			if seen[p.Lease] {
				t.Fatalf("%v is proposed twice", p.Lease)
			}
			seen[p.Lease] = true
		}
	}
	b.due()
	if total := liveness.Visited(b.Table); total > 10*n {
		t.Errorf("%d visits for %d leases that lapsed once", total, n)
	}
}
