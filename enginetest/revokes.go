package enginetest

import (
	"time"

	"github.com/tenurehq/tenure"
)

// revokeCases are about authority that is withdrawn by an operator.
var revokeCases = []testCase{
	{ // proves: T5, T6
		ID: "E74", Name: "a revoked lease is fenced, and still owned",
		Says: "Given an active lease, when it is revoked, then its holder's renewal and release are refused, the resource stays held, and the reason is on record.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			got := p.do(tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: "maintenance"})
			if got.State != tenure.StateRevoking || got.Epoch != 2 || !got.Token.IsZero() || got.Result != (tenure.Result{Outcome: tenure.OutcomeRevoked, Detail: "maintenance"}) {
				p.Errorf("%v at epoch %d, token %q, %v", got.State, got.Epoch, got.Token, got.Result)
			}
			guessed := ref(l)
			guessed.Token.Epoch = got.Epoch // nobody was ever given that token
			p.code(p.renew(ref(l)), tenure.ErrStale)
			p.code(p.renew(guessed), tenure.ErrStale)
			p.refused(release(l), tenure.ErrStale)
			p.refused(tenure.Release{Ref: guessed, Holder: "ann"}, tenure.ErrInvalidState)
			p.refusedClaim(p.claim("bob", "press"), tenure.ErrHeld)
			p.same(got)
		},
	},
	{ // proves: T4, T10
		ID: "E75", Name: "a revoke repeated",
		Says: "Given a revoking lease, when it is revoked again, then it is told so, under the same epoch, and the first reason stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			first := p.do(tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: "first"})
			again := p.do(tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: "second"})
			if !again.Replayed || again.Epoch != first.Epoch || again.LSN != first.LSN || again.Result != first.Result {
				p.Errorf("replayed %v at epoch %d, %v; was at epoch %d, %v", again.Replayed, again.Epoch, again.Result, first.Epoch, first.Result)
			}
		},
	},
	{ // proves: T14
		ID: "E76", Name: "a revoke does not free what its holder may believe in",
		Says: "Given a holder that just renewed, when an operator revokes its lease, then the resource is free neither at once nor after the grace alone, but only TTL + grace after that beat.",
		Run: func(p *probe) {
			c := p.timed("ann", "press")
			l := p.acquire(c)
			p.Advance(p.ttl / 2)
			heard := time.Now()
			p.mustRenew(l)
			p.revoke(l)
			p.after(heard, p.ttl+p.grace, p.late(), p.start(p.Peer, waits(p.claim("bob", "press"))))
		},
	},
	{ // proves: T14
		ID: "E77", Name: "a revoke, to the millisecond", Needs: tenure.Caps{History: true}, Wants: exactTime,
		Says: "Given a revoked lease whose last beat allowed more, when beats are refused meanwhile, then it is revoking until the end of what that beat allowed, plus the grace, and revoked soon after.",
		Run: func(p *probe) {
			l := p.acquire(p.timed("ann", "press"))
			p.Advance(p.ttl / 2)
			p.mustRenew(l)
			p.Advance(p.ttl / 4)
			p.revoke(l)
			left := p.ttl*3/4 + p.grace
			for range 3 {
				p.Advance(left / 4)
				p.code(p.renew(ref(l)), tenure.ErrStale)
			}
			p.Advance(left - 3*(left/4) - time.Millisecond)
			p.is(p.look(l), tenure.StateRevoking)
			p.Advance(time.Millisecond + p.slack)
			p.is(p.look(l), tenure.StateRevoked)
			p.free("press")
		},
	},
	{ // proves: T14
		ID: "E78", Name: "an early reclaim needs the word that the holder is dead",
		Says: "Given a revoked lease whose holder may still believe, when it is reclaimed without that word, then it is refused and the resource stays held; with it, the resource is free at once.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			c.TTL = p.patience
			l := p.acquire(c)
			revoked := p.revoke(l)
			err := p.refused(tenure.Reclaim{Lease: l.ID, Resource: l.Resource}, tenure.ErrInvalidState)
			if p.caps.History && (err.Free <= 0 || err.Free > p.patience+p.patience/10) {
				p.Errorf("free in %v", err.Free)
			}
			p.same(revoked)
			p.refusedClaim(p.claim("bob", "press"), tenure.ErrHeld)
			p.is(p.bury(l), tenure.StateRevoked)
			p.acquire(p.claim("bob", "press"))
		},
	},
	{ // proves: T14
		ID: "E79", Name: "a holder without TTL may believe for ever",
		Says: "Given a revoked lease without TTL, when very long passes, then it is still held, a reclaim is refused without the word that the holder is dead, and done with it.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			revoked := p.revoke(l)
			w := p.start(p.Peer, waits(p.claim("bob", "press")))
			if p.bubble {
				p.Advance(time.Hour)
			} else {
				p.Advance(2 * (p.ttl + p.grace))
			}
			w.stillWaits()
			p.same(revoked)
			p.refused(tenure.Reclaim{Lease: l.ID, Resource: l.Resource}, tenure.ErrInvalidState)
			p.bury(l)
			w.granted()
		},
	},
	{ // proves: T6
		ID: "E80", Name: "a reclaim needs a revoke first",
		Says: "Given an active lease, when it is reclaimed, even as a dead holder's, then it is refused and its holder's authority stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			p.refused(tenure.Reclaim{Lease: l.ID, Resource: l.Resource, HolderIsDead: true}, tenure.ErrInvalidState)
			p.refused(tenure.Reclaim{Lease: l.ID, Resource: l.Resource}, tenure.ErrInvalidState)
			p.same(l)
			p.mustRenew(l)
		},
	},
	{ // proves: T5
		ID: "E81", Name: "a revoke after another got the resource",
		Says: "Given a lease that ended and a new owner of its resource, when the old lease is revoked or reclaimed, then the new owner stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			p.release(l)
			next := p.acquire(p.claim("bob", "press"))
			p.refused(tenure.Revoke{Lease: l.ID, Resource: l.Resource}, p.over(tenure.ErrEnded)...)
			p.refused(tenure.Reclaim{Lease: l.ID, Resource: l.Resource, HolderIsDead: true}, p.over(tenure.ErrEnded)...)
			p.same(next)
			p.mustRenew(next)
		},
	},
}
