package enginetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/tenurehq/tenure"
)

// repeatCases are about asking again: a repeat is never executed twice, and is
// told the truth.
var repeatCases = []testCase{
	{ // proves: T10
		ID: "E36", Name: "a claim repeated while its lease is active",
		Says: "Given a granted claim, when it is repeated, over either client, with or without waiting, then it is the same lease with the same token, marked as replayed, and nothing has changed.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			c.Meta = []byte("m")
			l := p.acquire(c)
			for _, e := range []tenure.Engine{p.Engine, p.Peer} {
				for _, again := range []tenure.Claim{c, waits(c)} {
					got := p.acquireOn(e, again)
					if got.ID != l.ID || got.Token != l.Token || !got.Replayed || got.LSN != l.LSN {
						p.Errorf("%v, token %v, replayed %v, at %d; was %v", got.ID, got.Token, got.Replayed, got.LSN, l.ID)
					}
				}
			}
			p.same(l)
		},
	},
	{ // proves: T10
		ID: "E37", Name: "an operation with another claim",
		Says: "Given a granted claim, when its operation comes with another resource, holder, TTL, grace or meta, then it is a conflict, whether or not that could be granted, and nothing has changed.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			c.TTL = p.patience
			l := p.acquire(c)
			for what, change := range map[string]func(*tenure.Claim){
				"holder": func(c *tenure.Claim) { c.Holder = "bob" },
				"ttl":    func(c *tenure.Claim) { c.TTL += p.ttl },
				"grace":  func(c *tenure.Claim) { c.Grace = tenure.NoGrace },
				"meta":   func(c *tenure.Claim) { c.Meta = []byte("other") },
			} {
				other := c
				change(&other)
				_, err := p.Engine.Acquire(p.ctx, other)
				if tenure.CodeOf(err) != tenure.ErrConflict {
					p.Errorf("another %s: %v", what, err)
				}
			}
			p.same(l)
		},
	},
	{ // proves: T10
		ID: "E38", Name: "an operation with other resources", Needs: tenure.Caps{History: true, Bundles: true, Reserve: true},
		Says: "Given a granted bundle, when its operation comes with other resources, another order, a reserve window or nothing well-formed, then it is a conflict; also after the lease has ended.",
		Run: func(p *probe) {
			c := p.claim("ann", "a", "b")
			l := p.acquire(c)
			for range 2 {
				for _, rs := range [][]tenure.Resource{{at("b"), at("a")}, {at("a")}, {at("a"), at("b"), at("c")}, {at("other")}, {"malformed"}} {
					other := c
					other.Resources = rs
					p.refusedClaim(other, tenure.ErrConflict)
				}
				other := c
				other.Reserve = p.reserve
				p.refusedClaim(other, tenure.ErrConflict)
				p.same(l)
				l = p.release(l)
			}
			p.free("other")
		},
	},
	{ // proves: T10
		ID: "E39", Name: "a claim repeated after its lease has ended", Needs: lawful,
		Says: "Given a claim whose lease was released, revoked, expired, or lost to another, when it is repeated, then it is that lease as it stands, without a token, and the resource is not taken again.",
		Run: func(p *probe) {
			for _, s := range []string{"revoking", "released", "expired", "revoked"} {
				c := p.claim("ann", s)
				if s == "expired" {
					c.Reserve = p.reserve
				}
				l := p.become(c, s)
				again := p.acquire(c)
				if again.ID != l.ID || again.State != l.State || !again.Token.IsZero() || !again.Replayed || again.LSN != l.LSN {
					p.Errorf("%s: %v %v with token %q, replayed %v", s, again.ID, again.State, again.Token, again.Replayed)
				}
				if s == "revoking" {
					p.bury(l)
				}
				p.free(s)
				next := p.acquire(p.claim("bob", s))
				if again = p.acquire(c); again.ID != l.ID || !again.Token.IsZero() {
					p.Errorf("%s, after it went to another: %v with token %q", s, again.ID, again.Token)
				}
				p.same(next)
			}
		},
	},
	{ // proves: T10, T5
		ID: "E40", Name: "a claim repeated after another got the resource",
		Says: "Given a released lease and a new owner, when the first claim is repeated, then it is never granted again: it shows its lease without a token, or is refused; and the new owner stands.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			p.release(p.acquire(c))
			next := p.acquire(p.claim("bob", "press"))
			if l, err := p.Engine.Acquire(p.ctx, c); err == nil {
				if !l.Token.IsZero() || !l.Replayed {
					p.Errorf("granted %v again", l.Token)
				}
			} else {
				p.code(err, tenure.ErrHeld, tenure.ErrRetired)
			}
			p.same(next)
		},
	},
	{ // proves: T10
		ID: "E41", Name: "a release repeated",
		Says: "Given a released lease, when the release is repeated, also with another result, then it is told so and the first result stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			ended := p.do(tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "first"}})
			for _, c := range []tenure.Command{
				tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "first"}},
				tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeOK}},
			} {
				again, err := p.Engine.Do(p.ctx, c)
				if err != nil && !p.caps.History {
					p.code(err, p.over(0)...)
					continue
				}
				if err != nil || again.LSN != ended.LSN || !again.Replayed || again.Result != ended.Result || again.State != tenure.StateReleased {
					p.Errorf("%v, %v %v at %d, replayed %v; was at %d", err, again.State, again.Result, again.LSN, again.Replayed, ended.LSN)
				}
			}
			p.free("press")
		},
	},
	{ // proves: T5, T10
		ID: "E42", Name: "a release repeated after another got the resource",
		Says: "Given a released lease and a new owner of the resource, when the release is repeated, by the old holder under either name, then the new owner stands.",
		Run: func(p *probe) {
			for _, next := range []tenure.Holder{"bob", "ann"} {
				l := p.acquire(p.claim("ann", "press"))
				p.release(l)
				now := p.acquire(p.claim(next, "press"))
				if again, err := p.Engine.Do(p.ctx, release(l)); err == nil {
					if !again.Replayed || again.ID != l.ID {
						p.Errorf("the repeat released %v (replayed %v)", again.ID, again.Replayed)
					}
				} else {
					p.code(err, p.over(0)...)
				}
				p.same(now)
				p.mustRenew(now)
				p.release(now)
			}
		},
	},
	{ // proves: T10
		ID: "E43", Name: "an activation repeated", Needs: lawful,
		Says: "Given an activated reservation, when the activation is repeated, then it is told so; after a revoke the repeat shows the lease without a token.",
		Run: func(p *probe) {
			l := p.acquire(p.reservation("ann", p.patience, "press"))
			activate := tenure.Activate{Ref: l.Ref, Holder: "ann"}
			first := p.do(activate)
			if again := p.do(activate); !again.Replayed || again.LSN != first.LSN || again.Token != l.Token {
				p.Errorf("replayed %v at %d with %v; was at %d", again.Replayed, again.LSN, again.Token, first.LSN)
			}
			p.revoke(l)
			if again := p.do(activate); !again.Replayed || !again.Token.IsZero() || again.State != tenure.StateRevoking {
				p.Errorf("after a revoke: replayed %v, %v with token %q", again.Replayed, again.State, again.Token)
			}
		},
	},
	{ // proves: T10
		ID: "E44", Name: "one operation, many callers",
		Says: "Given a free resource, when one claim is made 32 times at once over two clients, then all are told of the same lease and the same token, and it was granted once.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			got := make([]tenure.Lease, 32)
			var wg sync.WaitGroup
			for i := range got {
				e := []tenure.Engine{p.Engine, p.Peer}[i%2]
				wg.Go(func() {
					l, err := e.Acquire(p.ctx, c)
					if err != nil {
						p.Errorf("caller %d: %v", i, err)
					}
					got[i] = l
				})
			}
			wg.Wait()
			fresh := 0
			for _, l := range got {
				if l.Token != got[0].Token || l.LSN != got[0].LSN {
					p.Errorf("%v at %d and %v at %d", l.Token, l.LSN, got[0].Token, got[0].LSN)
				}
				if !l.Replayed {
					fresh++
				}
			}
			if fresh != 1 {
				p.Errorf("%d of 32 were told that they were the first", fresh)
			}
		},
	},
	{ // proves: T10, T11
		ID: "E45", Name: "a call that was broken off is settled by repeating it",
		Says: "Given claims and releases whose context ends while they are on their way, when each is repeated, then it was or is executed exactly once.",
		Run: func(p *probe) {
			rounds := 20
			if p.bubble {
				rounds = 200
			}
			for i := range rounds {
				c := p.claim("ann", fmt.Sprintf("press-%d", i))
				p.brokenOff(i%40, func(ctx context.Context) error { _, err := p.Engine.Acquire(ctx, c); return err })
				l := p.acquire(c)
				if got := p.look(l); got.Token != l.Token || got.LSN != l.ID.LSN {
					p.Errorf("granted at %v, changed at %d", l.ID, got.LSN)
				}
				p.brokenOff(i%40, func(ctx context.Context) error { _, err := p.Engine.Do(ctx, release(l)); return err })
				if _, err := p.Engine.Do(p.ctx, release(l)); err != nil && p.caps.History {
					p.Errorf("release, repeated: %v", err)
				}
				p.free(fmt.Sprintf("press-%d", i))
			}
		},
	},
	{ // proves: T10, T11
		ID: "E46", Name: "a lost answer is settled by repeating the call", Wants: loses,
		Says: "Given a claim and a release whose answers are lost, after or before they were executed, when each is repeated, then it was executed exactly once, and the lost answer was not a refusal.",
		Run:  lostAnswers,
	},
}

// become claims, and brings the lease where it has to be.
func (p *probe) become(c tenure.Claim, state string) tenure.Lease {
	p.Helper()
	l := p.acquire(c)
	switch state {
	case "released":
		p.release(l)
	case "revoking", "revoked":
		p.revoke(l)
	case "expired":
		p.eventually("the reservation expires", func() bool { return p.look(l).State == tenure.StateExpired })
	}
	if state == "revoked" {
		p.bury(l)
	}
	return p.look(l)
}

// brokenOff makes a call whose context ends meanwhile, now earlier, now later. What it answers must be
// an answer, or say that the outcome is open.
func (p *probe) brokenOff(later int, call func(context.Context) error) {
	p.Helper()
	cause := errors.New("broken off")
	ctx, end := context.WithCancelCause(p.ctx)
	answer := make(chan error, 1)
	go func() { answer <- call(ctx) }()
	for range later {
		runtime.Gosched()
	}
	end(cause)
	if err := await(p, "a call whose context has ended", answer); err != nil {
		if !errors.Is(err, cause) {
			p.Errorf("%v does not wrap the cause", err)
		}
		p.code(err, tenure.ErrUnknownOutcome, tenure.ErrUnavailable)
	}
}

func lostAnswers(p *probe) {
	for _, executed := range []bool{true, false} {
		key := fmt.Sprintf("executed-%v", executed)
		c := p.claim("ann", key)
		p.Subject.Lose(executed)
		l, err := p.Engine.Acquire(p.ctx, c)
		if err != nil { // an engine may settle it by itself
			if e := p.code(err, tenure.ErrUnknownOutcome); e.Op != c.Op {
				p.Errorf("the operation to repeat is %v, it was %v", e.Op, c.Op)
			}
			p.reopened()
			l = p.acquire(c)
			if l.Replayed != executed {
				p.Errorf("%s: replayed %v", key, l.Replayed)
			}
		}
		if got := p.owner(key); got.ID != l.ID || got.Token != l.Token {
			p.Errorf("%s: %v owns it, %v was granted", key, got.ID, l.ID)
		}
		p.Subject.Lose(executed)
		_, err = p.Engine.Do(p.ctx, release(l))
		if err != nil {
			p.code(err, tenure.ErrUnknownOutcome)
			p.reopened()
			_, err = p.Engine.Do(p.ctx, release(l))
		}
		if err != nil && (p.caps.History || !executed) {
			p.Errorf("%s: release, repeated: %v", key, err)
		}
		p.free(key)
		p.release(p.acquire(p.claim("bob", key)))
	}
}

// reopened restarts an engine that was halted, and leaves another as it is.
func (p *probe) reopened() {
	p.Helper()
	_, err := p.Engine.Lookup(p.ctx, tenure.Query{Resource: at("anything")})
	if tenure.CodeOf(err) == tenure.ErrNotFound {
		return
	}
	if p.Subject.Restart == nil {
		p.Fatalf("the engine is halted, and cannot be restarted: %v", err)
	}
	p.restart()
}
