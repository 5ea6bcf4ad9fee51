package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/server"
)

func TestClientMakesEveryCall(t *testing.T) {
	address, _ := serve(t, memory(t), server.Config{})
	c := dial(t, address)
	ctx := t.Context()

	l, err := c.Acquire(ctx, on("a/1", "me"))
	if err != nil {
		t.Fatal(err)
	}
	if l.State != tenure.StateActive || l.Token.IsZero() || l.Holder != "me" || l.TTL != tenure.DefaultTTL || l.GrantedAt.IsZero() {
		t.Fatalf("granted %+v", l)
	}
	_, err = c.Acquire(ctx, on("a/1", "you"))
	var held *tenure.Error
	if !errors.As(err, &held) || held.Code != tenure.ErrHeld || held.Holder != "me" || held.Lease != l.ID || held.Free <= 0 {
		t.Fatalf("second claim: %v", err)
	}
	each, err := c.Renew(ctx, []tenure.Ref{l.Ref, {Token: tenure.Token{Lease: tenure.LeaseID{LSN: 999}, Epoch: 1}, Resource: "a/1"}, {Resource: "a/\xff"}})
	if err != nil || each[0] != nil || each[1] == nil || !errors.Is(each[2], tenure.ErrInvalid) {
		t.Fatalf("renewals: %v, %v", each, err)
	}
	if got, err := c.Lookup(ctx, tenure.Query{Resource: "a/1"}); err != nil || got.ID != l.ID {
		t.Fatalf("lookup: %+v, %v", got, err)
	}
	n := 0
	for got, err := range c.List(ctx, tenure.Filter{Namespace: "a"}) {
		if err != nil || got.ID != l.ID {
			t.Fatalf("list: %+v, %v", got, err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("listed %d leases", n)
	}
	r, err := c.Do(ctx, tenure.Release{Ref: l.Ref, Holder: "me", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "no disk"}})
	if err != nil || r.State != tenure.StateReleased || r.Result.Detail != "no disk" || !r.Token.IsZero() {
		t.Fatalf("release: %+v, %v", r, err)
	}
}

func TestClientCarriesConcurrentCallers(t *testing.T) {
	engine := memory(t)
	address, _ := serve(t, engine, server.Config{})
	c := dial(t, address)
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for j := range 20 {
				holder := fmt.Sprintf("h%d", i)
				l, err := c.Acquire(t.Context(), on(fmt.Sprintf("a/%d-%d", i, j), holder))
				if err == nil && (l.Holder != tenure.Holder(holder) || l.Resource != tenure.Resource(fmt.Sprintf("a/%d-%d", i, j))) {
					err = fmt.Errorf("got somebody else's answer: %+v", l)
				}
				if err == nil {
					_, err = c.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: l.Holder})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

func TestClientWaitEnds(t *testing.T) {
	engine := memory(t)
	address, _ := serve(t, engine, server.Config{})
	c := dial(t, address)
	l, err := c.Acquire(t.Context(), on("a/1", "me"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	claim := on("a/1", "you")
	claim.Wait = tenure.WaitForever
	if _, err := c.Acquire(ctx, claim); !errors.Is(err, tenure.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the wait ended with %v", err)
	}
	claim.Wait = 20 * time.Millisecond
	if _, err := c.Acquire(t.Context(), claim); !errors.Is(err, tenure.ErrHeld) {
		t.Fatalf("the wait ended with %v", err)
	}
	if _, err := c.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: "me"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(t.Context(), tenure.Query{Resource: "a/1"}); !errors.Is(err, tenure.ErrNotFound) {
		t.Fatalf("a wait that had ended left a grant: %v", err)
	}
}
