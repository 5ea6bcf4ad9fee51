package enginetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tenurehq/tenure"
)

// readCases are about lookups and listings.
var readCases = []testCase{
	{ // proves: T13
		ID: "E100", Name: "a reader sees what was answered before",
		Says: "Given grants and releases, when either client reads after the answer, then it sees the change, and the position that it observed is not below it.",
		Run: func(p *probe) {
			for range 10 {
				l := p.acquire(p.claim("ann", "press"))
				for _, e := range []tenure.Engine{p.Engine, p.Peer} {
					got, err := e.Lookup(p.ctx, tenure.Query{Resource: at("press")})
					if err != nil || got.ID != l.ID || got.Token != l.Token || got.LSN != l.LSN || got.AsOf < l.LSN {
						p.Fatalf("%v, %v changed at %d as of %d; %v was granted at %d", err, got.ID, got.LSN, got.AsOf, l.ID, l.LSN)
					}
				}
				ended := p.release(l)
				for _, e := range []tenure.Engine{p.Engine, p.Peer} {
					_, err := e.Lookup(p.ctx, tenure.Query{Resource: at("press")})
					if got := p.code(err, tenure.ErrNotFound); p.caps.MinLSN && got.LSN < ended.LSN {
						p.Errorf("free as of %d, released at %d", got.LSN, ended.LSN)
					}
				}
			}
		},
	},
	{ // proves: T13
		ID: "E101", Name: "a read can demand a position", Needs: tenure.Caps{MinLSN: true},
		Says: "Given a change at a position, when a lookup or a listing demands it, then it observes it; when it demands one that has not been reached, then it is refused.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			got, err := p.Peer.Lookup(p.ctx, tenure.Query{Resource: at("press"), MinLSN: l.LSN})
			if err != nil || got.AsOf < l.LSN {
				p.Errorf("%v, as of %d, demanded %d", err, got.AsOf, l.LSN)
			}
			for got, err := range p.Peer.List(p.ctx, tenure.Filter{MinLSN: l.LSN}) {
				if err != nil || got.AsOf < l.LSN {
					p.Errorf("%v, as of %d, demanded %d", err, got.AsOf, l.LSN)
				}
			}
			far := got.AsOf + 1<<40
			_, err = p.Engine.Lookup(p.ctx, tenure.Query{Resource: at("press"), MinLSN: far})
			p.code(err, tenure.ErrUnavailable)
			p.code(first(p.Engine.List(p.ctx, tenure.Filter{MinLSN: far})), tenure.ErrUnavailable)
		},
	},
	{
		ID: "E102", Name: "a lookup by id and by resource", Needs: tenure.Caps{History: true},
		Says: "Given a lease that ended and one that lives on the same resource, when they are looked up, then an id finds its own lease, a resource the living one; with both, the id decides.",
		Run: func(p *probe) {
			old := p.release(p.acquire(p.claim("ann", "press")))
			now := p.acquire(p.claim("bob", "press"))
			for q, want := range map[tenure.Query]tenure.LeaseID{
				{ID: old.ID}: old.ID, {ID: old.ID, Resource: at("press")}: old.ID,
				{ID: now.ID}: now.ID, {Resource: at("press")}: now.ID,
			} {
				if got, err := p.Engine.Lookup(p.ctx, q); err != nil || got.ID != want {
					p.Errorf("%+v: %v, %v; want %v", q, got.ID, err, want)
				}
			}
			_, err := p.Engine.Lookup(p.ctx, tenure.Query{ID: p.unknown()})
			p.code(err, tenure.ErrNotFound)
			_, err = p.Engine.Lookup(p.ctx, tenure.Query{ID: tenure.LeaseID{Shard: 7, LSN: now.ID.LSN}})
			p.code(err, tenure.ErrNotFound)
		},
	},
	{
		ID: "E103", Name: "a listing of what lives",
		Says: "Given leases of two holders in nested and similar namespaces, when they are listed by resource, namespace, children, holder and state, then exactly those that match are there, each once.",
		Run: func(p *probe) {
			for _, x := range []struct {
				h tenure.Holder
				r tenure.Resource
			}{{"ann", "a/1"}, {"ann", "a.b/1"}, {"bob", "a.b.c/1"}, {"bob", "ab/1"}, {"ann", "b.a/1"}, {"bob", "a/2"}} {
				c := p.claim(x.h)
				c.Resources = []tenure.Resource{x.r}
				if l := p.acquire(c); x.r == "a/2" {
					p.revoke(l)
				}
			}
			gone := p.claim("ann")
			gone.Resources = []tenure.Resource{"a/gone"}
			p.release(p.acquire(gone))
			for _, x := range []struct {
				f    tenure.Filter
				want []tenure.Resource
			}{
				{tenure.Filter{}, []tenure.Resource{"a.b.c/1", "a.b/1", "a/1", "a/2", "ab/1", "b.a/1"}},
				{tenure.Filter{Namespace: "a"}, []tenure.Resource{"a/1", "a/2"}},
				{tenure.Filter{Namespace: "a", Children: true}, []tenure.Resource{"a.b.c/1", "a.b/1", "a/1", "a/2"}},
				{tenure.Filter{Namespace: "a.b", Children: true}, []tenure.Resource{"a.b.c/1", "a.b/1"}},
				{tenure.Filter{Holder: "bob"}, []tenure.Resource{"a.b.c/1", "a/2", "ab/1"}},
				{tenure.Filter{Holder: "bob", Namespace: "a", Children: true, State: tenure.StateActive}, []tenure.Resource{"a.b.c/1"}},
				{tenure.Filter{State: tenure.StateRevoking}, []tenure.Resource{"a/2"}},
				{tenure.Filter{Resource: "ab/1"}, []tenure.Resource{"ab/1"}},
				{tenure.Filter{Resource: "ab/1", Namespace: "a"}, nil},
				{tenure.Filter{Holder: "nobody"}, nil},
				{tenure.Filter{State: tenure.StateReleased}, nil},
			} {
				var got []tenure.Resource
				for _, l := range p.list(x.f) {
					got = append(got, l.Resource)
				}
				slices.Sort(got)
				if !slices.Equal(got, x.want) {
					p.Errorf("%+v: %v, want %v", x.f, got, x.want)
				}
			}
		},
	},
	{
		ID: "E104", Name: "a listing of bundles and of what has ended", Needs: tenure.Caps{Bundles: true, History: true},
		Says: "Given bundles over namespaces and leases that ended, when they are listed, then a bundle is there once for any of its members, ended ones only if asked for, in the order of their grants.",
		Run: func(p *probe) {
			c := p.claim("ann")
			c.Resources = []tenure.Resource{"a/1", "b/1", "a/2"}
			bundle := p.acquire(c)
			released := p.release(p.acquire(p.claim("ann", "x")))
			revoked := p.acquire(p.claim("bob", "y"))
			p.revoke(revoked)
			p.bury(revoked)
			last := p.acquire(p.claim("bob", "x"))
			for _, x := range []struct {
				f    tenure.Filter
				want []tenure.LeaseID
			}{
				{tenure.Filter{Namespace: "a"}, []tenure.LeaseID{bundle.ID}},
				{tenure.Filter{Namespace: "b"}, []tenure.LeaseID{bundle.ID}},
				{tenure.Filter{Resource: "a/2", Namespace: "b"}, nil},
				{tenure.Filter{}, []tenure.LeaseID{bundle.ID, last.ID}},
				{tenure.Filter{Ended: true}, []tenure.LeaseID{bundle.ID, released.ID, revoked.ID, last.ID}},
				{tenure.Filter{Ended: true, Resource: at("x")}, []tenure.LeaseID{released.ID, last.ID}},
				{tenure.Filter{Ended: true, State: tenure.StateRevoked}, []tenure.LeaseID{revoked.ID}},
				{tenure.Filter{Ended: true, Holder: "ann"}, []tenure.LeaseID{bundle.ID, released.ID}},
			} {
				var got []tenure.LeaseID
				for _, l := range p.list(x.f) {
					got = append(got, l.ID)
				}
				if !slices.Equal(got, x.want) {
					p.Errorf("%+v: %v, want %v", x.f, got, x.want)
				}
			}
		},
	},
	{
		ID: "E105", Name: "a long listing",
		Says: "Given more leases than fit on a page, when they are listed, then each is there once; a reader may stop early.",
		Run: func(p *probe) {
			const n = tenure.MaxPageSize + 100
			keys := make(chan string)
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for k := range keys {
						if _, err := p.Engine.Acquire(p.ctx, p.claim("ann", k)); err != nil {
							p.Errorf("%s: %v", k, err)
						}
					}
				})
			}
			for i := range n {
				keys <- fmt.Sprint("key-", i)
			}
			close(keys)
			wg.Wait()
			found := map[tenure.Resource]int{}
			for _, l := range p.list(tenure.Filter{}) {
				found[l.Resource]++
			}
			for i := range n {
				if k := at(fmt.Sprint("key-", i)); found[k] != 1 {
					p.Fatalf("%s is listed %d times", k, found[k])
				}
			}
			seen := 0
			for range p.Engine.List(p.ctx, tenure.Filter{}) {
				if seen++; seen == 3 {
					break
				}
			}
			if len(found) != n || seen != 3 {
				p.Errorf("%d leases are listed, want %d; stopped at %d", len(found), n, seen)
			}
		},
	},
}
