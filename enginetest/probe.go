package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
)

// probe is one case at work: its subject, and how to ask it. What a helper
// does not expect ends the case.
type probe struct {
	*testing.T
	Subject
	pace
	caps    tenure.Caps
	limits  tenure.Limits
	bubble  bool
	ctx     context.Context
	seen    atomic.Uint64 // the highest LSN in an answer
	markers atomic.Uint64
}

func newProbe(t *testing.T, s Subject, limits tenure.Limits, bubble bool) *probe {
	if s.Peer == nil {
		s.Peer = s.Engine
	}
	p := &probe{T: t, Subject: s, pace: brisk, caps: s.Engine.Caps(), limits: limits, bubble: bubble}
	if bubble {
		p.pace = exact
	}
	ctx, end := context.WithTimeout(t.Context(), p.limit) // a call that hangs fails
	t.Cleanup(end)
	p.ctx = ctx
	return p
}

// at is a resource of the case.
func at(key string) tenure.Resource { return tenure.Resource("suite.case/" + key) }

// claim asks for keys without a TTL, so that no time decides anything, under an
// operation of its own.
func (p *probe) claim(holder tenure.Holder, keys ...string) tenure.Claim {
	c := tenure.Claim{Holder: holder, TTL: tenure.NoTTL, Op: p.op()}
	for _, k := range keys {
		c.Resources = append(c.Resources, at(k))
	}
	return c
}

// timed is a claim with the TTL and grace of the case.
func (p *probe) timed(holder tenure.Holder, keys ...string) tenure.Claim {
	c := p.claim(holder, keys...)
	c.TTL, c.Grace = p.ttl, p.grace
	return c
}

// reservation is a claim that has to be activated.
func (p *probe) reservation(holder tenure.Holder, window time.Duration, keys ...string) tenure.Claim {
	c := p.claim(holder, keys...)
	c.Reserve = window
	return c
}

// waits makes a claim wait for ever.
func waits(c tenure.Claim) tenure.Claim {
	c.Wait = tenure.WaitForever
	return c
}

func (p *probe) op() tenure.Op { return tenure.NewOp(tenure.LSN(p.seen.Load())) }

// note remembers what was seen.
func (p *probe) note(l tenure.Lease) tenure.Lease {
	for {
		old := p.seen.Load()
		most := max(old, uint64(l.AsOf), uint64(l.LSN))
		if p.seen.CompareAndSwap(old, most) {
			return l
		}
	}
}

// acquire claims, and is granted.
func (p *probe) acquire(c tenure.Claim) tenure.Lease {
	p.Helper()
	return p.acquireOn(p.Engine, c)
}

func (p *probe) acquireOn(e tenure.Engine, c tenure.Claim) tenure.Lease {
	p.Helper()
	l, err := e.Acquire(p.ctx, c)
	if err != nil {
		p.Fatalf("claim of %v by %q: %v", c.Resources, c.Holder, err)
	}
	return p.note(l)
}

// refusedClaim claims, and is refused with one of the codes.
func (p *probe) refusedClaim(c tenure.Claim, codes ...tenure.Code) *tenure.Error {
	p.Helper()
	l, err := p.Engine.Acquire(p.ctx, c)
	if err == nil {
		p.Fatalf("claim of %v by %q was granted %v, want %v", c.Resources, c.Holder, l.ID, codes)
	}
	return p.code(err, codes...)
}

// do executes a command.
func (p *probe) do(c tenure.Command) tenure.Lease {
	p.Helper()
	l, err := p.Engine.Do(p.ctx, c)
	if err != nil {
		p.Fatalf("%T: %v", c, err)
	}
	return p.note(l)
}

// refused executes a command, and is refused with one of the codes.
func (p *probe) refused(c tenure.Command, codes ...tenure.Code) *tenure.Error {
	p.Helper()
	l, err := p.Engine.Do(p.ctx, c)
	if err == nil {
		p.Fatalf("%T was executed, the lease is %v; want %v", c, l.State, codes)
	}
	return p.code(err, codes...)
}

// code asserts that err is a refusal with one of the codes, and says why.
func (p *probe) code(err error, codes ...tenure.Code) *tenure.Error {
	p.Helper()
	var e *tenure.Error
	switch {
	case err == nil:
		p.Fatalf("no error, want %v", codes)
	case !errors.As(err, &e):
		p.Fatalf("%v is not a *tenure.Error", err)
	case !slices.Contains(codes, e.Code):
		p.Fatalf("%v (code %v), want %v", err, e.Code, codes)
	case e.Why == "" && e.Cause == nil:
		p.Fatalf("%v does not say why", err)
	}
	return e
}

// over is what a command of a holder whose tenure is over is refused with; an
// engine without history cannot always tell why.
func (p *probe) over(want tenure.Code) []tenure.Code {
	if p.caps.History {
		return []tenure.Code{want}
	}
	return []tenure.Code{tenure.ErrStale, tenure.ErrEnded, tenure.ErrNotFound}
}

func release(l tenure.Lease) tenure.Release { return tenure.Release{Ref: ref(l), Holder: l.Holder} }

// ref is the proof that came with the grant, also of a lease that has ended.
func ref(l tenure.Lease) tenure.Ref {
	return tenure.Ref{Token: tenure.Token{Lease: l.ID, Epoch: 1}, Resource: l.Resource}
}

func (p *probe) release(l tenure.Lease) tenure.Lease { p.Helper(); return p.do(release(l)) }

func (p *probe) revoke(l tenure.Lease) tenure.Lease {
	p.Helper()
	return p.do(tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: "the case wants it"})
}

// bury reclaims with the assertion that the holder is dead.
func (p *probe) bury(l tenure.Lease) tenure.Lease {
	p.Helper()
	return p.do(tenure.Reclaim{Lease: l.ID, Resource: l.Resource, HolderIsDead: true})
}

// renew beats for one lease.
func (p *probe) renew(r tenure.Ref) error {
	p.Helper()
	each, err := p.Engine.Renew(p.ctx, []tenure.Ref{r})
	if err != nil || len(each) != 1 {
		p.Fatalf("renew: %d answers, %v", len(each), err)
	}
	return each[0]
}

func (p *probe) mustRenew(l tenure.Lease) {
	p.Helper()
	if err := p.renew(ref(l)); err != nil {
		p.Fatalf("renewal of %v: %v", l.ID, err)
	}
}

// look reads a lease that is kept.
func (p *probe) look(l tenure.Lease) tenure.Lease {
	p.Helper()
	got, err := p.Engine.Lookup(p.ctx, tenure.Query{ID: l.ID, Resource: l.Resource})
	if err != nil {
		p.Fatalf("lookup of %v: %v", l.ID, err)
	}
	return p.note(got)
}

// owner reads the live lease of a resource.
func (p *probe) owner(key string) tenure.Lease {
	p.Helper()
	got, err := p.Engine.Lookup(p.ctx, tenure.Query{Resource: at(key)})
	if err != nil {
		p.Fatalf("lookup of %s: %v", key, err)
	}
	return p.note(got)
}

func (p *probe) free(key string) {
	p.Helper()
	l, err := p.Engine.Lookup(p.ctx, tenure.Query{Resource: at(key)})
	if err == nil {
		p.Fatalf("%s is owned by lease %v of %q (%v)", key, l.ID, l.Holder, l.State)
	}
	p.code(err, tenure.ErrNotFound)
}

// same asserts that nothing happened to a lease since it was seen as want.
func (p *probe) same(want tenure.Lease) {
	p.Helper()
	if got := p.look(want); got.LSN != want.LSN || got.State != want.State || got.Epoch != want.Epoch || got.Holder != want.Holder {
		p.Fatalf("lease %v is %v at epoch %d, changed at %d; was %v at epoch %d, changed at %d",
			want.ID, got.State, got.Epoch, got.LSN, want.State, want.Epoch, want.LSN)
	}
}

func (p *probe) is(l tenure.Lease, want tenure.State) {
	p.Helper()
	if l.State != want {
		p.Fatalf("lease %v is %v, want %v", l.ID, l.State, want)
	}
}

// Advance lets d pass, and what is due then happen.
func (p *probe) Advance(d time.Duration) {
	time.Sleep(d)
	if p.bubble {
		synctest.Wait()
	}
}

// settle lets what was begun come to rest: exactly in a bubble, likely outside.
func (p *probe) settle() {
	if p.bubble {
		synctest.Wait()
		return
	}
	p.Advance(30 * time.Millisecond)
}

// eventually asks again and again until it is so.
func (p *probe) eventually(what string, so func() bool) {
	p.Helper()
	for begun := time.Now(); !so(); {
		if time.Since(begun) > p.patience {
			p.Fatalf("%s: not so after %v", what, p.patience)
		}
		p.Advance(p.ttl / 100)
	}
}

// restart crashes and reopens.
func (p *probe) restart() {
	p.Helper()
	e := p.Subject.Restart()
	p.Engine, p.Peer = e, e
}

// await takes what comes.
func await[V any](p *probe, what string, from <-chan V) V {
	p.Helper()
	never := time.NewTimer(p.patience)
	defer never.Stop()
	select {
	case v := <-from:
		return v
	case <-never.C:
		p.Fatalf("%s: nothing came within %v", what, p.patience)
	}
	panic("unreachable")
}

// pending is a claim on its way.
type pending struct {
	p      *probe
	claim  tenure.Claim
	end    context.CancelCauseFunc
	answer chan answer
}

type answer struct {
	lease tenure.Lease
	err   error
	when  time.Time
}

// start claims in the background.
func (p *probe) start(e tenure.Engine, c tenure.Claim) *pending {
	ctx, end := context.WithCancelCause(p.ctx)
	w := &pending{p: p, claim: c, end: end, answer: make(chan answer, 1)}
	p.Cleanup(func() { end(nil) })
	go func() {
		l, err := e.Acquire(ctx, c)
		w.answer <- answer{lease: l, err: err, when: time.Now()}
	}()
	return w
}

// queue starts a waiting claim and returns when it stands in line. Where that
// cannot be seen, a resource of its own is added to the claim, and a claim for
// that one is refused as soon as the other waits.
func (p *probe) queue(c tenure.Claim) *pending {
	p.Helper()
	if p.bubble || !p.caps.Bundles || !p.caps.Fair {
		w := p.start(p.Engine, c)
		p.settle()
		return w
	}
	marker := fmt.Sprintf("marker-%d", p.markers.Add(1))
	c.Resources = append(slices.Clone(c.Resources), at(marker))
	w := p.start(p.Engine, c)
	p.eventually("the claim stands in line", func() bool {
		l, err := p.Engine.Acquire(p.ctx, p.claim("marker", marker))
		if err == nil {
			p.release(p.note(l))
			return false
		}
		p.code(err, tenure.ErrHeld)
		return true
	})
	return w
}

// granted waits for the grant.
func (w *pending) granted() tenure.Lease {
	w.p.Helper()
	a := await(w.p, fmt.Sprintf("the claim by %q", w.claim.Holder), w.answer)
	if a.err != nil {
		w.p.Fatalf("the claim by %q: %v", w.claim.Holder, a.err)
	}
	return w.p.note(a.lease)
}

// refused waits for the refusal.
func (w *pending) refused(codes ...tenure.Code) *tenure.Error {
	w.p.Helper()
	a := await(w.p, fmt.Sprintf("the claim by %q", w.claim.Holder), w.answer)
	if a.err == nil {
		w.p.Fatalf("the claim by %q was granted %v, want %v", w.claim.Holder, a.lease.ID, codes)
	}
	return w.p.code(a.err, codes...)
}

// stillWaits asserts that there is no answer yet.
func (w *pending) stillWaits() {
	w.p.Helper()
	w.p.settle()
	select {
	case a := <-w.answer:
		w.p.Fatalf("the claim by %q was answered: lease %v, %v", w.claim.Holder, a.lease.ID, a.err)
	default:
	}
}
