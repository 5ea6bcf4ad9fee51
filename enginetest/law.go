package enginetest

import (
	"time"

	"github.com/tenurehq/tenure"
)

// lawful is what the tables of the law need.
var lawful = tenure.Caps{Reserve: true, History: true}

// lawCases are the rows of the law's table, each in every state, and the order
// of its checks.
var lawCases = []testCase{
	{ // proves: T4, T5
		ID: "E24", Name: "activate in every state", Needs: lawful,
		Says: "Given a lease in each state, when it is activated with the token of its grant, with the current epoch, by another or by a name that does not exist, then the answer is the law's, and a refusal changes nothing.",
		Run: func(p *probe) {
			act := func(l tenure.Lease, epoch tenure.Epoch, h tenure.Holder) tenure.Command {
				return tenure.Activate{Ref: tenure.Ref{Token: tenure.Token{Lease: l.ID, Epoch: epoch}, Resource: l.Resource}, Holder: h}
			}
			p.rows(act, map[string]answers{
				"reserved":  {granted: done, current: done, stranger: tenure.ErrHolderMismatch},
				"active":    {granted: tenure.ErrInvalidState, current: tenure.ErrInvalidState, stranger: tenure.ErrHolderMismatch},
				"activated": {granted: replayed, current: replayed, stranger: replayed},
				"revoking":  {granted: tenure.ErrStale, current: tenure.ErrInvalidState, stranger: tenure.ErrHolderMismatch},
				"released":  {granted: tenure.ErrStale, current: tenure.ErrEnded, stranger: tenure.ErrHolderMismatch},
				"expired":   {granted: tenure.ErrStale, current: tenure.ErrEnded, stranger: tenure.ErrHolderMismatch},
				"revoked":   {granted: tenure.ErrStale, current: tenure.ErrEnded, stranger: tenure.ErrHolderMismatch},
				"unknown":   {granted: tenure.ErrNotFound, current: tenure.ErrNotFound, stranger: tenure.ErrNotFound},
			})
		},
	},
	{ // proves: T4, T5
		ID: "E25", Name: "release in every state", Needs: lawful,
		Says: "Given a lease in each state, when it is released with the token of its grant, with the current epoch, by another or by a name that does not exist, then the answer is the law's, and a refusal changes nothing.",
		Run: func(p *probe) {
			rel := func(l tenure.Lease, epoch tenure.Epoch, h tenure.Holder) tenure.Command {
				return tenure.Release{Ref: tenure.Ref{Token: tenure.Token{Lease: l.ID, Epoch: epoch}, Resource: l.Resource}, Holder: h}
			}
			p.rows(rel, map[string]answers{
				"reserved":  {granted: done, current: done, stranger: tenure.ErrHolderMismatch},
				"active":    {granted: done, current: done, stranger: tenure.ErrHolderMismatch},
				"activated": {granted: done, current: done, stranger: tenure.ErrHolderMismatch},
				"revoking":  {granted: tenure.ErrStale, current: tenure.ErrInvalidState, stranger: tenure.ErrHolderMismatch},
				"released":  {granted: replayed, current: tenure.ErrEnded, stranger: replayed},
				"expired":   {granted: tenure.ErrStale, current: tenure.ErrEnded, stranger: tenure.ErrHolderMismatch},
				"revoked":   {granted: tenure.ErrStale, current: tenure.ErrEnded, stranger: tenure.ErrHolderMismatch},
				"unknown":   {granted: tenure.ErrNotFound, current: tenure.ErrNotFound, stranger: tenure.ErrNotFound},
			})
		},
	},
	{ // proves: T4
		ID: "E26", Name: "revoke in every state", Needs: lawful,
		Says: "Given a lease in each state, when it is revoked, then an active one is revoking under the next epoch, one that was revoked before is told so, and the rest is refused and unchanged.",
		Run: func(p *probe) {
			rev := func(l tenure.Lease, _ tenure.Epoch, _ tenure.Holder) tenure.Command {
				return tenure.Revoke{Lease: l.ID, Resource: l.Resource, Reason: "maintenance"}
			}
			p.rows(rev, anyHolder(map[string]tenure.Code{
				"reserved": tenure.ErrInvalidState, "active": done, "activated": done, "revoking": replayed,
				"released": tenure.ErrEnded, "expired": tenure.ErrEnded, "revoked": replayed, "unknown": tenure.ErrNotFound,
			}))
		},
	},
	{ // proves: T4
		ID: "E27", Name: "reclaim in every state", Needs: lawful,
		Says: "Given a lease in each state, when it is reclaimed as a dead holder's, then a revoking one is revoked, one that was is told so, and the rest is refused and unchanged.",
		Run: func(p *probe) {
			rec := func(l tenure.Lease, _ tenure.Epoch, _ tenure.Holder) tenure.Command {
				return tenure.Reclaim{Lease: l.ID, Resource: l.Resource, HolderIsDead: true}
			}
			p.rows(rec, anyHolder(map[string]tenure.Code{
				"reserved": tenure.ErrInvalidState, "active": tenure.ErrInvalidState, "activated": tenure.ErrInvalidState, "revoking": done,
				"released": tenure.ErrEnded, "expired": tenure.ErrEnded, "revoked": replayed, "unknown": tenure.ErrNotFound,
			}))
		},
	},
	{ // proves: T1, T3
		ID: "E28", Name: "claim in every state", Needs: lawful,
		Says: "Given a resource whose lease is in each state, when it is claimed, then it is held while that lease is reserved, active or revoking, and granted when it has ended.",
		Run: func(p *probe) {
			for _, s := range stances {
				l := p.stand(s, "claimed-"+s)
				c := p.claim("bob")
				c.Resources = l.Resources
				if l.State.Live() {
					if err := p.refusedClaim(c, tenure.ErrHeld); err.Lease != l.ID || err.Holder != "ann" {
						p.Errorf("%s: held by %v of %q", s, err.Lease, err.Holder)
					}
				} else if next := p.acquire(c); next.Token.Compare(tenure.Token{Lease: l.ID, Epoch: l.Epoch}) <= 0 {
					p.Errorf("%s: token %v after %v", s, next.Token, l.ID)
				}
				p.same(l)
			}
		},
	},
	{ // proves: T5
		ID: "E29", Name: "renew in every state", Needs: lawful,
		Says: "Given a lease in each state, when it is renewed with the token of its grant, then reserved and active are confirmed, revoking is stale, ended is ended, unknown is not found, and nothing has changed.",
		Run: func(p *probe) {
			want := map[string]tenure.Code{"reserved": 0, "active": 0, "activated": 0, "revoking": tenure.ErrStale,
				"released": tenure.ErrEnded, "expired": tenure.ErrEnded, "revoked": tenure.ErrEnded}
			for _, s := range stances {
				l := p.stand(s, "renewed-"+s)
				if err := p.renew(ref(l)); tenure.CodeOf(err) != want[s] {
					p.Errorf("%s: %v, want %v", s, err, want[s])
				}
				p.same(l)
			}
			p.code(p.renew(tenure.Ref{Token: tenure.Token{Lease: p.unknown(), Epoch: 1}, Resource: at("unknown")}), tenure.ErrNotFound)
		},
	},
	{
		ID: "E30", Name: "each answer of a renewal is its own",
		Says: "Given one living lease among stale, ended and unknown ones, when all are renewed in one call, then each ref has its own answer, in order.",
		Run: func(p *probe) {
			good := p.acquire(p.claim("ann", "good"))
			revoked := p.acquire(p.claim("ann", "revoked"))
			p.revoke(revoked)
			ended := p.acquire(p.claim("ann", "ended"))
			p.release(ended)
			later := ref(good)
			later.Token.Epoch++
			unknown := tenure.Ref{Token: tenure.Token{Lease: p.unknown(), Epoch: 1}, Resource: at("unknown")}
			refs := []tenure.Ref{ref(revoked), ref(good), later, ref(ended), unknown, ref(good)}
			each, err := p.Engine.Renew(p.ctx, refs)
			if err != nil || len(each) != len(refs) {
				p.Fatalf("%d answers, %v", len(each), err)
			}
			if each[1] != nil || each[5] != nil {
				p.Errorf("the good ones: %v, %v", each[1], each[5])
			}
			p.code(each[0], p.over(tenure.ErrStale)...)
			p.code(each[2], p.over(tenure.ErrStale)...)
			p.code(each[3], p.over(tenure.ErrEnded)...)
			p.code(each[4], p.over(tenure.ErrNotFound)...)
		},
	},
	{ // proves: T5
		ID: "E31", Name: "only the holder's own token counts",
		Says: "Given an active lease, when it is released or renewed with another epoch, another lease's id, another resource or another holder's name, then each is refused and the lease stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			other := p.acquire(p.claim("ann", "drill"))
			for _, epoch := range []tenure.Epoch{2, 1<<32 - 1} {
				r := ref(l)
				r.Token.Epoch = epoch
				p.refused(tenure.Release{Ref: r, Holder: "ann"}, tenure.ErrStale)
				p.code(p.renew(r), tenure.ErrStale)
			}
			p.refused(tenure.Release{Ref: ref(l), Holder: "bob"}, tenure.ErrHolderMismatch)
			wrong := tenure.Ref{Token: l.Token, Resource: at("drill")}
			p.refused(tenure.Release{Ref: wrong, Holder: "ann"}, p.over(tenure.ErrNotFound)...)
			wrong = tenure.Ref{Token: tenure.Token{Lease: p.unknown(), Epoch: 1}, Resource: at("press")}
			p.refused(tenure.Release{Ref: wrong, Holder: "ann"}, p.over(tenure.ErrNotFound)...)
			p.code(p.renew(wrong), p.over(tenure.ErrNotFound)...)
			p.same(l)
			p.same(other)
			p.release(l)
		},
	},
	{ // proves: T5
		ID: "E32", Name: "the order of the checks", Needs: lawful,
		Says: "Given leases where several checks fail at once, when a command is sent, then the first of the law's order answers: unknown, repeated, holder, epoch, ended, state.",
		Run: func(p *probe) {
			token := func(l tenure.Lease, e tenure.Epoch) tenure.Ref {
				return tenure.Ref{Token: tenure.Token{Lease: l.ID, Epoch: e}, Resource: l.Resource}
			}
			active, released := p.stand("active", "active"), p.stand("released", "released")
			revoking := p.stand("revoking", "revoking")
			p.refused(tenure.Release{Ref: token(active, 7), Holder: "bob"}, tenure.ErrHolderMismatch)
			p.refused(tenure.Release{Ref: token(released, 7), Holder: "bob"}, tenure.ErrHolderMismatch)
			p.refused(tenure.Release{Ref: token(released, 7), Holder: "ann"}, tenure.ErrStale)
			p.refused(tenure.Activate{Ref: token(released, 1), Holder: "ann"}, tenure.ErrStale)
			p.refused(tenure.Activate{Ref: token(revoking, 1), Holder: "bob"}, tenure.ErrHolderMismatch)
			p.refused(tenure.Activate{Ref: token(active, 7), Holder: "ann"}, tenure.ErrStale)
			if l := p.do(tenure.Release{Ref: token(released, 1), Holder: "bob"}); !l.Replayed || l.LSN != released.LSN {
				p.Errorf("a token is released once, whoever repeats it: replayed %v at %d", l.Replayed, l.LSN)
			}
			p.same(active)
			p.same(revoking)
		},
	},
	{ // proves: T5
		ID: "E33", Name: "epochs",
		Says: "Given a lease, when it is granted, its epoch is 1; when authority is lost, by release or revoke, it is 2; a reclaim does not raise it; and it has a token only before.",
		Run: func(p *probe) {
			expect := func(l tenure.Lease, epoch tenure.Epoch, token bool) {
				p.Helper()
				if l.Epoch != epoch || l.Token.IsZero() == token {
					p.Errorf("%v at epoch %d with token %q, want epoch %d", l.State, l.Epoch, l.Token, epoch)
				}
			}
			l := p.acquire(p.claim("ann", "press"))
			expect(l, 1, true)
			expect(p.release(l), 2, false)
			l = p.acquire(p.claim("ann", "press"))
			expect(l, 1, true)
			expect(p.revoke(l), 2, false)
			expect(p.owner("press"), 2, false)
			expect(p.bury(l), 2, false)
			p.free("press")
		},
	},
	{ // proves: T5
		ID: "E34", Name: "epochs of a reservation", Needs: lawful,
		Says: "Given reservations, when one is activated its token stays; when one expires or is released, its epoch is 2 and it has no token.",
		Run: func(p *probe) {
			l := p.acquire(p.reservation("ann", time.Minute, "a"))
			if got := p.do(tenure.Activate{Ref: l.Ref, Holder: "ann"}); got.Token != l.Token || got.State != tenure.StateActive || got.Epoch != 1 {
				p.Errorf("activated: %v, token %v, was %v", got.State, got.Token, l.Token)
			}
			for _, s := range []string{"expired", "released"} {
				if got := p.stand(s, s); got.Epoch != 2 || !got.Token.IsZero() {
					p.Errorf("%s: epoch %d, token %q", s, got.Epoch, got.Token)
				}
			}
			l = p.release(p.acquire(p.reservation("ann", time.Minute, "b")))
			if l.State != tenure.StateReleased || l.Epoch != 2 || !l.Token.IsZero() || l.Result.Outcome != tenure.OutcomeNone {
				p.Errorf("a released reservation: %v, epoch %d, token %q, result %v", l.State, l.Epoch, l.Token, l.Result)
			}
		},
	},
	{
		ID: "E35", Name: "what became of a tenure is kept", Needs: tenure.Caps{History: true},
		Says: "Given leases that ended in each way, when they are looked up, then outcome and detail are those of their end, and the moment of their end is told.",
		Run: func(p *probe) {
			ok := p.release(p.acquire(p.claim("ann", "ok")))
			failed := p.acquire(p.claim("ann", "failed"))
			p.do(tenure.Release{Ref: failed.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "out of paper"}})
			revoked := p.acquire(p.claim("ann", "revoked"))
			p.do(tenure.Revoke{Lease: revoked.ID, Resource: revoked.Resource, Reason: "fire drill"})
			p.bury(revoked)
			for _, x := range []struct {
				l     tenure.Lease
				state tenure.State
				want  tenure.Result
			}{
				{ok, tenure.StateReleased, tenure.Result{Outcome: tenure.OutcomeOK}},
				{failed, tenure.StateReleased, tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "out of paper"}},
				{revoked, tenure.StateRevoked, tenure.Result{Outcome: tenure.OutcomeRevoked, Detail: "fire drill"}},
			} {
				if got := p.look(x.l); got.Result != x.want || got.State != x.state || got.EndedAt.Before(got.GrantedAt) {
					p.Errorf("%v %v, granted %v, ended %v; want %v %v", got.State, got.Result, got.GrantedAt, got.EndedAt, x.state, x.want)
				}
			}
		},
	},
}
