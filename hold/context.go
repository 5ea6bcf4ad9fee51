package hold

import (
	"context"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
)

// Proof is what a holder shows to those who work for it: the token, what it is
// for, and how long the holder may still believe in it.
type Proof struct {
	Token     tenure.Token // zero when the belief is over
	Resources []tenure.Resource
	Remaining time.Duration // [Forever] without a TTL, 0 when it is over
}

// Token is the fencing token of the hold that ctx belongs to, or of the holder
// on whose behalf a call is served; zero without one, and as soon as it is over.
func Token(ctx context.Context) tenure.Token {
	p, _ := ProofOf(ctx)
	return p.Token
}

// From is the hold that ctx belongs to; nil without one.
func From(ctx context.Context) *Hold {
	h, _ := ctx.Value(proofKey{}).(*Hold)
	return h
}

// ProofOf is the proof that ctx carries; ok is false if it carries none. With a
// zero token the context belongs to a hold that is over.
func ProofOf(ctx context.Context) (p Proof, ok bool) {
	by, ok := ctx.Value(proofKey{}).(prover)
	if !ok {
		return Proof{}, false
	}
	return by.proof(), true
}

// WithProof is the context of work done on a holder's behalf, in another
// process usually: it carries the proof, and ends, with a cause that matches
// [tenure.ErrLost], when the time that remained is over. That time is counted
// from this call, so what the proof spent on its way is added to it: the context
// spares work that is late, and only a fence refuses it.
func WithProof(ctx context.Context, p Proof) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	c := &carried{cancel: cancel, boot: clock.Boot(), mono: clock.Monotonic(), shown: p}
	c.from = c.now()
	stop := func() bool { return true }
	if p.Remaining != Forever {
		stop = time.AfterFunc(p.Remaining, func() { c.check() }).Stop
	}
	return proofContext{Context: inner, prover: c}, func() {
		stop()
		cancel(context.Canceled)
	}
}

type proofKey struct{}

// proofContext reads the clock whenever it is asked, so that a process that was
// paused beyond its deadline is told before any timer fires. It has the inner
// context's Done channel, which keeps contexts derived from it cheap.
type proofContext struct {
	context.Context
	prover prover
}

// prover is a hold, or what is carried of one.
type prover interface {
	check() error // ends the inner context if the time is over
	proof() Proof
}

func (c proofContext) Done() <-chan struct{} {
	c.prover.check()
	return c.Context.Done()
}

func (c proofContext) Err() error {
	c.prover.check()
	return c.Context.Err()
}

func (c proofContext) Value(key any) any {
	if key == (proofKey{}) {
		return c.prover
	}
	return c.Context.Value(key)
}

func (h *Hold) proof() Proof {
	left := h.Remaining()
	p := Proof{Resources: h.lease.Resources, Remaining: left}
	if left > 0 {
		p.Token = h.lease.Token
	}
	return p
}

// carried is a proof away from its hold.
type carried struct {
	cancel     context.CancelCauseFunc
	boot, mono Clock
	from       Instant
	shown      Proof
}

func (c *carried) now() Instant { return Instant{Boot: c.boot.Now(), Mono: c.mono.Now()} }

func (c *carried) left() time.Duration {
	if c.shown.Remaining == Forever {
		return Forever
	}
	return max(c.shown.Remaining-c.now().since(c.from), 0)
}

func (c *carried) check() error {
	if c.left() > 0 {
		return nil
	}
	lost := &tenure.Error{Code: tenure.ErrLost, Lease: c.shown.Token.Lease, Why: "the time that remained to the holder for whom this is done is over"}
	if len(c.shown.Resources) > 0 {
		lost.Resource = c.shown.Resources[0]
	}
	c.cancel(lost)
	return lost
}

func (c *carried) proof() Proof {
	p := c.shown
	p.Remaining = c.left()
	if p.Remaining == 0 {
		p.Token = tenure.Token{}
	}
	return p
}
