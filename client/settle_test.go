package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/server"
)

// The answer to a claim is lost with its connection. The client asks again
// under the same operation, and is given the one lease that was granted.
//
// proves: T10, T11
func TestLostAnswerIsSettledOnce(t *testing.T) {
	engine := memory(t)
	history := follow(t, engine)
	address, _ := serve(t, engine, server.Config{})
	road := newRoad(t, address)
	c := dial(t, road.address())

	lost := func(call func() (tenure.Lease, error), kind tenure.EventKind) tenure.Lease {
		t.Helper()
		road.swallow(true)
		type answer struct {
			lease tenure.Lease
			err   error
		}
		answered := make(chan answer, 1)
		go func() {
			l, err := call()
			answered <- answer{l, err}
		}()
		ev := history.next(kind) // it was executed, and its answer is on the road
		road.swallow(false)
		road.cut()
		a := <-answered
		if a.err != nil || a.lease.ID != ev.Lease.ID || !a.lease.Replayed {
			t.Fatalf("%v: %+v, %v", kind, a.lease, a.err)
		}
		history.nothing()
		return a.lease
	}
	l := lost(func() (tenure.Lease, error) { return c.Acquire(t.Context(), on("a/1", "me")) }, tenure.EventGranted)
	if l.Token.IsZero() {
		t.Fatalf("the lease stands, and was given without its token: %+v", l)
	}
	lost(func() (tenure.Lease, error) { return c.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: "me"}) }, tenure.EventReleased)
	own := on("a/2", "me")
	own.Op = tenure.NewOp(l.AsOf)
	l = lost(func() (tenure.Lease, error) { return c.Acquire(t.Context(), own) }, tenure.EventGranted)
	lost(func() (tenure.Lease, error) { return c.Do(t.Context(), tenure.Revoke{Lease: l.ID}) }, tenure.EventRevoking)
}

// The context ends while the connection is gone: unknown if it may have
// arrived, and the operation settles it; unavailable if it was never sent.
//
// proves: T11
func TestContextEndsWithoutAConnection(t *testing.T) {
	engine := memory(t)
	history := follow(t, engine)
	address, _ := serve(t, engine, server.Config{})
	road := newRoad(t, address)
	c := dial(t, road.address())

	for _, wait := range []time.Duration{0, tenure.WaitForever} {
		road.swallow(true)
		ctx, cancel := context.WithCancelCause(t.Context())
		claim := on("a/1", "me")
		claim.Wait = wait
		failed := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, claim)
			failed <- err
		}()
		granted := history.next(tenure.EventGranted)
		road.refuse(true)
		road.cut()
		road.swallow(false)
		if _, err := c.Lookup(brief(t), tenure.Query{Resource: "a/1"}); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a read without a connection: %v", err)
		}
		why := errors.New("enough")
		cancel(why)
		err := <-failed
		var unknown *tenure.Error
		if !errors.As(err, &unknown) || unknown.Code != tenure.ErrUnknownOutcome || !errors.Is(err, why) || unknown.Op.IsZero() {
			t.Fatalf("sent: %v", err)
		}
		if _, err := c.Acquire(brief(t), on("a/1", "me")); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("never sent: %v", err)
		}
		road.refuse(false)
		claim.Op = unknown.Op
		l, err := c.Acquire(t.Context(), claim)
		if err != nil || l.ID != granted.Lease.ID || l.Token.IsZero() {
			t.Fatalf("the repeat: %+v %v", l, err)
		}
		if _, err := c.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: "me"}); err != nil {
			t.Fatal(err)
		}
		history.next(tenure.EventReleased)
	}
	history.nothing()
}

func brief(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// Waits and watches go on over a restart of the server.
func TestWaitAndWatchSurviveARestart(t *testing.T) {
	engine := memory(t)
	address, stop := serve(t, engine, server.Config{})
	c := dial(t, address)
	first, err := c.Acquire(t.Context(), on("a/1", "me"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := make(chan tenure.Event, 100)
	watching := make(chan error, 1)
	go func() {
		for ev, err := range c.Watch(ctx, tenure.Filter{}) {
			if err != nil {
				watching <- err
				return
			}
			watched <- ev
		}
	}()
	if ev := <-watched; ev.Kind != tenure.EventWatching {
		t.Fatal(ev)
	}
	waited := make(chan tenure.Lease, 1)
	go func() {
		claim := on("a/1", "you")
		claim.Wait = time.Minute
		l, err := c.Acquire(t.Context(), claim)
		if err != nil {
			t.Error(err)
		}
		waited <- l
	}()
	if _, err := c.Acquire(t.Context(), on("a/2", "me")); err != nil {
		t.Fatal(err)
	}
	stop()
	// While there is no server: what nobody could watch live.
	if _, err := engine.Acquire(t.Context(), on("a/3", "me")); err != nil {
		t.Fatal(err)
	}
	serveAt(t, engine, server.Config{}, address)
	if _, err := c.Do(t.Context(), tenure.Release{Ref: first.Ref, Holder: "me"}); err != nil {
		t.Fatal(err)
	}
	if l := <-waited; l.Holder != "you" || l.Token.IsZero() {
		t.Fatalf("waited for %+v", l)
	}
	for _, want := range []struct {
		kind     tenure.EventKind
		resource tenure.Resource
	}{
		{tenure.EventGranted, "a/2"}, {tenure.EventGranted, "a/3"}, {tenure.EventReleased, "a/1"}, {tenure.EventGranted, "a/1"},
	} {
		if ev := <-watched; ev.Kind != want.kind || ev.Lease.Resource != want.resource {
			t.Fatalf("event %v of %v, want %v", ev.Kind, ev.Lease.Resource, want)
		}
	}
	cancel()
	if err := <-watching; !errors.Is(err, context.Canceled) {
		t.Fatalf("the watch ended with %v", err)
	}
}

// A position that is not from this history is the caller's to deal with.
func TestWatchReturnsCompacted(t *testing.T) {
	address, _ := serve(t, memory(t), server.Config{})
	c := dial(t, address)
	n := 0
	for _, err := range c.Watch(t.Context(), tenure.Filter{From: tenure.Position{LSN: tenure.MaxLSN - 5}}) {
		var e *tenure.Error
		if !errors.As(err, &e) || e.Code != tenure.ErrCompacted || e.LSN == 0 {
			t.Fatalf("%v", err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("%d answers", n)
	}
}
