package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/memlog"
)

// While a record is in flight, no part of the engine shows what it says: not a
// read, not a refusal that rests on it, not a watch, a renewal, or a metric.
//
// proves: T11
func TestT11_NothingUndurableLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		g := newGate(memlog.New())
		e := opened(t, g)
		defer e.Close()
		before := e.feed.headLSN()

		open := g.shut()
		granted := async(func() error { _, err := e.Acquire(ctx, tenure.On("a/b")); return err })
		<-g.entered
		looked := async(func() error { _, err := e.Lookup(ctx, tenure.Query{Resource: "a/b"}); return err })
		refused := async(func() error { _, err := e.Acquire(ctx, tenure.On("a/b")); return err })
		watched := make(chan tenure.Event, 4)
		go func() {
			for ev, err := range e.Watch(ctx, tenure.Filter{From: tenure.Position{LSN: before}}) {
				if err != nil {
					return
				}
				watched <- ev
			}
		}()
		ref := tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{LSN: before + 1}, Epoch: 1}, Resource: "a/b"}
		renew := func() error {
			each, err := e.Renew(ctx, []tenure.Ref{ref})
			return errors.Join(append(each, err)...)
		}
		wantCode(t, renew(), tenure.ErrNotFound)
		synctest.Wait()
		for name, c := range map[string]<-chan error{"grant": granted, "lookup": looked, "refusal": refused} {
			select {
			case err := <-c:
				t.Errorf("%s was answered (%v) while the record was in flight", name, err)
			default:
			}
		}
		if ev := <-watched; ev.Kind != tenure.EventWatching {
			t.Errorf("the watch began with %v", ev.Kind)
		}
		select {
		case ev := <-watched:
			t.Errorf("the watch showed %v at %v while the record was in flight", ev.Kind, ev.Position)
		default:
		}
		if head := e.feed.headLSN(); head != before {
			t.Errorf("the metric says LSN %d, durable is %d", head, before)
		}

		open()
		for name, c := range map[string]<-chan error{"grant": granted, "lookup": looked} {
			if err := <-c; err != nil {
				t.Errorf("%s, once durable: %v", name, err)
			}
		}
		if err := renew(); err != nil {
			t.Errorf("renewal, once durable: %v", err)
		}
		wantCode(t, <-refused, tenure.ErrHeld)
		if ev := <-watched; ev.Kind != tenure.EventGranted {
			t.Errorf("the watch showed %v, want the grant", ev.Kind)
		}
	})
}

// A failed write halts: callers in flight do not know their outcome, everything
// else is refused, renewals too, and the next open settles what was unknown.
//
// proves: T11, T10
func TestT11_AFailedWriteHalts(t *testing.T) {
	for name, when := range map[string]memlog.Moment{"before": memlog.Before, "after": memlog.After} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				log := memlog.New()
				e := opened(t, log)
				held := acquire(t, e, tenure.On("a/held"))
				waits := async(func() error {
					_, err := e.Acquire(ctx, tenure.Claim{Resources: tenure.On("a/held").Resources, Wait: tenure.WaitForever})
					return err
				})
				watch := async(func() error {
					for _, err := range e.Watch(ctx, tenure.Filter{}) {
						if err != nil {
							return err
						}
					}
					return nil
				})
				synctest.Wait()

				broken(log, when)
				_, err := e.Acquire(ctx, tenure.On("a/new"))
				var unknown *tenure.Error
				if !errors.As(err, &unknown) || unknown.Code != tenure.ErrUnknownOutcome || unknown.Op.IsZero() || !errors.Is(err, errDisk) {
					t.Fatalf("in flight: got %v, want an unknown outcome with its operation and cause", err)
				}
				wantCode(t, <-waits, tenure.ErrHalted)
				wantCode(t, <-watch, tenure.ErrHalted)
				_, err = e.Renew(ctx, []tenure.Ref{held.Ref})
				wantCode(t, err, tenure.ErrHalted)
				_, err = e.Lookup(ctx, tenure.Query{ID: held.ID})
				wantCode(t, err, tenure.ErrHalted)
				_, err = e.Do(ctx, tenure.Release{Ref: held.Ref, Holder: held.Holder})
				wantCode(t, err, tenure.ErrHalted)
				wantCode(t, e.Halted(), tenure.ErrHalted)
				e.Close()

				again := opened(t, log.Crash(when == memlog.After))
				defer again.Close()
				claim := tenure.On("a/new")
				claim.Op = unknown.Op
				settled := acquire(t, again, claim)
				if settled.Replayed != (when == memlog.After) {
					t.Errorf("settled as replayed=%v after a write that failed %s it was stored", settled.Replayed, name)
				}
				if l, err := again.Lookup(ctx, tenure.Query{ID: held.ID}); err != nil || l.State != tenure.StateActive {
					t.Errorf("the acknowledged grant is %v (%v) after the reopen", l.State, err)
				}
			})
		})
	}
}

// A caller that stops waiting for an answer in flight is told that it does not
// know, and nothing is taken back from a claim that does not wait.
//
// proves: T11
func TestT11_AnImpatientCallerDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		defer e.Close()
		open := g.shut()
		ctx, cancel := context.WithCancelCause(context.Background())
		claim := tenure.On("a/b")
		claim.Op = tenure.NewOp(e.feed.headLSN())
		got := async(func() error { _, err := e.Acquire(ctx, claim); return err })
		<-g.entered
		cancel(errDisk)
		err := <-got
		wantCode(t, err, tenure.ErrUnknownOutcome)
		if !errors.Is(err, errDisk) {
			t.Errorf("%v does not carry the context's cause", err)
		}
		open()
		if l := acquire(t, e, claim); !l.Replayed || l.Token.IsZero() {
			t.Errorf("the repeat got %+v, want the lease that was granted", l)
		}
	})
}

// A release and the grant that it makes room for are one record, and durable
// before either is answered.
//
// proves: T1, T11
func TestHandOverIsOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		defer e.Close()
		first := acquire(t, e, tenure.On("a/b"))
		next := make(chan tenure.Lease, 1)
		go func() {
			next <- acquire(t, e, tenure.Claim{Resources: first.Resources, Holder: "next", Wait: time.Hour})
		}()
		synctest.Wait()
		records := g.count()
		release(t, e, first)
		l := <-next
		if n := g.count() - records; n != 1 {
			t.Errorf("the hand-over took %d records", n)
		}
		if l.Holder != "next" || l.Token.Compare(first.Token) <= 0 || l.Prior != tenure.EndingClean {
			t.Errorf("handed over as %+v after %v", l, first.Token)
		}
	})
}

// A grant that races the end of its claimant's context is released by the
// engine: while its record is in flight, and when it comes out of a hand-over.
//
// proves: T12
func TestAGrantWithoutClaimantIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		defer e.Close()
		ctx, cancel := context.WithCancel(context.Background())
		open := g.shut()
		gone := async(func() error {
			_, err := e.Acquire(ctx, tenure.Claim{Resources: tenure.On("a/b").Resources, Wait: time.Hour})
			return err
		})
		<-g.entered
		cancel()
		err := <-gone
		wantCode(t, err, tenure.ErrUnknownOutcome) // its record is on the way
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not carry the context's cause", err)
		}
		open()
		synctest.Wait()
		if l, err := e.Lookup(context.Background(), tenure.Query{Resource: "a/b"}); !errors.Is(err, tenure.ErrNotFound) {
			t.Fatalf("the grant that nobody took still stands: %+v (%v)", l, err)
		}
	})
}

// A repeat of the same operation that arrives while the first claimant leaves
// keeps the lease: whoever was given the token believes in it.
//
// proves: T14, T10
func TestT14_ARepeatKeepsWhatItsFirstCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		defer e.Close()
		first := acquire(t, e, tenure.On("a/b"))
		claim := tenure.Claim{Resources: first.Resources, Holder: "h", Wait: time.Hour, Op: tenure.NewOp(first.LSN)}
		ctx, cancel := context.WithCancel(context.Background())
		left := async(func() error { _, err := e.Acquire(ctx, claim); return err })
		synctest.Wait()
		kept := make(chan tenure.Lease, 1)
		go func() { kept <- acquire(t, e, claim) }()
		synctest.Wait()

		open := g.shut()
		released := async(func() error {
			_, err := e.Do(context.Background(), tenure.Release{Ref: first.Ref, Holder: first.Holder})
			return err
		})
		<-g.entered
		cancel()
		wantCode(t, <-left, tenure.ErrUnknownOutcome)
		open()
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		l := <-kept
		synctest.Wait()
		now, err := e.Lookup(context.Background(), tenure.Query{Resource: "a/b"})
		if err != nil || now.Token != l.Token || now.Token.IsZero() {
			t.Errorf("the repeat was given %v, the engine keeps %v (%v)", l.Token, now.Token, err)
		}
	})
}

// proves: T12
func TestT12_WaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New(), func(c *Config) {
			c.Limits = tenure.DefaultLimits()
			c.Limits.Waiters, c.Limits.WaitersPerResource = 3, 2
		})
		defer e.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		acquire(t, e, tenure.On("a/1"))
		acquire(t, e, tenure.On("a/2"))
		wait := func(r tenure.Resource) error {
			_, err := e.Acquire(ctx, tenure.Claim{Resources: []tenure.Resource{r}, Wait: time.Hour})
			return err
		}
		async(func() error { return wait("a/1") })
		async(func() error { return wait("a/1") })
		synctest.Wait()
		var full *tenure.Error
		if err := wait("a/1"); !errors.As(err, &full) || full.Code != tenure.ErrFull || full.Field != "waiters_per_resource" {
			t.Errorf("a third waiter of one resource: %v", err)
		}
		async(func() error { return wait("a/2") })
		synctest.Wait()
		if err := wait("a/2"); !errors.As(err, &full) || full.Field != "waiters" {
			t.Errorf("a fourth waiter: %v", err)
		}
	})
}
