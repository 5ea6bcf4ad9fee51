package liveness_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

const (
	ttl   = 10 * time.Second
	grace = 3 * time.Second
)

// bench is a table under a clock that the test moves.
type bench struct {
	*liveness.Table
	t   testing.TB
	clk *clock.Manual
}

func newBench(t testing.TB) *bench {
	var clk clock.Manual
	clk.Set(7*time.Hour + 123*time.Microsecond) // hosts are up for a while when a table is made
	return &bench{Table: liveness.New(&clk, liveness.Config{}), t: t, clk: &clk}
}

func id(n int) tenure.LeaseID { return tenure.LeaseID{LSN: tenure.LSN(n)} }

func ref(n int, epoch tenure.Epoch) tenure.Ref {
	return tenure.Ref{Token: tenure.Token{Lease: id(n), Epoch: epoch}, Resource: "a/b"}
}

func active(n int) liveness.Entry {
	return liveness.Entry{Lease: id(n), Epoch: 1, Phase: liveness.Active, TTL: ttl, Grace: grace}
}

func lapse(n int) liveness.Proposal {
	return liveness.Proposal{Kind: liveness.Lapse, Lease: id(n), Epoch: 1}
}

func reclaim(n int) liveness.Proposal {
	return liveness.Proposal{Kind: liveness.Reclaim, Lease: id(n), Epoch: 2}
}

func expire(n int) liveness.Proposal {
	return liveness.Proposal{Kind: liveness.Expire, Lease: id(n), Epoch: 1}
}

// beat renews one lease and wants the answer to be want; nil is yes.
func (b *bench) beat(n int, epoch tenure.Epoch, want error) {
	b.t.Helper()
	each := []error{errors.New("not answered")}
	b.Renew([]tenure.Ref{ref(n, epoch)}, each)
	if !errors.Is(each[0], want) {
		b.t.Fatalf("beat of %v under epoch %d: %v, want %v", id(n), epoch, each[0], want)
	}
}

// due wants exactly these proposals now.
func (b *bench) due(want ...liveness.Proposal) {
	b.t.Helper()
	if got := b.Due(1000, nil); !slices.Equal(got, want) {
		b.t.Fatalf("at %v due are %v, want %v", b.clk.Now(), got, want)
	}
}

// dueAfter wants nothing to be due a nanosecond before d has passed, and want a
// tick after it at the latest.
func (b *bench) dueAfter(d time.Duration, want ...liveness.Proposal) {
	b.t.Helper()
	b.clk.Advance(d - 1)
	b.due()
	b.clk.Advance(1 + liveness.Tick)
	b.due(want...)
}

// Rule 1. proves: T14
func TestT14_OnlyTheCurrentEpochIsExtended(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.Epoch = 4
	b.Track(l)
	b.clk.Advance(ttl / 2)
	b.beat(1, 3, tenure.ErrStale)
	b.beat(1, 5, tenure.ErrStale)
	b.beat(2, 4, tenure.ErrNotFound)
	b.dueAfter(ttl/2, liveness.Proposal{Kind: liveness.Lapse, Lease: id(1), Epoch: 4})
}

func TestEachRefGetsItsOwnAnswer(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 300; n++ {
		b.Track(active(n))
	}
	var refs []tenure.Ref
	for n := 1; n <= 450; n++ { // more than one lock's worth
		refs = append(refs, ref(n, tenure.Epoch(1+n%2)))
	}
	refs = append(refs, tenure.Ref{}, tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{Shard: 1, LSN: 2}, Epoch: 1}})
	each := make([]error, len(refs))
	b.Renew(refs, each)
	for i, err := range each {
		n := i + 1
		want := error(nil)
		switch {
		case n > 300:
			want = tenure.ErrNotFound
		case n%2 == 1:
			want = tenure.ErrStale
		}
		if !errors.Is(err, want) {
			t.Fatalf("ref %d (%v): %v, want %v", i, refs[i].Token, err, want)
		}
	}
	var e *tenure.Error
	if !errors.As(each[0], &e) || e.Lease != id(1) || e.Resource != "a/b" || e.Why == "" {
		t.Errorf("the refusal %v does not say what was asked and why not", each[0])
	}
}

// Rule 2. proves: T6, T14
func TestT14_ABeatAndTheReaperMeetAtUntil(t *testing.T) {
	t.Run("the beat is first", func(t *testing.T) {
		b := newBench(t)
		b.Track(active(1))
		b.clk.Advance(ttl)
		b.beat(1, 1, nil)
		b.due()
		b.dueAfter(ttl, lapse(1))
	})
	t.Run("the reaper is first", func(t *testing.T) {
		b := newBench(t)
		b.Track(active(1))
		b.clk.Advance(ttl)
		b.due(lapse(1))
		b.beat(1, 1, tenure.ErrStale)
	})
}

// Rule 2: the slot has come long ago, the beat came after it and before the
// reaper. proves: T14
func TestT14_ABeatBetweenSlotAndCondemnationWins(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.Track(active(2))
	b.clk.Advance(ttl + 5*time.Second)
	b.beat(1, 1, nil)
	b.due(lapse(2))
	b.dueAfter(ttl, lapse(1))
}

// Rule 2: from the condemnation on, whatever happens to the proposal.
// proves: T14
func TestT14_CondemnedIsRefusedFromThenOn(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl)
	b.due(lapse(1))
	b.beat(1, 1, tenure.ErrStale)
	b.Track(active(1)) // a replayed grant is no pardon
	b.beat(1, 1, tenure.ErrStale)
	b.Restart() // nor is a restart
	b.beat(1, 1, tenure.ErrStale)
	b.Return([]liveness.Proposal{lapse(1)})
	b.beat(1, 1, tenure.ErrStale)
	b.due() // not at once
	b.clk.Advance(time.Second)
	b.due(lapse(1)) // but again, with no further condition
	b.due()         // and only once at a time
	b.Withdraw(id(1), 2)
	b.beat(1, 1, tenure.ErrStale)
	b.beat(1, 2, tenure.ErrStale) // the raised epoch is nobody's
}

// Rule 2: whoever learns of the loss has all of the grace, also if the lapse was
// ordered late. proves: T6
func TestT6_TheGraceFollowsALapse(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl + time.Second)
	b.due(lapse(1))
	b.due() // the lapse is on its way
	b.Withdraw(id(1), 2)
	b.Withdraw(id(1), 2) // again changes nothing
	b.Settle(lapse(1), true)
	b.dueAfter(grace, reclaim(1))
	b.Forget(id(1))
	if _, ok := b.Next(); ok {
		t.Error("something is left in the wheel")
	}
}

// Rule 2. proves: T6
func TestT6_WithoutGraceBothInOneBatch(t *testing.T) {
	track := func(t *testing.T) *bench {
		b := newBench(t)
		l := active(1)
		l.Grace = tenure.NoGrace
		b.Track(l)
		return b
	}
	t.Run("both are ordered", func(t *testing.T) {
		b := track(t)
		b.dueAfter(ttl, lapse(1), reclaim(1))
		b.Withdraw(id(1), 2)
		b.due() // the reclaim is on its way
		b.Forget(id(1))
		b.due()
	})
	t.Run("only the lapse is ordered", func(t *testing.T) {
		b := track(t)
		b.dueAfter(ttl, lapse(1), reclaim(1))
		b.Withdraw(id(1), 2)
		b.Return([]liveness.Proposal{lapse(1), reclaim(1)})
		b.clk.Advance(time.Second)
		b.due(reclaim(1))
	})
	t.Run("none is ordered", func(t *testing.T) {
		b := track(t)
		b.dueAfter(ttl, lapse(1), reclaim(1))
		b.Return([]liveness.Proposal{lapse(1), reclaim(1)})
		b.clk.Advance(time.Second)
		b.due(lapse(1), reclaim(1))
	})
	t.Run("there is room for one", func(t *testing.T) {
		b := track(t)
		b.clk.Advance(ttl)
		if got := b.Due(1, nil); !slices.Equal(got, []liveness.Proposal{lapse(1)}) {
			t.Fatalf("due are %v", got)
		}
		b.Withdraw(id(1), 2)
		b.clk.Advance(liveness.Tick)
		b.due(reclaim(1))
	})
}

// Rule 3. proves: T6, T14
func TestT6_RevokedIsReclaimedOnlyAfterTheHoldersBelief(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl / 2)
	b.beat(1, 1, nil) // allows ttl from here
	b.clk.Advance(ttl / 4)
	b.Withdraw(id(1), 2)
	b.beat(1, 1, tenure.ErrStale)
	left := ttl - ttl/4 + grace
	if in, known := b.Reclaimable(id(1)); in != left || !known {
		t.Fatalf("reclaimable in %v, %v; want %v", in, known, left)
	}
	b.dueAfter(left, reclaim(1))
}

// Rule 3. proves: T6, T14
func TestT6_NoTTLIsNeverReaped(t *testing.T) {
	b := newBench(t)
	for n, l := range []liveness.Entry{
		{Phase: liveness.Active},
		{Phase: liveness.Active},
		{Phase: liveness.Revoking}, // after an open
	} {
		l.Lease, l.Epoch, l.TTL, l.Grace = id(n+1), 1, tenure.NoTTL, grace
		b.Track(l)
	}
	b.Withdraw(id(2), 2)
	b.Restart()
	b.clk.Advance(10 * 365 * 24 * time.Hour)
	b.due()
	if in, ok := b.Next(); ok {
		t.Errorf("something may be due in %v", in)
	}
	b.beat(1, 1, nil)
	b.beat(1, 2, tenure.ErrStale)
	b.beat(2, 1, tenure.ErrStale)
	for n := 1; n <= 3; n++ {
		if _, free, ok := b.Left(id(n)); free != liveness.Never || !ok {
			t.Errorf("lease %d is free in %v, %v; want never", n, free, ok)
		}
		if in, known := b.Reclaimable(id(n)); known {
			t.Errorf("lease %d may be reclaimed in %v, want never", n, in)
		}
	}
}

// Rule 4. proves: T6
func TestT6_ReservationsExpireAtTheirDeadline(t *testing.T) {
	reserved := func(t *testing.T) *bench {
		b := newBench(t)
		l := active(1)
		l.Phase, l.In = liveness.Reserved, time.Minute
		b.Track(l)
		return b
	}
	t.Run("beats do not move it", func(t *testing.T) {
		b := reserved(t)
		b.clk.Advance(30 * time.Second)
		b.beat(1, 1, nil)
		b.Restart()
		b.dueAfter(30*time.Second, expire(1))
		b.beat(1, 1, tenure.ErrStale)
	})
	t.Run("activated, the TTL counts", func(t *testing.T) {
		b := reserved(t)
		b.clk.Advance(30 * time.Second)
		b.Track(active(1))
		b.dueAfter(ttl, lapse(1)) // which is before the deadline was
	})
	t.Run("activated while its expiry was on its way", func(t *testing.T) {
		b := reserved(t)
		b.dueAfter(time.Minute, expire(1))
		b.Track(active(1))
		b.Settle(expire(1), false)
		b.Return([]liveness.Proposal{expire(1)})
		b.beat(1, 1, nil)
		b.dueAfter(ttl, lapse(1))
	})
	t.Run("refused because it was early", func(t *testing.T) {
		b := reserved(t)
		b.dueAfter(time.Minute, expire(1))
		b.Settle(expire(1), false)
		b.dueAfter(time.Second, expire(1))
	})
}

// Rule 5. proves: T14
func TestT14_ARestartGivesEveryLeaseItsFullTime(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.Track(active(2))
	l := active(3)
	l.TTL = ttl / 2
	b.Track(l)
	b.clk.Advance(ttl/2 - 1)
	b.Withdraw(id(2), 2)
	b.Restart()
	b.dueAfter(ttl/2, lapse(3))
	b.clk.Advance(ttl/2 - 1 - liveness.Tick)
	b.due()
	b.clk.Advance(1 + liveness.Tick)
	b.due(lapse(1))
	b.dueAfter(grace-liveness.Tick, reclaim(2))
}

// Rule 5, of what an open finds revoking. proves: T6
func TestT6_AfterAnOpenRevokingHasOneTTLAndTheGrace(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.Epoch, l.Phase = 2, liveness.Revoking
	b.Track(l)
	b.beat(1, 2, tenure.ErrStale)
	b.dueAfter(ttl+grace, reclaim(1))
}

// Rule 1. proves: T14
func TestT14_AHaltedTableAnswersNoneAndProposesNothing(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl)
	b.Halt(tenure.ErrHalted)
	b.beat(1, 1, tenure.ErrHalted)
	b.beat(9, 1, tenure.ErrHalted)
	b.due()
	if in, ok := b.Next(); ok {
		t.Errorf("something may be due in %v", in)
	}
	if s := b.Stats(); s.Answered+s.Refused != 0 {
		t.Errorf("beats were counted: %+v", s)
	}
}

// A replay is not a heartbeat. proves: T10, T14
func TestT14_TrackingAgainIsNoHeartbeat(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl / 2)
	b.Track(active(1))
	l := active(1)
	l.Phase, l.In = liveness.Reserved, time.Hour // an older change, told late
	b.Track(l)
	b.dueAfter(ttl/2, lapse(1))
	b.Withdraw(id(1), 2)
	b.Track(active(1))
	b.beat(1, 1, tenure.ErrStale)
	b.dueAfter(grace-liveness.Tick, reclaim(1))
}

func TestTrackMovesOnToRevoking(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	b.clk.Advance(ttl / 2)
	l := active(1)
	l.Epoch, l.Phase = 2, liveness.Revoking
	b.Track(l)
	b.dueAfter(ttl/2+grace, reclaim(1))
}

func TestSettleForgetsOnlyWhatWasCondemnedInVain(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 3; n++ {
		b.Track(active(n))
	}
	b.clk.Advance(ttl)
	if got := b.Due(10, nil); len(got) != 3 {
		t.Fatalf("due are %v", got)
	}
	b.Settle(lapse(1), false) // it was released
	if _, _, ok := b.Left(id(1)); ok {
		t.Error("a lease that is gone is still known")
	}
	b.Withdraw(id(2), 2) // an operator was first
	b.Settle(lapse(2), false)
	b.Settle(lapse(3), true) // its Withdraw is to come
	b.Settle(lapse(9), false)
	b.Settle(reclaim(3), false) // never proposed
	b.Settle(liveness.Proposal{Kind: liveness.Lapse, Lease: id(3), Epoch: 7}, false)
	b.Withdraw(id(3), 2)
	b.clk.Advance(grace + liveness.Tick)
	got := b.Due(10, nil)
	if len(got) != 2 || !slices.Contains(got, reclaim(2)) || !slices.Contains(got, reclaim(3)) {
		t.Fatalf("due are %v", got)
	}
	b.Settle(reclaim(2), false)
	if _, _, ok := b.Left(id(2)); ok {
		t.Error("a lease that is gone is still known")
	}
}

func TestWithdrawUnderAnEarlierEpochIsOldNews(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.Epoch = 4
	b.Track(l)
	b.Withdraw(id(1), 3)
	b.Withdraw(id(9), 3)
	b.beat(1, 4, nil)
	b.Withdraw(id(1), 5)
	b.beat(1, 4, tenure.ErrStale)
}

func TestLeft(t *testing.T) {
	b := newBench(t)
	b.Track(active(1))
	l := active(2)
	l.Phase, l.In = liveness.Reserved, time.Minute
	b.Track(l)
	b.Track(active(3))
	want := func(n int, expires, free time.Duration) {
		t.Helper()
		e, f, ok := b.Left(id(n))
		if e != expires || f != free || !ok {
			t.Errorf("lease %d at %v: expires in %v, free in %v, %v; want %v and %v", n, b.clk.Now(), e, f, ok, expires, free)
		}
	}
	want(1, ttl, ttl+grace)
	want(2, time.Minute, time.Minute)
	b.clk.Advance(4 * time.Second)
	b.Withdraw(id(3), 2)
	want(1, ttl-4*time.Second, ttl-4*time.Second+grace)
	want(3, 0, ttl-4*time.Second+grace)
	b.clk.Advance(ttl - 3*time.Second)
	want(1, 0, grace-time.Second) // late, not condemned yet
	b.Due(10, nil)
	want(1, 0, grace-time.Second)
	b.clk.Advance(time.Hour)
	want(2, 0, 0)
	if _, _, ok := b.Left(id(9)); ok {
		t.Error("an unknown lease is known")
	}
}

func TestStats(t *testing.T) {
	b := newBench(t)
	l := active(1)
	l.Phase, l.In = liveness.Reserved, time.Minute
	b.Track(l)
	b.Track(active(2))
	b.Track(active(3))
	b.Track(active(4))
	b.Withdraw(id(4), 2)
	b.clk.Advance(ttl/10*3 + 1)
	b.beat(2, 1, nil)
	b.beat(4, 1, tenure.ErrStale)
	b.clk.Advance(ttl)
	b.beat(2, 1, nil) // too late, were it not for the reaper
	b.Due(10, nil)    // 3 and, since its belief and grace are over, 4
	s := b.Stats()
	want := liveness.Stats{Reserved: 1, Active: 2, Revoking: 1, Condemned: 1, Answered: 2, Refused: 1}
	want.Lag[3], want.Lag[10] = 1, 1
	got := s
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"reserved", got.Reserved, want.Reserved}, {"active", got.Active, want.Active}, {"revoking", got.Revoking, want.Revoking},
		{"condemned", got.Condemned, want.Condemned}, {"answered", got.Answered, want.Answered}, {"refused", got.Refused, want.Refused},
		{"lag", got.Lag, want.Lag},
	} {
		if f.got != f.want {
			t.Errorf("%s: %v, want %v", f.name, f.got, f.want)
		}
	}
	for n := 1; n <= 4; n++ {
		b.Forget(id(n))
		b.Forget(id(n))
	}
	if s := b.Stats(); s.Reserved+s.Active+s.Revoking+s.Condemned != 0 {
		t.Errorf("an empty table counts %+v", s)
	}
}

func TestTrackRefusesWhatIsNoLeaseOfTheShard(t *testing.T) {
	for name, l := range map[string]liveness.Entry{
		"no phase":    {Lease: id(1), Epoch: 1},
		"other shard": {Lease: tenure.LeaseID{Shard: 1, LSN: 1}, Epoch: 1, Phase: liveness.Active},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("tracked without a panic")
				}
			}()
			newBench(t).Track(l)
		})
	}
}
