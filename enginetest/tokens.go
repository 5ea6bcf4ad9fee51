package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
)

// tokenCases are about what outlives: tokens that only rise, grants that were
// acknowledged.
var tokenCases = []testCase{
	{ // proves: T7
		ID: "E55", Name: "tokens rise over every way to end",
		Says: "Given a resource, when tenures of it end by release, by revoke and by silence, then each token is above every earlier one of it, later epochs included.",
		Run: func(p *probe) {
			last := tenure.Token{}
			rise := func(l tenure.Lease) tenure.Lease {
				p.Helper()
				if l.Token.Compare(last) <= 0 {
					p.Errorf("%v after %v", l.Token, last)
				}
				last = tenure.Token{Lease: l.ID, Epoch: 2}
				return l
			}
			for range 3 {
				p.release(rise(p.acquire(p.claim("ann", "press"))))
			}
			l := rise(p.acquire(p.claim("ann", "press")))
			p.revoke(l)
			p.bury(l)
			rise(p.acquire(p.timed("ann", "press"))) // and falls silent
			p.release(rise(p.start(p.Engine, waits(p.claim("bob", "press"))).granted()))
			rise(p.acquireOn(p.Peer, p.claim("cid", "press")))
		},
	},
	{ // proves: T7, T11
		ID: "E56", Name: "tokens rise over a restart", Wants: restarts,
		Says: "Given released and held resources, when the engine crashes and is opened again, twice, then every new token is above every earlier one of its resource.",
		Run: func(p *probe) {
			last := map[string]tenure.Token{}
			for range 3 {
				for i := range 5 {
					k := fmt.Sprint(i)
					l := p.acquire(p.claim("ann", k))
					if l.Token.Compare(last[k]) <= 0 {
						p.Errorf("%s: %v after %v", k, l.Token, last[k])
					}
					last[k] = tenure.Token{Lease: l.ID, Epoch: 2}
					p.release(l)
				}
				p.restart()
			}
		},
	},
	{ // proves: T7
		ID: "E57", Name: "tokens rise over a store that was created anew", Wants: recreates,
		Says: "Given grants, when the store is lost and created anew a moment later, then nothing is known, and every new token is above every earlier one.",
		Run: func(p *probe) {
			for range 2 {
				var last tenure.Token
				for i := range 50 {
					l := p.acquire(p.claim("ann", "press"))
					if l.Token.Compare(last) <= 0 {
						p.Fatalf("round %d: %v after %v", i, l.Token, last)
					}
					last = tenure.Token{Lease: l.ID, Epoch: 2}
					p.release(l)
				}
				held := p.acquire(p.claim("ann", "press"))
				p.Advance(time.Millisecond)
				e := p.Subject.Recreate()
				p.Engine, p.Peer = e, e
				if next := p.start(p.Engine, waits(p.claim("bob", "press"))).granted(); next.Token.Compare(held.Token) <= 0 {
					p.Errorf("%v after %v", next.Token, held.Token)
				} else {
					p.release(next)
				}
			}
		},
	},
	{ // proves: T11
		ID: "E58", Name: "what was acknowledged outlives a crash", Wants: restarts,
		Says: "Given leases that were granted, revoked or released, when the engine crashes and is opened again, then each is found as it was acknowledged, and its token still works.",
		Run: func(p *probe) {
			c := p.claim("ann", "held")
			c.Meta = []byte("meta")
			held := p.acquire(c)
			revoking := p.revoke(p.acquire(p.claim("bob", "revoking")))
			p.release(p.acquire(p.claim("cid", "free")))
			p.restart()
			got := p.look(held)
			if got.Token != held.Token || got.Holder != "ann" || string(got.Meta) != "meta" || got.LSN != held.LSN || got.TTL != tenure.NoTTL {
				p.Errorf("found %v of %q, meta %q, changed at %d, TTL %v; was %v", got.Token, got.Holder, got.Meta, got.LSN, got.TTL, held.Token)
			}
			p.same(revoking)
			p.free("free")
			p.refusedClaim(p.claim("bob", "held"), tenure.ErrHeld)
			p.refusedClaim(p.claim("ann", "revoking"), tenure.ErrHeld)
			if again := p.acquire(c); again.Token != held.Token || !again.Replayed {
				p.Errorf("repeated: %v, replayed %v", again.Token, again.Replayed)
			}
			p.mustRenew(held)
			p.release(held)
			p.bury(revoking)
		},
	},
	{ // proves: T11
		ID: "E59", Name: "history outlives a crash", Wants: restarts, Needs: tenure.Caps{History: true, Reserve: true, Bundles: true},
		Set:  func(l *tenure.Limits) { l.History = 3 },
		Says: "Given a lease in each state, a full history and a bundle, when the engine crashes and is opened again, then a listing shows exactly what it showed before, and operations are remembered or retired as before.",
		Run: func(p *probe) {
			old := p.claim("ann", "old")
			p.release(p.acquire(old))
			bundle := p.claim("ann", "b2", "b1")
			p.acquire(bundle)
			kept := p.claim("ann", "kept")
			p.stand("reserved", "reserved")
			p.stand("activated", "activated")
			p.stand("revoking", "revoking")
			p.stand("revoked", "revoked")
			p.stand("expired", "expired")
			last := p.acquire(kept)
			p.release(last)
			p.eventually("the oldest is retired", func() bool { return len(p.list(tenure.Filter{Ended: true})) == 7 })
			before := p.list(tenure.Filter{Ended: true})
			p.restart()
			after := p.list(tenure.Filter{Ended: true})
			if !slices.EqualFunc(before, after, alike) {
				p.Errorf("before:\n%+v\nafter:\n%+v", before, after)
			}
			p.refusedClaim(old, tenure.ErrRetired)
			if again := p.acquire(kept); again.ID != last.ID || !again.Token.IsZero() {
				p.Errorf("kept: %v with %q", again.ID, again.Token)
			}
			if again := p.acquire(bundle); !again.Replayed || !slices.Equal(again.Resources, bundle.Resources) {
				p.Errorf("bundle: %v", again.Resources)
			}
		},
	},
}

// alike reports whether two readings show the same lease, apart from what
// depends on the moment.
func alike(a, b tenure.Lease) bool {
	return a.Ref == b.Ref && a.ID == b.ID && a.Epoch == b.Epoch && a.Holder == b.Holder && a.State == b.State && a.LSN == b.LSN &&
		a.TTL == b.TTL && a.Grace == b.Grace && a.Prior == b.Prior && a.Result == b.Result && string(a.Meta) == string(b.Meta) &&
		slices.Equal(a.Resources, b.Resources) && a.GrantedAt.Equal(b.GrantedAt) && a.EndedAt.Equal(b.EndedAt)
}

// list collects a listing.
func (p *probe) list(f tenure.Filter) []tenure.Lease {
	p.Helper()
	var all []tenure.Lease
	for l, err := range p.Engine.List(p.ctx, f) {
		if err != nil {
			p.Fatalf("list %+v: %v", f, err)
		}
		all = append(all, p.note(l))
	}
	return all
}
