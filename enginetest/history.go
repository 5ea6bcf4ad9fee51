package enginetest

import (
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// historyCases are about what is kept of ended leases, and for how long. Here
// claims carry the position that their client had seen.
var historyCases = []testCase{
	{ // proves: T12
		ID: "E47", Name: "history is bounded, the oldest end goes first", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 2 },
		Says: "Given room for 2 ended leases, when a third ends, then the one that ended first is retired, whatever the order of the grants; the other two are kept.",
		Run: func(p *probe) {
			a, b, c := p.acquire(p.claim("ann", "a")), p.acquire(p.claim("ann", "b")), p.acquire(p.claim("ann", "c"))
			p.release(b)
			p.release(c)
			p.is(p.look(b), tenure.StateReleased)
			p.release(a)
			p.retired(b)
			p.is(p.look(c), tenure.StateReleased)
			p.is(p.look(a), tenure.StateReleased)
		},
	},
	{ // proves: T6
		ID: "E48", Name: "live leases are never retired", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History, l.HistoryAge = 0, 0 },
		Says: "Given no room for history, when other leases come and go, then a live lease is kept, revoking ones too, and its operation is still known.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			l := p.acquire(c)
			doomed := p.revoke(p.acquire(p.claim("ann", "doomed")))
			for i := range 5 {
				other := p.acquire(p.claim("bob", fmt.Sprint(i)))
				p.release(other)
				p.retired(other)
			}
			p.same(l)
			p.same(doomed)
			if again := p.acquire(c); again.ID != l.ID || !again.Replayed {
				p.Errorf("its operation leads to %v", again.ID)
			}
			p.release(l)
			p.retired(l)
		},
	},
	{ // proves: T12
		ID: "E49", Name: "the age of history is bounded", Needs: tenure.Caps{History: true}, Wants: exactTime,
		Set:  func(l *tenure.Limits) { l.HistoryAge = time.Minute },
		Says: "Given history of one minute, when a lease has ended, then it is kept one slot short of a minute, and retired after it.",
		Run: func(p *probe) {
			l := p.release(p.acquire(p.claim("ann", "press")))
			p.Advance(time.Minute - time.Millisecond)
			p.look(l)
			p.is(p.look(l), tenure.StateReleased)
			p.Advance(time.Millisecond)
			p.retired(l)
		},
	},
	{ // proves: T10
		ID: "E50", Name: "what is retired is told from what never was", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 0 },
		Says: "Given a retired lease, when any command, renewal or read names it, then the answer is retired (to a renewal perhaps only ended); for a lease that never was it is not found.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			p.release(l)
			p.retired(l)
			for _, x := range []struct {
				id         tenure.LeaseID
				want, beat tenure.Code // beats are answered from memory: over is over
			}{{l.ID, tenure.ErrRetired, tenure.ErrEnded}, {p.unknown(), tenure.ErrNotFound, tenure.ErrNotFound}} {
				r := tenure.Ref{Token: tenure.Token{Lease: x.id, Epoch: 1}, Resource: l.Resource}
				p.refused(tenure.Release{Ref: r, Holder: "ann"}, x.want)
				p.refused(tenure.Activate{Ref: r, Holder: "ann"}, x.want)
				p.refused(tenure.Revoke{Lease: x.id, Resource: l.Resource}, x.want)
				p.refused(tenure.Reclaim{Lease: x.id, Resource: l.Resource, HolderIsDead: true}, x.want)
				p.code(p.renew(r), x.want, x.beat)
				_, err := p.Engine.Lookup(p.ctx, tenure.Query{ID: x.id})
				p.code(err, x.want)
			}
		},
	},
	{ // proves: T10
		ID: "E51", Name: "an operation too old to be judged", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 0 },
		Says: "Given a retired lease, when its operation is repeated, or another whose client had seen less than that grant, then it is refused as retired, whatever else is wrong with it; one that had seen the grant is granted.",
		Run: func(p *probe) {
			c := p.claim("ann", "press")
			l := p.acquire(c)
			p.release(l)
			p.retired(l)
			p.refusedClaim(c, tenure.ErrRetired)
			p.refusedClaim(waits(c), tenure.ErrRetired)
			p.free("press")
			late := p.claim("bob", "press")
			late.Op = tenure.NewOp(l.ID.LSN - 1)
			p.refusedClaim(late, tenure.ErrRetired)
			late.Resources = []tenure.Resource{"malformed"}
			p.refusedClaim(late, tenure.ErrRetired)
			held := p.acquire(p.claim("cid", "held"))
			late.Resources = held.Resources
			p.refusedClaim(late, tenure.ErrRetired)
			p.free("press")
			intime := p.claim("bob", "press")
			intime.Op = tenure.NewOp(l.ID.LSN)
			if got := p.acquire(intime); got.Replayed || got.Token.Compare(tenure.Token{Lease: l.ID, Epoch: l.Epoch}) <= 0 {
				p.Errorf("granted %v, replayed %v", got.Token, got.Replayed)
			}
		},
	},
	{ // proves: T10
		ID: "E52", Name: "an operation that is kept is answered, however old", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 1 },
		Says: "Given a live lease granted before what has been retired since, when its operation is repeated, with the little that its client had seen, then it is answered from the record.",
		Run: func(p *probe) {
			old := p.claim("ann", "press")
			old.Op = tenure.NewOp(0)
			l := p.acquire(old)
			first := p.acquire(p.claim("bob", "a"))
			p.release(first)
			p.release(p.acquire(p.claim("bob", "b")))
			p.retired(first)
			if again := p.acquire(old); again.ID != l.ID || !again.Replayed {
				p.Errorf("answered %v", again.ID)
			}
			other := old
			other.Holder = "bob"
			p.refusedClaim(other, tenure.ErrConflict)
		},
	},
	{
		ID: "E53", Name: "an engine draws operations that it can judge", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 0 },
		Says: "Given retired leases, when claims bring no operation of their own, then they are judged like any other.",
		Run: func(p *probe) {
			for range 3 {
				c := p.claim("ann", "press")
				c.Op = tenure.Op{}
				l := p.acquire(c)
				p.release(l)
				p.retired(l)
			}
		},
	},
	{ // proves: T7
		ID: "E54", Name: "a forgotten resource is granted with caution", Needs: tenure.Caps{History: true},
		Set:  func(l *tenure.Limits) { l.History = 0 },
		Says: "Given a resource that was taken away and whose record is retired, when it is granted, then its prior ending is unknown, and its token is above the earlier one.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			p.revoke(l)
			ended := p.bury(l)
			p.retired(l)
			next := p.acquire(p.claim("bob", "press"))
			if next.Prior != tenure.EndingUnknown {
				p.Errorf("prior %v", next.Prior)
			}
			if next.Token.Compare(tenure.Token{Lease: ended.ID, Epoch: ended.Epoch}) <= 0 {
				p.Errorf("%v after %v at epoch %d", next.Token, ended.ID, ended.Epoch)
			}
		},
	},
}

// retired waits until the lease is no longer kept.
func (p *probe) retired(l tenure.Lease) {
	p.Helper()
	p.eventually("lease "+l.ID.String()+" is retired", func() bool {
		_, err := p.Engine.Lookup(p.ctx, tenure.Query{ID: l.ID, Resource: l.Resource})
		return tenure.CodeOf(err) == tenure.ErrRetired
	})
}
