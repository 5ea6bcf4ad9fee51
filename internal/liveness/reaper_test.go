package liveness_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

// leaping is a clock on which the process may lose time, as one that was
// stopped does.
type leaping struct {
	clock.Clock
	lost atomic.Int64
}

func (c *leaping) Now() time.Duration { return c.Clock.Now() + time.Duration(c.lost.Load()) }

func (c *leaping) leap(d time.Duration) { c.lost.Add(int64(d)) }

// said is a proposal and when it was made, by the bubble's clock.
type said struct {
	liveness.Proposal
	at time.Duration
}

// desk runs a reaper whose proposals are ordered at once.
type desk struct {
	*liveness.Table
	clk    *leaping
	cancel context.CancelFunc
	start  time.Time
	over   chan struct{}

	mu   sync.Mutex
	log  []said
	fail error                                            // of the next propose
	vain int                                              // expiries that will change nothing
	hold func(ctx context.Context, _ []liveness.Proposal) // before it is ordered
}

func newDesk(t *testing.T, cfg liveness.Config) *desk {
	d := &desk{clk: &leaping{Clock: clock.Monotonic()}, start: time.Now(), over: make(chan struct{})}
	d.Table = liveness.New(d.clk, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	go func() {
		defer close(d.over)
		liveness.NewReaper(d.Table, d.propose).Run(ctx)
	}()
	return d
}

func (d *desk) propose(ctx context.Context, ps []liveness.Proposal) error {
	if d.hold != nil { // outside of the lock: a bubble's time stands still while somebody waits for one
		d.hold(ctx, ps)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range ps {
		d.log = append(d.log, said{p, time.Since(d.start)})
	}
	if err := d.fail; err != nil {
		d.fail = nil
		return err
	}
	for _, p := range ps {
		switch {
		case p.Kind == liveness.Lapse:
			d.Withdraw(p.Lease, p.Epoch+1)
		case p.Kind == liveness.Expire && d.vain > 0:
			d.vain--
			d.Settle(p, false)
			continue
		default:
			d.Forget(p.Lease)
		}
		d.Settle(p, true)
	}
	return nil
}

// stop ends the reaper and returns what it proposed.
func (d *desk) stop() []said {
	d.cancel()
	<-d.over
	return d.log
}

func wantSaid(t *testing.T, got []said, late time.Duration, want ...said) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = got[i].Proposal == want[i].Proposal && got[i].at >= want[i].at && got[i].at <= want[i].at+late
	}
	if !same {
		t.Fatalf("proposed were %v,\nwant %v, none earlier and none more than %v later", got, want, late)
	}
}

// proves: T6, T14
func TestT14_TheReaperProposesWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		time.Sleep(time.Hour) // rests, and is woken
		d.start = time.Now()
		d.Track(active(1))
		l := active(2)
		l.TTL, l.Grace = 10*time.Millisecond, 0
		d.Track(l)
		l = active(3)
		l.Phase, l.In = liveness.Reserved, time.Second
		d.Track(l)
		time.Sleep(time.Minute)
		wantSaid(t, d.stop(), 2*liveness.Tick,
			said{lapse(2), 10 * time.Millisecond}, said{reclaim(2), 10 * time.Millisecond},
			said{expire(3), time.Second}, said{lapse(1), ttl}, said{reclaim(1), ttl + grace})
	})
}

// Rule 5: a pause of the process does not count against any holder, and one
// that was longer than a TTL is like an open. proves: T14
func TestT14_APauseIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		short, long, tiny := active(1), active(2), active(3)
		long.TTL = 100 * time.Second
		tiny.TTL, tiny.Grace = 25*time.Second, time.Hour
		revoking := active(4)
		revoking.Epoch, revoking.Phase = 2, liveness.Revoking
		for _, l := range []liveness.Entry{short, long, tiny, revoking} {
			d.Track(l)
		}
		time.Sleep(9*time.Second + 20*time.Millisecond)
		d.clk.leap(30 * time.Second) // as if stopped while it slept
		time.Sleep(200 * time.Second)

		// It notices at its next sweep, some 9.04 s after the start: short has its
		// full 10 s again, and long goes on as if nothing had been.
		s := d.Stats()
		if s.Pauses != 1 || s.Paused < 29*time.Second || s.Paused > 30*time.Second {
			t.Errorf("%d pauses, %v in all", s.Pauses, s.Paused)
		}
		log := d.stop()
		wantSaid(t, log, 60*time.Millisecond,
			said{lapse(1), 19020 * time.Millisecond}, // full again
			said{reclaim(1), 22020 * time.Millisecond}, said{reclaim(4), 22020 * time.Millisecond},
			said{lapse(3), 34020 * time.Millisecond},
			said{lapse(2), 100 * time.Second}, said{reclaim(2), 103 * time.Second}) // nothing lost
	})
}

// Rule 5: the beats that waited at the door while the process was paused come
// first. proves: T14
func TestT14_AfterAPauseBeatsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		d.Track(active(1))
		time.Sleep(ttl - 10*time.Millisecond)
		d.clk.leap(ttl / 4) // far less than a TTL, and 10 ms are left
		time.Sleep(45 * time.Millisecond)
		each := []error{errors.New("not answered")}
		d.Renew([]tenure.Ref{ref(1, 1)}, each)
		if each[0] != nil {
			t.Fatalf("the beat that had waited: %v", each[0])
		}
		time.Sleep(5 * time.Second)
		if log := d.stop(); len(log) > 0 {
			t.Fatalf("proposed were %v", log)
		}
	})
}

// Whoever comes first after a pause notices it. proves: T14
func TestT14_AnyoneNoticesThePause(t *testing.T) {
	for name, come := range map[string]func(*desk){
		"a beat":       func(d *desk) { d.Renew([]tenure.Ref{ref(2, 1)}, make([]error, 1)) },
		"a read":       func(d *desk) { d.Left(id(2)) },
		"an operator":  func(d *desk) { d.Withdraw(id(2), 2) },
		"a new holder": func(d *desk) { d.Track(active(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, liveness.Config{})
				d.Track(active(1))
				d.Track(active(2))
				time.Sleep(20 * time.Millisecond)
				d.clk.leap(time.Hour)
				come(d)
				if s := d.Stats(); s.Pauses != 1 {
					t.Fatalf("%d pauses, want 1", s.Pauses)
				}
				if expires, _, _ := d.Left(id(1)); expires != ttl {
					t.Fatalf("has %v left, want %v", expires, ttl)
				}
				d.stop()
			})
		})
	}
}

func TestNoPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{Pause: -1})
		d.Track(active(1))
		time.Sleep(20 * time.Millisecond)
		d.clk.leap(ttl) // by a test
		time.Sleep(50 * time.Millisecond)
		wantSaid(t, d.stop(), 0, said{lapse(1), 50 * time.Millisecond})
	})
}

// A reaper that ended, or rests, is no proof of a pause.
func TestSilenceOfNobodyIsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		time.Sleep(time.Hour)
		d.Track(active(1))
		time.Sleep(time.Second)
		d.Forget(id(1))
		time.Sleep(time.Hour)
		d.Track(active(2))
		d.stop()
		time.Sleep(time.Hour)
		d.Track(active(3))
		if s := d.Stats(); s.Pauses != 0 {
			t.Errorf("%d pauses of %v in all", s.Pauses, s.Paused)
		}

		d = newDesk(t, liveness.Config{})
		synctest.Wait()
		d.stop() // while it rested
		d.Track(active(1))
		time.Sleep(time.Hour)
		d.Track(active(2))
		if s := d.Stats(); s.Pauses != 0 {
			t.Errorf("after a rest: %d pauses of %v in all", s.Pauses, s.Paused)
		}
	})
}

// A reservation's deadline is a slot: a pause does not move it, and the reaper
// is late by the pause at most. proves: T6
func TestT6_APauseDoesNotMoveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		l := active(1)
		l.Phase, l.In = liveness.Reserved, time.Minute
		d.vain = 1
		d.Track(l)
		time.Sleep(10*time.Second + 20*time.Millisecond)
		d.clk.leap(20 * time.Second)
		time.Sleep(time.Second)
		if s := d.Stats(); s.Pauses != 1 {
			t.Fatalf("%d pauses, want 1", s.Pauses)
		}
		if expires, _, _ := d.Left(id(1)); expires != time.Minute-31*time.Second-20*time.Millisecond {
			t.Errorf("expires in %v", expires)
		}
		time.Sleep(time.Minute)
		log := d.stop()
		wantSaid(t, log, 20*time.Second+100*time.Millisecond, said{expire(1), 40 * time.Second}, said{expire(1), 41 * time.Second})
		if gap := log[1].at - log[0].at; gap < time.Second {
			t.Errorf("refused, and asked again after %v", gap)
		}
	})
}

// A pause directly after the first lease, before the reaper is back from its
// rest. proves: T14
func TestT14_APauseAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		synctest.Wait()
		d.Track(active(1))
		d.clk.leap(time.Hour)
		time.Sleep(ttl - time.Second)
		if log := d.stop(); len(log) > 0 {
			t.Fatalf("proposed were %v", log)
		}
	})
}

// What could not be ordered is proposed again, and nothing twice at a time.
func TestTheReaperProposesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		d.fail = tenure.ErrFull
		d.Track(active(1))
		time.Sleep(ttl + time.Second)
		wantSaid(t, d.stop(), 5*liveness.Tick, said{lapse(1), ttl}, said{lapse(1), ttl + 100*time.Millisecond})
	})
}

// A slow disk is not a pause: the reaper goes on looking at the clock while a
// batch is on its way, and proposes nothing else meanwhile.
func TestASlowOrderIsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		d.hold = func(context.Context, []liveness.Proposal) { time.Sleep(20 * time.Second) }
		l := active(2)
		l.TTL = 15 * time.Second
		d.Track(active(1))
		d.Track(l)
		time.Sleep(ttl + 20*time.Second + time.Second)
		if s := d.Stats(); s.Pauses != 0 || s.Condemned != 1 || s.Revoking != 1 {
			t.Errorf("after one batch: %+v", s)
		}
		time.Sleep(20 * time.Second)
		wantSaid(t, d.stop(), 5*liveness.Tick, said{lapse(1), 30 * time.Second},
			said{lapse(2), 50 * time.Second}, said{reclaim(1), 70 * time.Second})
	})
}

// A halted engine's reaper neither proposes nor spins.
func TestAHaltedReaperOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		d.Track(active(1))
		time.Sleep(time.Second)
		d.Halt(tenure.ErrHalted)
		time.Sleep(time.Hour)
		d.Track(active(2))
		time.Sleep(time.Hour)
		if log := d.stop(); len(log) > 0 {
			t.Fatalf("proposed were %v", log)
		}
	})
}

// A batch larger than one sweep goes out in several, one after the other.
func TestManyLapseInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, liveness.Config{})
		const n = 5*liveness.SweepMax + 1
		largest := 0
		d.hold = func(_ context.Context, ps []liveness.Proposal) { largest = max(largest, len(ps)) }
		for i := 1; i <= n; i++ {
			d.Track(active(i))
		}
		time.Sleep(ttl + time.Second)
		if log := d.stop(); len(log) != n || largest != liveness.SweepMax {
			t.Fatalf("%d proposals, at most %d at once; want %d and %d", len(log), largest, n, liveness.SweepMax)
		}
	})
}
