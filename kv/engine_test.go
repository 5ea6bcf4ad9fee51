package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/kv"
)

const (
	ttl   = 10 * time.Second
	grace = 2 * time.Second
	press = tenure.Resource("default/press")
	key   = "default/press"
)

func claim(holder tenure.Holder) tenure.Claim {
	return tenure.Claim{Resources: []tenure.Resource{press}, Holder: holder, TTL: ttl, Grace: grace}
}

// rig is a memory store and the processes around it, in a bubble.
type rig struct {
	*testing.T
	store *kv.MemoryStore
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &rig{T: t, store: kv.Memory()}) })
}

// process is an engine of its own over the same store.
func (r *rig) process(over ...kv.Store) *kv.Engine {
	r.Helper()
	return r.configured(kv.Config{}, over...)
}

func (r *rig) configured(c kv.Config, over ...kv.Store) *kv.Engine {
	r.Helper()
	var s kv.Store = r.store
	if len(over) > 0 {
		s = over[0]
	}
	c.Clock = clock.Monotonic()
	e, err := kv.New(s, c)
	if err != nil {
		r.Fatal(err)
	}
	return e
}

func (r *rig) pass(d time.Duration) { <-time.After(d); synctest.Wait() }

func (r *rig) acquire(e *kv.Engine, c tenure.Claim) tenure.Lease {
	r.Helper()
	l, err := e.Acquire(r.Context(), c)
	if err != nil {
		r.Fatalf("claim by %q: %v", c.Holder, err)
	}
	return l
}

func (r *rig) within(e *kv.Engine, c tenure.Claim, d time.Duration) (tenure.Lease, error) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	return e.Acquire(ctx, c)
}

func (r *rig) renew(e *kv.Engine, l tenure.Lease) error {
	r.Helper()
	each, err := e.Renew(r.Context(), []tenure.Ref{ref(l)})
	if err != nil {
		r.Fatal(err)
	}
	return each[0]
}

func (r *rig) do(e *kv.Engine, c tenure.Command) tenure.Lease {
	r.Helper()
	l, err := e.Do(r.Context(), c)
	if err != nil {
		r.Fatalf("%T: %v", c, err)
	}
	return l
}

func (r *rig) want(err error, code tenure.Code) {
	r.Helper()
	if tenure.CodeOf(err) != code {
		r.Fatalf("%v, want %v", err, code)
	}
}

func (r *rig) entry() kv.Entry {
	e, err := r.store.Get(r.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	return e
}

// unchanged runs f and asserts that the record was left alone.
func (r *rig) unchanged(f func()) {
	r.Helper()
	before := r.entry()
	f()
	if after := r.entry(); after.Revision != before.Revision || !bytes.Equal(after.Value, before.Value) {
		r.Fatalf("the record was written: %s, was %s", after.Value, before.Value)
	}
}

func ref(l tenure.Lease) tenure.Ref {
	return tenure.Ref{Token: tenure.Token{Lease: l.ID, Epoch: 1}, Resource: l.Resource}
}

func release(l tenure.Lease) tenure.Release { return tenure.Release{Ref: ref(l), Holder: l.Holder} }

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// proves: T1
func TestOneWinner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 20 {
			e := r.process()
			wg.Go(func() {
				l, err := r.within(e, claim(tenure.Holder(fmt.Sprint("h", i))), time.Second)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if tenure.CodeOf(err) != tenure.ErrHeld {
					t.Errorf("%v: %v", l, err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d winners", won)
		}
	})
}

// proves: T6, T14
func TestSilentHolderIsTakenOverLateNeverEarly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		old := r.acquire(a, claim("ann"))
		r.pass(7 * time.Second) // what passed before the newcomer looked does not count
		begun := time.Now()
		l := r.acquire(b, claim("bob"))
		if took := since(begun); took != ttl+grace || l.Prior != tenure.EndingTaken {
			t.Errorf("taken after %v, prior %v", took, l.Prior)
		}
		if l.Token.Compare(old.Token) <= 0 {
			t.Errorf("token %v after %v", l.Token, old.Token)
		}
	})
}

// proves: T6
func TestLivingHolderIsNeverTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		l := r.acquire(a, claim("ann"))
		c := claim("bob")
		c.Wait = time.Hour
		done := make(chan error, 1)
		go func() { _, err := b.Acquire(t.Context(), c); done <- err }()
		for range 400 {
			r.pass(ttl - time.Millisecond)
			if err := r.renew(a, l); err != nil {
				t.Fatal(err)
			}
		}
		r.want(<-done, tenure.ErrHeld)
		if got := r.acquire(a, tenure.Claim{Resources: []tenure.Resource{"default/other"}}); got.ID == l.ID {
			t.Error("two leases of one ID")
		}
	})
}

func TestOneShotClaimIsRefusedAtTheFirstSignOfLife(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		l := r.acquire(a, claim("ann"))
		go func() { r.pass(3 * time.Second); _ = r.renew(a, l) }()
		begun := time.Now()
		_, err := b.Acquire(t.Context(), claim("bob"))
		r.want(err, tenure.ErrHeld)
		if took := since(begun); took != 3*time.Second {
			t.Errorf("refused after %v", took)
		}
		begun = time.Now() // now it is known to live
		_, err = b.Acquire(t.Context(), claim("bob"))
		r.want(err, tenure.ErrHeld)
		if took := since(begun); took != 0 {
			t.Errorf("refused again after %v", took)
		}
		l = r.acquire(b, func() tenure.Claim { c := claim("bob"); c.Wait = time.Minute; return c }())
		if took := since(begun); took != ttl+grace {
			t.Errorf("taken %v after the last sign of life", took)
		}
	})
}

// An observation is remembered: claims that give up early get there as well.
func TestRepeatedShortClaimsMakeProgress(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		r.acquire(a, claim("ann"))
		begun := time.Now()
		for {
			_, err := r.within(b, claim("bob"), time.Second)
			if err == nil {
				break
			}
			r.want(err, tenure.ErrHeld)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v does not wrap the cause", err)
			}
			r.pass(500 * time.Millisecond)
		}
		if took := since(begun); took < ttl+grace || took > ttl+grace+2*time.Second {
			t.Errorf("taken after %v", took)
		}
	})
}

// proves: T1, T5
func TestStaleIsStolenOnceAndTheOldHolderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := r.process()
		old := r.acquire(a, claim("ann"))
		var wg sync.WaitGroup
		won := make(chan tenure.Lease, 20)
		for i := range 20 {
			e := r.process()
			wg.Go(func() {
				if l, err := e.Acquire(t.Context(), claim(tenure.Holder(fmt.Sprint("h", i)))); err == nil {
					won <- l
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("stolen %d times", len(won))
		}
		thief := <-won
		r.unchanged(func() {
			r.want(r.renew(a, old), tenure.ErrStale)
			_, err := a.Do(t.Context(), release(old))
			r.want(err, tenure.ErrStale)
			_, err = a.Do(t.Context(), tenure.Activate{Ref: ref(old), Holder: "ann"})
			r.want(err, tenure.ErrStale)
			_, err = a.Do(t.Context(), tenure.Revoke{Lease: old.ID, Resource: press})
			r.want(err, tenure.ErrEnded)
		})
		got, err := a.Lookup(t.Context(), tenure.Query{Resource: press})
		if err != nil || got.ID != thief.ID || got.Holder != thief.Holder {
			t.Errorf("%v of %q, %v", got.ID, got.Holder, err)
		}
	})
}

func TestReleaseIsTakenOverAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		l := r.acquire(a, claim("ann"))
		go func() { r.pass(time.Second); r.do(a, release(l)) }()
		c := claim("bob")
		c.Wait = tenure.WaitForever
		begun := time.Now()
		next := r.acquire(b, c)
		if took := since(begun); took != time.Second || next.Prior != tenure.EndingClean {
			t.Errorf("after %v, prior %v", took, next.Prior)
		}
	})
}

// proves: T14
func TestWallClocksDecideNothing(t *testing.T) {
	for _, off := range []time.Duration{-100 * time.Hour, 100 * time.Hour} {
		bubble(t, func(t *testing.T, r *rig) {
			a := r.configured(kv.Config{Wall: func() time.Time { return time.Now().Add(off) }})
			b := r.process()
			old := r.acquire(a, claim("ann"))
			begun := time.Now()
			l := r.acquire(b, claim("bob"))
			if took := since(begun); took != ttl+grace || l.Token.Compare(old.Token) <= 0 {
				t.Errorf("clock off by %v: taken after %v, token %v after %v", off, took, l.Token, old.Token)
			}
		})
	}
}

// Two processes under one name: the name opens no door.
func TestNamesakeIsNotMe(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		l := r.acquire(a, claim("ann"))
		r.unchanged(func() {
			_, err := r.within(b, claim("ann"), ttl)
			r.want(err, tenure.ErrHeld)
			other := l
			other.ID.LSN++
			r.want(r.renew(b, other), tenure.ErrNotFound)
		})
		begun := time.Now()
		next := r.acquire(b, claim("ann"))
		if next.ID == l.ID || since(begun) != grace {
			t.Errorf("%v after %v", next.ID, since(begun))
		}
		r.want(r.renew(a, l), tenure.ErrStale)
	})
}

// proves: T4, T14
func TestNoTTLEndsByNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		c := claim("ann")
		c.TTL = tenure.NoTTL
		l := r.acquire(a, c)
		wait := claim("bob")
		wait.Wait = 24 * time.Hour
		begun := time.Now()
		_, err := b.Acquire(t.Context(), wait)
		r.want(err, tenure.ErrHeld)
		if since(begun) != 24*time.Hour {
			t.Errorf("refused after %v", since(begun))
		}
		r.do(b, tenure.Revoke{Lease: l.ID, Resource: press, Reason: "moved"})
		wait.Wait = time.Hour
		_, err = b.Acquire(t.Context(), wait)
		r.want(err, tenure.ErrHeld)
		_, err = b.Do(t.Context(), tenure.Reclaim{Lease: l.ID, Resource: press})
		r.want(err, tenure.ErrInvalidState)
		r.do(b, tenure.Reclaim{Lease: l.ID, Resource: press, HolderIsDead: true})
		if next := r.acquire(b, claim("bob")); next.Prior != tenure.EndingTaken {
			t.Errorf("prior %v", next.Prior)
		}
	})
}

// proves: T5, T6, T14
func TestRevokedIsFreedAfterBeliefAndGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		l := r.acquire(a, claim("ann"))
		r.pass(4 * time.Second)
		revoked := r.do(b, tenure.Revoke{Lease: l.ID, Resource: press, Reason: "drill"})
		if revoked.State != tenure.StateRevoking || revoked.Epoch != 2 || !revoked.Token.IsZero() {
			t.Errorf("%v at epoch %d with token %q", revoked.State, revoked.Epoch, revoked.Token)
		}
		r.want(r.renew(a, l), tenure.ErrStale)
		_, err := a.Do(t.Context(), release(l))
		r.want(err, tenure.ErrStale)
		r.pass(ttl + grace - time.Millisecond)
		_, err = b.Do(t.Context(), tenure.Reclaim{Lease: l.ID, Resource: press})
		r.want(err, tenure.ErrInvalidState)
		r.pass(time.Millisecond)
		if got := r.do(b, tenure.Reclaim{Lease: l.ID, Resource: press}); got.State != tenure.StateRevoked || got.Epoch != 2 || got.Result.Detail != "drill" {
			t.Errorf("%v at epoch %d, %v", got.State, got.Epoch, got.Result)
		}
		if next := r.acquire(a, claim("ann")); next.Prior != tenure.EndingTaken {
			t.Errorf("prior %v", next.Prior)
		}
	})
}
