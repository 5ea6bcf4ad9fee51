package kv_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kv"
)

// proves: T10, T11
func TestLostAnswersAreSettled(t *testing.T) {
	for name, faults := range map[string][]fault{
		"after":        {lostAfter},
		"before":       {lostBefore},
		"several":      {lostBefore, lostBefore, lostAfter},
		"then refused": {lostBefore, refused},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				f := &faulty{Store: r.store}
				a := r.process(f)
				f.fail(faults...)
				l := r.acquire(a, claim("ann"))
				if l.Replayed || l.Token.IsZero() {
					t.Errorf("replayed %v, token %q", l.Replayed, l.Token)
				}
				f.fail(faults...)
				if err := r.renew(a, l); err != nil {
					t.Errorf("renewal: %v", err)
				}
				f.fail(faults...)
				if got := r.do(a, release(l)); got.State != tenure.StateReleased {
					t.Errorf("released: %v", got.State)
				}
			})
		})
	}
}

// proves: T10, T11
func TestUnknownOutcomeIsSettledByRepeating(t *testing.T) {
	for _, first := range []fault{darkBefore, darkAfter} {
		bubble(t, func(t *testing.T, r *rig) {
			f := &faulty{Store: r.store}
			a := r.process(f)
			f.fail(first)
			_, err := a.Acquire(t.Context(), claim("ann"))
			r.want(err, tenure.ErrUnknownOutcome)
			f.outage(none)
			var unknown *tenure.Error
			c := claim("ann")
			if errors.As(err, &unknown) {
				c.Op = unknown.Op
			}
			if c.Op.IsZero() {
				t.Fatal("the operation to repeat is not named")
			}
			l := r.acquire(a, c)
			if again := r.acquire(r.process(), c); again.ID != l.ID || again.Token != l.Token || !again.Replayed {
				t.Errorf("%v, was %v", again.ID, l.ID)
			}
			f.fail(first)
			_, err = a.Do(t.Context(), release(l))
			r.want(err, tenure.ErrUnknownOutcome)
			f.outage(none)
			if got := r.do(a, release(l)); got.State != tenure.StateReleased || got.Replayed != (first == darkAfter) {
				t.Errorf("%v, replayed %v", got.State, got.Replayed)
			}
		})
	}
}

// A command is judged on what was read, and so must its write be.
//
// proves: T1, T5
func TestWriteThatComesTooLateChangesNothing(t *testing.T) {
	for name, command := range map[string]func(r *rig, a *kv.Engine, l tenure.Lease) error{
		"release": func(r *rig, a *kv.Engine, l tenure.Lease) error { _, err := a.Do(r.Context(), release(l)); return err },
		"renewal": func(r *rig, a *kv.Engine, l tenure.Lease) error { return r.renew(a, l) },
		"claim": func(r *rig, a *kv.Engine, l tenure.Lease) error {
			_, err := r.within(a, claim("cid"), time.Second)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				f := &faulty{Store: r.store}
				a, b := r.process(f), r.process()
				l := r.acquire(a, claim("ann"))
				_, err := r.within(b, claim("bob"), ttl+grace-time.Millisecond)
				r.want(err, tenure.ErrHeld)
				r.pass(time.Millisecond)
				var stolen kv.Entry
				f.before = func() { r.acquire(b, claim("bob")); stolen = r.entry() }
				err = command(r, a, l)
				if code := tenure.CodeOf(err); code != tenure.ErrStale && code != tenure.ErrHeld {
					t.Errorf("%v", err)
				}
				if now := r.entry(); stolen.Revision == 0 || now.Revision != stolen.Revision {
					t.Errorf("%s was written over %s", now.Value, stolen.Value)
				}
			})
		})
	}
}

// proves: T11
func TestRefusedWriteChangedNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store}
		a := r.process(f)
		f.fail(refused)
		_, err := a.Acquire(t.Context(), claim("ann"))
		r.want(err, tenure.ErrUnavailable)
		if !r.entry().Absent {
			t.Error("something was written")
		}
		l := r.acquire(a, claim("ann"))
		r.unchanged(func() {
			f.fail(refused)
			r.want(r.renew(a, l), tenure.ErrUnavailable)
			f.outage(lostBefore)
			r.want(r.renew(a, l), tenure.ErrUnavailable) // it could not even be read
			f.outage(none)
		})
		if err := r.renew(a, l); err != nil {
			t.Fatal(err)
		}
		f.outage(lostBefore)
		r.want(r.renew(a, l), tenure.ErrUnknownOutcome)
		f.outage(none)
		if err := r.renew(a, l); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	})
}

// An outage costs a waiting claim nothing but the outage.
func TestWaitGoesOnOverAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store}
		a, b := r.process(), r.process(f)
		r.acquire(a, claim("ann"))
		go func() {
			r.pass(time.Second)
			f.outage(lostBefore)
			r.pass(ttl + grace + time.Second)
			f.outage(none)
		}()
		c := claim("bob")
		c.Wait = time.Hour
		begun := time.Now()
		r.acquire(b, c)
		if took := since(begun); took < ttl+grace+2*time.Second || took > ttl+grace+4*time.Second {
			t.Errorf("taken after %v", took)
		}
		f.outage(lostBefore)
		_, err := b.Acquire(t.Context(), claim("bob"))
		r.want(err, tenure.ErrUnavailable)
	})
}

func TestGrantThatRacesTheEndOfAWaitIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store, sent: make(chan struct{})}
		a, b := r.process(), r.process(f)
		l := r.acquire(a, claim("ann"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		c := claim("bob")
		c.Wait = tenure.WaitForever
		go func() { _, err := b.Acquire(ctx, c); done <- err }()
		synctest.Wait()
		f.fail(held)
		r.do(a, release(l))
		<-f.sent
		cancel()
		err := <-done
		r.want(err, tenure.ErrHeld)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the cause", err)
		}
		_, err = a.Lookup(t.Context(), tenure.Query{Resource: press})
		r.want(err, tenure.ErrNotFound)
		if next := r.acquire(a, claim("ann")); next.Prior != tenure.EndingClean {
			t.Errorf("prior %v", next.Prior)
		}
	})
}

// Under an operation that the caller brought, another one may have been answered
// the grant: it stands, and repeating the claim tells.
//
// proves: T14
func TestT14_ARacedGrantThatOthersMayShareStands(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store, sent: make(chan struct{})}
		a, b := r.process(), r.process(f)
		l := r.acquire(a, claim("ann"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		c := claim("bob")
		c.Wait, c.Op = tenure.WaitForever, tenure.NewOp(l.LSN)
		go func() { _, err := b.Acquire(ctx, c); done <- err }()
		synctest.Wait()
		f.fail(held)
		r.do(a, release(l))
		<-f.sent
		cancel()
		r.want(<-done, tenure.ErrUnknownOutcome)
		if got := r.acquire(a, c); !got.Replayed || got.Token.IsZero() {
			t.Errorf("the repeat got %+v", got)
		}
	})
}

func TestWaitIsEndedByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.process(), r.process()
		r.acquire(a, claim("ann"))
		c := claim("bob")
		c.Wait = tenure.WaitForever
		r.unchanged(func() {
			_, err := r.within(b, c, time.Second)
			r.want(err, tenure.ErrHeld)
		})
	})
}

// proves: T12
func TestWaitersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := tenure.DefaultLimits()
		l.Waiters, l.WaitersPerResource = 1, 1
		a, b := r.process(), r.configured(kv.Config{Limits: l})
		first := r.acquire(a, claim("ann"))
		c := claim("bob")
		c.Wait = tenure.WaitForever
		done := make(chan error, 1)
		go func() { _, err := b.Acquire(t.Context(), c); done <- err }()
		synctest.Wait()
		_, err := b.Acquire(t.Context(), c)
		r.want(err, tenure.ErrFull)
		r.do(a, release(first))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A holder that knows its own record renews with one request.
func TestRenewalIsOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		f := &faulty{Store: r.store}
		a := r.process(f)
		l := r.acquire(a, claim("ann"))
		before, revision := f.requests(), r.entry().Revision
		for range 10 {
			if err := r.renew(a, l); err != nil {
				t.Fatal(err)
			}
		}
		if asked := f.requests() - before; asked != 10 || r.entry().Revision != revision+10 {
			t.Errorf("%d requests, revision %d after %d", asked, r.entry().Revision, revision)
		}
		if got, err := a.Lookup(t.Context(), tenure.Query{ID: l.ID, Resource: press}); err != nil || got.Token != l.Token || got.LSN != l.LSN {
			t.Errorf("token %v, changed at %d, %v: a renewal raises the revision only", got.Token, got.LSN, err)
		}
	})
}

// proves: T10
func TestOperationsAreRememberedAndThenRetired(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := r.process()
		var claims []tenure.Claim
		var leases []tenure.Lease
		for range 11 {
			c := claim("ann")
			c.Op = tenure.NewOp(0)
			if len(leases) > 0 {
				c.Op.Seen = leases[len(leases)-1].LSN
			}
			l := r.acquire(a, c)
			r.do(a, release(l))
			claims, leases = append(claims, c), append(leases, l)
		}
		for i, c := range claims {
			l, err := a.Acquire(t.Context(), c)
			switch {
			case i < 2:
				r.want(err, tenure.ErrRetired)
			case err != nil || l.ID != leases[i].ID || !l.Token.IsZero() || l.State != tenure.StateReleased || !l.Replayed:
				t.Errorf("operation %d: %v %v with token %q, %v", i, l.ID, l.State, l.Token, err)
			}
			other := c
			other.Meta = []byte("other")
			if _, err := a.Acquire(t.Context(), other); i >= 2 && tenure.CodeOf(err) != tenure.ErrConflict {
				t.Errorf("operation %d for another claim: %v", i, err)
			}
		}
		if again := r.do(a, release(leases[5])); !again.Replayed || again.ID != leases[5].ID {
			t.Errorf("a release repeated after others: %v, replayed %v", again.ID, again.Replayed)
		}
	})
}

func TestNamesTheRemedyForAnID(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := r.process()
		l := r.acquire(a, claim("ann"))
		_, err := a.Lookup(t.Context(), tenure.Query{ID: l.ID})
		r.want(err, tenure.ErrUnsupported)
		if !strings.Contains(err.Error(), "name the resource") {
			t.Errorf("%v", err)
		}
		_, err = a.Do(t.Context(), tenure.Revoke{Lease: l.ID})
		r.want(err, tenure.ErrUnsupported)
	})
}
