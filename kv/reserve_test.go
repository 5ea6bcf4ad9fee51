package kv_test

import (
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kv"
)

func reservation(h tenure.Holder, window time.Duration) tenure.Claim {
	c := claim(h)
	c.Reserve = window
	return c
}

// proves: T6
func TestReservationAgesOutOnceItsWindowWasSeen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		r.do(a, release(r.acquire(a, claim("ann"))))
		l := r.acquire(a, reservation("ann", 5*time.Second))
		if l.State != tenure.StateReserved || l.Token.IsZero() {
			t.Fatalf("%v with token %q", l.State, l.Token)
		}
		begun := time.Now()
		for range 4 { // renewals confirm it, and do not move its deadline
			if _, err := r.within(b, claim("bob"), 500*time.Millisecond); tenure.CodeOf(err) != tenure.ErrHeld {
				t.Fatal(err)
			}
			r.pass(500 * time.Millisecond)
			if err := r.renew(a, l); err != nil {
				t.Fatal(err)
			}
		}
		c := claim("bob")
		c.Wait = time.Minute
		next := r.acquire(b, c)
		if took := since(begun); took != 5*time.Second || next.Prior != tenure.EndingClean {
			t.Errorf("taken after %v, prior %v: nobody had authority meanwhile", took, next.Prior)
		}
		r.unchanged(func() {
			_, err := a.Do(t.Context(), tenure.Activate{Ref: ref(l), Holder: "ann"})
			r.want(err, tenure.ErrStale)
			r.want(r.renew(a, l), tenure.ErrStale)
		})
	})
}

func TestActivateCountsFromTheFirstSend(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store}
		a := r.process(f)
		l := r.acquire(a, reservation("ann", 5*time.Second))
		r.pass(5*time.Second - time.Millisecond)
		got := r.do(a, tenure.Activate{Ref: ref(l), Holder: "ann"})
		if got.State != tenure.StateActive || got.Token != l.Token {
			t.Errorf("%v with token %v, was %v", got.State, got.Token, l.Token)
		}
		if again := r.do(a, tenure.Activate{Ref: ref(l), Holder: "ann"}); !again.Replayed || again.LSN != got.LSN {
			t.Errorf("replayed %v at %d, was %d", again.Replayed, again.LSN, got.LSN)
		}
		r.do(a, release(l))

		f.fail(lostAfter) // the write is there at once, its answer is settled later
		sent := time.Now()
		l = r.acquire(a, reservation("ann", 5*time.Second))
		r.pass(5*time.Second - time.Since(sent))
		_, err := a.Do(t.Context(), tenure.Activate{Ref: ref(l), Holder: "ann"})
		r.want(err, tenure.ErrEnded)
		r.want(r.renew(a, l), tenure.ErrEnded)
	})
}

// The answer of a write that was sent twice counts from the first time.
func TestActivateDoesNotCountFromTheReply(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store}
		a := r.process(f)
		f.fail(lostBefore, lostBefore, lostBefore)
		sent := time.Now()
		l := r.acquire(a, reservation("ann", 200*time.Millisecond))
		if took := time.Since(sent); took < 50*time.Millisecond {
			t.Fatalf("settled after %v: the case shows nothing", took)
		}
		r.pass(200*time.Millisecond - time.Since(sent))
		_, err := a.Do(t.Context(), tenure.Activate{Ref: ref(l), Holder: "ann"})
		r.want(err, tenure.ErrEnded)
	})
}

func TestReleasedReservationLeavesThePriorEnding(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		r.acquire(a, claim("ann"))
		l := r.acquire(b, reservation("bob", time.Minute)) // taken over from a silent holder
		r.do(b, release(l))
		if next := r.acquire(a, claim("ann")); next.Prior != tenure.EndingTaken {
			t.Errorf("prior %v: the holder before the reservation was never confirmed to have stopped", next.Prior)
		}
	})
}

// proves: T6
func TestAbsentIsNotBlank(t *testing.T) {
	for _, c := range []struct {
		name   string
		vanish func(s *kv.MemoryStore)
		before time.Duration // passes before anybody looks
		wait   time.Duration
		prior  tenure.Ending
	}{
		{"deleted", func(s *kv.MemoryStore) { s.Delete(key) }, time.Hour, ttl + grace, tenure.EndingUnknown},
		{"created anew", (*kv.MemoryStore).Recreate, time.Second, ttl + grace - time.Second + time.Millisecond, tenure.EndingNever},
		{"created anew long ago", (*kv.MemoryStore).Recreate, time.Hour, 0, tenure.EndingNever},
		{"created anew and deleted", func(s *kv.MemoryStore) { s.Recreate(); s.Delete(key) }, time.Hour, ttl + grace, tenure.EndingUnknown},
		{"never there", func(s *kv.MemoryStore) { s.Erase(key) }, time.Second, 0, tenure.EndingNever},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				a, b := r.process(), r.process()
				old := r.acquire(a, claim("ann"))
				c.vanish(r.store)
				r.want(r.renew(a, old), tenure.ErrNotFound)
				r.pass(c.before)
				begun := time.Now()
				if c.wait > 0 {
					_, err := r.within(b, claim("bob"), time.Second)
					r.want(err, tenure.ErrRecovering)
				}
				l := r.acquire(b, claim("bob"))
				if took := since(begun); took != c.wait || l.Prior != c.prior || l.Token.Compare(old.Token) <= 0 {
					t.Errorf("taken after %v, prior %v, token %v after %v; want %v, %v", took, l.Prior, l.Token, old.Token, c.wait, c.prior)
				}
			})
		})
	}
}

// proves: T7
func TestTokensRiseWhileTheClockFalls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		wall := time.Now()
		process := func() *kv.Engine { return r.configured(kv.Config{Wall: func() time.Time { return wall }}) }
		var last tenure.Token
		next := func(e *kv.Engine) tenure.Lease {
			wall = wall.Add(-time.Hour)
			l := r.acquire(e, claim("ann"))
			if l.Token.Compare(last) <= 0 {
				t.Fatalf("token %v after %v", l.Token, last)
			}
			last = l.Token
			return l
		}
		a := process()
		r.do(a, release(next(a)))
		r.do(a, release(next(process()))) // the blank keeps the count
		l := next(process())
		r.do(a, tenure.Revoke{Lease: l.ID, Resource: press})
		r.do(a, tenure.Reclaim{Lease: l.ID, Resource: press, HolderIsDead: true})
		l = next(process())
		next(process()) // taken over from a silent one
		r.want(r.renew(a, l), tenure.ErrStale)
		r.store.Delete(key)
		next(a) // nothing is left, but this process remembers
		r.store.Recreate()
		next(a)
	})
}
