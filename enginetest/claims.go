package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tenurehq/tenure"
)

// claimCases are about who gets what: grants, refusals, bundles.
var claimCases = []testCase{
	{
		ID: "E1", Name: "a free resource is granted",
		Says: "Given a free resource, when it is claimed, then the lease is active at epoch 1, carries a token and everything that was asked for.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			c.TTL, c.Grace, c.Meta = p.ttl, p.grace, []byte("batch 7")
			l := p.acquire(c)
			p.is(l, tenure.StateActive)
			switch {
			case l.Epoch != 1 || l.Token != tenure.Token{Lease: l.ID, Epoch: 1} || l.ID.IsZero():
				p.Errorf("lease %v at epoch %d with token %v", l.ID, l.Epoch, l.Token)
			case l.Resource != at("press") || !slices.Equal(l.Resources, c.Resources) || l.Holder != "ann":
				p.Errorf("it covers %v of %q", l.Resources, l.Holder)
			case l.TTL != p.ttl || l.Grace != p.grace || string(l.Meta) != "batch 7":
				p.Errorf("TTL %v, grace %v, meta %q", l.TTL, l.Grace, l.Meta)
			case l.Prior != tenure.EndingNever && p.caps.History || l.Replayed || l.LSN == 0 || l.AsOf < l.LSN:
				p.Errorf("prior %v, replayed %v, changed at %d as of %d", l.Prior, l.Replayed, l.LSN, l.AsOf)
			case l.Result != tenure.Result{} || !l.EndedAt.IsZero() || l.GrantedAt.IsZero():
				p.Errorf("result %v, granted %v, ended %v", l.Result, l.GrantedAt, l.EndedAt)
			case l.ExpiresIn < 0 || l.ExpiresIn > p.ttl || l.FreeIn > p.ttl+p.grace:
				p.Errorf("expires in %v, free in %v", l.ExpiresIn, l.FreeIn)
			}
		},
	},
	{
		ID: "E2", Name: "defaults are resolved",
		Says: "Given a claim that leaves everything out, when it is granted, then holder, TTL and grace are the documented defaults.",
		Run: func(p *probe) {
			l := p.acquire(tenure.On(string(at("press"))))
			if l.Holder != tenure.DefaultHolder() || l.TTL != tenure.DefaultTTL || l.Grace != tenure.DefaultTTL/10 {
				p.Errorf("holder %q, TTL %v, grace %v", l.Holder, l.TTL, l.Grace)
			}
			l = p.acquire(p.claim("ann", "drill"))
			if l.TTL != tenure.NoTTL || l.Grace != 0 || l.ExpiresIn != 0 || l.FreeIn != 0 {
				p.Errorf("NoTTL: TTL %v, grace %v, expires in %v, free in %v", l.TTL, l.Grace, l.ExpiresIn, l.FreeIn)
			}
		},
	},
	{ // proves: T1
		ID: "E3", Name: "a held resource is refused",
		Says: "Given a held resource, when another claims it, from either client, then the claim is refused by name of holder and lease, and nothing has changed.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			for _, e := range []tenure.Engine{p.Engine, p.Peer} {
				_, err := e.Acquire(p.ctx, p.claim("bob", "press"))
				got := p.code(err, tenure.ErrHeld)
				if got.Holder != "ann" || got.Lease != l.ID || got.Resource != at("press") {
					p.Errorf("held by %q, lease %v, resource %q", got.Holder, got.Lease, got.Resource)
				}
			}
			p.refusedClaim(p.claim("ann", "press"), tenure.ErrHeld) // the holder's name opens no door
			p.same(l)
		},
	},
	{
		ID: "E4", Name: "a refusal says when it may be free", Needs: tenure.Caps{History: true},
		Says: "Given a resource held with a TTL, when it is claimed, then the refusal says how long it may take: at most TTL + grace; for NoTTL it says nothing.",
		Run: func(p *probe) {
			p.acquire(p.timed("ann", "press"))
			if free := p.refusedClaim(p.claim("bob", "press"), tenure.ErrHeld).Free; free <= 0 || free > p.ttl+p.grace {
				p.Errorf("free in %v, the TTL is %v and the grace %v", free, p.ttl, p.grace)
			}
			p.acquire(p.claim("ann", "drill"))
			if free := p.refusedClaim(p.claim("bob", "drill"), tenure.ErrHeld).Free; free != 0 {
				p.Errorf("a lease without TTL is free in %v", free)
			}
		},
	},
	{ // proves: T1, T9
		ID: "E5", Name: "64 claims, one winner",
		Says: "Given a free resource, when 64 claim it at once over two clients, then one is granted and the others are refused by its name.",
		Run: func(p *probe) {
			var won atomic.Pointer[tenure.Lease]
			var wg sync.WaitGroup
			refusals := make([]error, 64)
			for i := range refusals {
				c := p.claim(tenure.Holder(fmt.Sprint("holder-", i)), "press")
				e := []tenure.Engine{p.Engine, p.Peer}[i%2]
				wg.Go(func() {
					l, err := e.Acquire(p.ctx, c)
					if refusals[i] = err; err == nil && won.Swap(&l) != nil {
						refusals[i] = tenure.ErrConflict
					}
				})
			}
			wg.Wait()
			winner := won.Load()
			if winner == nil {
				p.Fatalf("nobody won: %v", refusals[0])
			}
			for _, err := range refusals {
				if err != nil && p.code(err, tenure.ErrHeld).Lease != winner.ID {
					p.Errorf("refused by %v, the winner is %v", err, winner.ID)
				}
			}
			p.same(*winner)
		},
	},
	{ // proves: T1, T7
		ID: "E6", Name: "one at a time, under ever higher tokens",
		Says: "Given many who claim and release one resource without pause, when each looks around while it holds, then it is alone, and its token is above every earlier one.",
		Run: func(p *probe) {
			var inside atomic.Int32
			var last tenure.Token // guarded by the lease itself
			var wg sync.WaitGroup
			var granted atomic.Int32
			for i := range 8 {
				e := []tenure.Engine{p.Engine, p.Peer}[i%2]
				wg.Go(func() {
					for range 40 {
						l, err := e.Acquire(p.ctx, p.claim("ann", "press"))
						if err != nil {
							continue
						}
						granted.Add(1)
						if inside.Add(1) != 1 || l.Token.Compare(last) <= 0 {
							p.Errorf("%v was granted after %v, %d inside", l.Token, last, inside.Load())
						}
						last = l.Token
						inside.Add(-1)
						if _, err := e.Do(p.ctx, release(l)); err != nil {
							p.Errorf("release: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if granted.Load() == 0 {
				p.Error("nobody was ever granted it")
			}
		},
	},
	{ // proves: T2
		ID: "E7", Name: "a bundle keeps the order of the claim", Needs: tenure.Caps{Bundles: true},
		Says: "Given free resources, when a bundle is claimed in an order that is not the alphabet's, then one lease covers them in that order, and each of them leads to it.",
		Run: func(p *probe) {
			keys := []string{"m", "z", "a", "q"}
			l := p.acquire(p.claim("ann", keys...))
			want := []tenure.Resource{at("m"), at("z"), at("a"), at("q")}
			if !slices.Equal(l.Resources, want) || l.Resource != want[0] {
				p.Fatalf("it covers %v, first %v", l.Resources, l.Resource)
			}
			if got := p.look(l); !slices.Equal(got.Resources, want) {
				p.Errorf("later it covers %v", got.Resources)
			}
			for _, k := range keys {
				if got := p.owner(k); got.ID != l.ID || !slices.Equal(got.Resources, want) {
					p.Errorf("%s leads to %v, which covers %v", k, got.ID, got.Resources)
				}
			}
		},
	},
	{ // proves: T2
		ID: "E8", Name: "one busy member refuses the bundle", Needs: tenure.Caps{Bundles: true},
		Says: "Given one busy resource, when bundles are claimed that have it first, in the middle or last, then each is refused naming it, and every other member is still free.",
		Run: func(p *probe) {
			held := p.acquire(p.claim("ann", "busy"))
			for _, keys := range [][]string{{"busy", "a", "b"}, {"a", "busy", "b"}, {"a", "b", "busy"}} {
				err := p.refusedClaim(p.claim("bob", keys...), tenure.ErrHeld)
				if err.Resource != at("busy") || err.Lease != held.ID || err.Holder != "ann" {
					p.Errorf("%v: refused for %v of %q", keys, err.Resource, err.Holder)
				}
				p.free("a")
				p.free("b")
			}
			p.same(held)
			p.acquire(p.claim("cid", "a", "b"))
		},
	},
	{
		ID: "E9", Name: "the first busy member is named", Needs: tenure.Caps{Bundles: true},
		Says: "Given two busy resources, when a bundle names both, then the refusal is about the one that the claim names first.",
		Run: func(p *probe) {
			p.acquire(p.claim("ann", "a"))
			p.acquire(p.claim("bob", "z"))
			if err := p.refusedClaim(p.claim("cid", "m", "z", "a"), tenure.ErrHeld); err.Resource != at("z") || err.Holder != "bob" {
				p.Errorf("refused for %v of %q", err.Resource, err.Holder)
			}
			if err := p.refusedClaim(p.claim("cid", "a", "z"), tenure.ErrHeld); err.Resource != at("a") || err.Holder != "ann" {
				p.Errorf("refused for %v of %q", err.Resource, err.Holder)
			}
		},
	},
	{
		ID: "E10", Name: "malformed before busy", Needs: tenure.Caps{Bundles: true},
		Says: "Given a busy resource, when a bundle names it beside a malformed one, in either order, or twice, then the claim is invalid, not held.",
		Run: func(p *probe) {
			p.acquire(p.claim("ann", "busy"))
			for _, rs := range [][]tenure.Resource{{at("busy"), "no-namespace"}, {"no-namespace", at("busy")}, {at("busy"), at("busy")}, {at("a"), at("busy"), at("a")}} {
				c := p.claim("bob")
				c.Resources = rs
				if err := p.refusedClaim(c, tenure.ErrInvalid); !strings.HasPrefix(err.Field, "resource") {
					p.Errorf("%v: the field is %q", rs, err.Field)
				}
			}
			p.free("a")
		},
	},
	{ // proves: T12
		ID: "E11", Name: "the size of a bundle is bounded", Needs: tenure.Caps{Bundles: true},
		Set:  func(l *tenure.Limits) { l.Bundle = 4 },
		Says: "Given a limit of 4 resources in one lease, when 4 are claimed, then they are granted; when 5 are claimed, then the claim is invalid and nothing is taken.",
		Run: func(p *probe) {
			p.acquire(p.claim("ann", "a", "b", "c", "d"))
			if err := p.refusedClaim(p.claim("bob", "e", "f", "g", "h", "i"), tenure.ErrInvalid); err.Field != "resources" {
				p.Errorf("the field is %q", err.Field)
			}
			p.free("e")
		},
	},
	{ // proves: T2, T3
		ID: "E12", Name: "bundles that overlap exclude each other", Needs: tenure.Caps{Bundles: true},
		Says: "Given many who claim and release bundles that overlap in a ring, when each marks what it holds, then no mark is ever found taken.",
		Run: func(p *probe) {
			var marks [4]atomic.Int32
			var granted atomic.Int32
			var wg sync.WaitGroup
			for i := range 8 {
				e := []tenure.Engine{p.Engine, p.Peer}[i%2]
				a, b := i%4, (i+1)%4
				wg.Go(func() {
					for range 30 {
						l, err := e.Acquire(p.ctx, p.claim("ann", string(rune('a'+a)), string(rune('a'+b))))
						if err != nil {
							continue
						}
						granted.Add(1)
						if marks[a].Add(1) != 1 || marks[b].Add(1) != 1 {
							p.Errorf("%v is not alone", l.Resources)
						}
						marks[a].Store(0)
						marks[b].Store(0)
						if _, err := e.Do(p.ctx, release(l)); err != nil {
							p.Errorf("release: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if granted.Load() == 0 {
				p.Error("nobody was ever granted anything")
			}
		},
	},
	{ // proves: T2, T3
		ID: "E13", Name: "a bundle goes whole", Needs: tenure.Caps{Bundles: true},
		Says: "Given a bundle, when it is released, or revoked and reclaimed, then all of its resources are free at once; while it is revoking, none is.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "a", "b", "c"))
			p.release(l)
			for _, k := range []string{"a", "b", "c"} {
				p.free(k)
			}
			l = p.acquire(p.claim("ann", "c", "b", "a"))
			p.revoke(l)
			for _, k := range []string{"a", "b", "c"} {
				p.refusedClaim(p.claim("bob", k), tenure.ErrHeld)
			}
			p.bury(l)
			for _, k := range []string{"a", "b", "c"} {
				p.release(p.acquire(p.claim("bob", k)))
			}
		},
	},
	{ // proves: T12
		ID: "E14", Name: "the table of leases is bounded", Needs: tenure.Caps{History: true, Bundles: true},
		Set:  func(l *tenure.Limits) { l.Leases = 3 },
		Says: "Given a limit of 3 live leases, when a fourth is claimed, then the table is full and nothing is taken; busy is said before full; after a release there is room.",
		Run: func(p *probe) {
			a := p.acquire(p.claim("ann", "a", "a2", "a3"))
			p.acquire(p.claim("ann", "b"))
			p.acquire(p.claim("ann", "c"))
			if err := p.refusedClaim(p.claim("ann", "d"), tenure.ErrFull); err.Field != "leases" {
				p.Errorf("the field is %q", err.Field)
			}
			p.refusedClaim(p.claim("bob", "d", "b"), tenure.ErrHeld)
			p.free("d")
			p.release(a)
			p.acquire(p.claim("ann", "d"))
			p.refusedClaim(p.claim("ann", "e"), tenure.ErrFull)
		},
	},
	{
		ID: "E15", Name: "how the last tenure ended is told",
		Says: "Given a resource that was never owned, was released, or was taken away, when it is granted, then Prior says so, or is more cautious where there is no history.",
		Run: func(p *probe) {
			expect := func(l tenure.Lease, want tenure.Ending) {
				p.Helper()
				if l.Prior > want || l.Prior != want && p.caps.History {
					p.Errorf("prior %v, want %v", l.Prior, want)
				}
			}
			l := p.acquire(p.claim("ann", "press"))
			expect(l, tenure.EndingNever)
			p.release(l)
			l = p.acquire(p.claim("bob", "press"))
			expect(l, tenure.EndingClean)
			p.revoke(l)
			p.bury(l)
			l = p.acquire(p.claim("cid", "press"))
			expect(l, tenure.EndingTaken)
			expect(p.look(l), tenure.EndingTaken) // fixed at the grant
			p.release(l)
			expect(p.acquire(p.claim("ann", "press")), tenure.EndingClean)
		},
	},
	{
		ID: "E16", Name: "a bundle's prior ending is its worst member's", Needs: tenure.Caps{Bundles: true, History: true, Reserve: true},
		Says: "Given members that were never owned, released and taken away, when bundles of them are granted, then Prior is the most cautious; a reservation never activated leaves no trace.",
		Run: func(p *probe) {
			p.release(p.acquire(p.claim("ann", "clean")))
			l := p.acquire(p.claim("ann", "taken"))
			p.revoke(l)
			p.bury(l)
			p.release(p.acquire(p.reservation("ann", p.reserve, "reserved")))
			for _, x := range []struct {
				keys []string
				want tenure.Ending
			}{
				{[]string{"new", "reserved"}, tenure.EndingNever},
				{[]string{"newer", "clean"}, tenure.EndingClean},
				{[]string{"clean", "newer still"}, tenure.EndingClean},
				{[]string{"newest", "taken", "clean"}, tenure.EndingTaken},
			} {
				l := p.acquire(p.claim("bob", x.keys...))
				if l.Prior != x.want {
					p.Errorf("%v: prior %v, want %v", x.keys, l.Prior, x.want)
				}
				p.release(l)
			}
		},
	},
	{
		ID: "E17", Name: "a context that has ended asks nothing",
		Says: "Given a context that has ended, when it claims, commands, reads or lists, then the answer is an error that wraps its cause, and nothing has happened.",
		Run:  endedContext,
	},
}
