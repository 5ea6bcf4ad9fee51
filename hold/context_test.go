package hold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

func TestAContextWithoutAHoldProvesNothing(t *testing.T) {
	ctx := t.Context()
	if p, ok := hold.ProofOf(ctx); ok || hold.From(ctx) != nil || !hold.Token(ctx).IsZero() {
		t.Errorf("found %+v, %v, %v", p, hold.From(ctx), hold.Token(ctx))
	}
}

func TestTheContextOfAHoldLeadsToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent := context.WithValue(t.Context(), key{}, "the parent's")
		h, err := hold.Acquire(parent, newStrict(), claim)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(h.Context(), s)
		defer cancel()
		if hold.From(ctx) != h || hold.Token(ctx) != h.Token() || ctx.Value(key{}) != "the parent's" {
			t.Errorf("a derived context leads to %v, token %v", hold.From(ctx), hold.Token(ctx))
		}
		p, ok := hold.ProofOf(ctx)
		if !ok || p.Token != h.Token() || p.Remaining > 9*s || p.Remaining < 8900*ms || len(p.Resources) != 1 {
			t.Errorf("proof %+v", p)
		}
		h.Release()
		if p, ok := hold.ProofOf(ctx); !ok || !p.Token.IsZero() || p.Remaining != 0 {
			t.Errorf("proof %+v (%v) after the release", p, ok)
		}
		if ctx.Err() == nil || hold.From(ctx) != h {
			t.Error("the derived context goes on")
		}
	})
}

func TestWithProofEndsWhenTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := hold.Proof{Token: tenure.Token{Lease: tenure.LeaseID{LSN: 42}, Epoch: 1}, Resources: []tenure.Resource{"orders/42"}, Remaining: 3 * s}
		ctx, cancel := hold.WithProof(t.Context(), shown)
		defer cancel()
		pass(2 * s)
		p, ok := hold.ProofOf(ctx)
		if !ok || p.Token != shown.Token || p.Remaining > s || p.Remaining < 990*ms {
			t.Errorf("after 2 s: %+v", p)
		}
		if hold.Token(ctx) != shown.Token || hold.From(ctx) != nil || ctx.Err() != nil {
			t.Errorf("after 2 s: token %v, hold %v, %v", hold.Token(ctx), hold.From(ctx), ctx.Err())
		}
		done := ctx.Done()
		pass(s)
		if !closed(done) {
			t.Error("whoever waits for its end was not woken")
		}
		var lost *tenure.Error
		if !errors.As(context.Cause(ctx), &lost) || lost.Code != tenure.ErrLost || lost.Resource != "orders/42" || lost.Lease != shown.Token.Lease {
			t.Errorf("after 3 s: %v", context.Cause(ctx))
		}
		if ctx.Err() == nil || !hold.Token(ctx).IsZero() {
			t.Error("after 3 s it goes on")
		}
	})
}

func TestWithProofOfALeaseWithoutTTLEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := tenure.Token{Lease: tenure.LeaseID{LSN: 42}, Epoch: 1}
		ctx, cancel := hold.WithProof(t.Context(), hold.Proof{Token: token, Remaining: hold.Forever})
		pass(1000 * s)
		if ctx.Err() != nil || hold.Token(ctx) != token {
			t.Errorf("it ended: %v", context.Cause(ctx))
		}
		cancel()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("cancelled, and ended with %v", context.Cause(ctx))
		}
	})
}

func TestWithProofThatIsOverHasEnded(t *testing.T) {
	ctx, cancel := hold.WithProof(t.Context(), hold.Proof{Token: tenure.Token{Lease: tenure.LeaseID{LSN: 42}, Epoch: 1}})
	defer cancel()
	if !errors.Is(context.Cause(ctx), tenure.ErrLost) || !hold.Token(ctx).IsZero() {
		t.Errorf("it goes on: %v", context.Cause(ctx))
	}
}
