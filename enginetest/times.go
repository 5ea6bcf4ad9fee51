package enginetest

import (
	"time"

	"github.com/tenurehq/tenure"
)

// timeCases are about silence, beats and deadlines: late, never early.
var timeCases = []testCase{
	{ // proves: T6, T14
		ID: "E60", Name: "a silent holder is succeeded late, never early",
		Says: "Given a holder that falls silent and a claim that waits, when time passes, then the claim is granted, not before TTL + grace after the holder was last heard of, and not hopelessly after it.",
		Run: func(p *probe) {
			heard := time.Now()
			p.acquire(p.timed("ann", "press"))
			w := p.start(p.Peer, waits(p.claim("bob", "press")))
			l := p.after(heard, p.ttl+p.grace, p.late(), w)
			if l.Prior > tenure.EndingTaken {
				p.Errorf("prior %v: the earlier holder may have been at work", l.Prior)
			}
		},
	},
	{ // proves: T6, T14
		ID: "E61", Name: "authority is withdrawn at the TTL, the resource is free a grace later", Needs: tenure.Caps{History: true, EveryEvent: true},
		Says: "Given a holder that falls silent, when time passes, then it is revoking not before the TTL, held until then and through the grace, and free not before the grace is over; its result is lapsed.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{})
			heard := time.Now()
			l := p.acquire(p.timed("ann", "press"))
			w.expect(tenure.EventGranted, l.ID)
			ev, when := w.expect(tenure.EventRevoking, l.ID)
			p.between("revoking", heard, when, p.ttl, p.ttl+p.slack)
			if ev.Lease.State != tenure.StateRevoking || ev.Lease.Epoch != 2 || ev.Lease.Result.Outcome != tenure.OutcomeLapsed || !ev.Lease.Token.IsZero() {
				p.Errorf("%v at epoch %d, %v, token %q", ev.Lease.State, ev.Lease.Epoch, ev.Lease.Result, ev.Lease.Token)
			}
			p.code(p.renew(ref(l)), tenure.ErrStale, tenure.ErrEnded)
			ev, when = w.expect(tenure.EventFreed, l.ID)
			p.between("freed", heard, when, p.ttl+p.grace, p.ttl+p.grace+2*p.slack)
			p.is(ev.Lease, tenure.StateRevoked)
			p.free("press")
			if got := p.acquire(p.claim("bob", "press")); got.Prior != tenure.EndingTaken {
				p.Errorf("prior %v", got.Prior)
			}
		},
	},
	{ // proves: T6
		ID: "E62", Name: "the last slot before the TTL", Needs: tenure.Caps{History: true}, Wants: exactTime,
		Says: "Given a silent holder, when one millisecond of its TTL is left, then it is active and a beat still counts for a whole TTL; when one of its grace is left, then the resource is still held.",
		Run: func(p *probe) {
			l := p.acquire(p.timed("ann", "press"))
			p.Advance(p.ttl - time.Millisecond)
			p.is(p.look(l), tenure.StateActive)
			p.mustRenew(l)
			p.Advance(p.ttl - time.Millisecond)
			p.is(p.look(l), tenure.StateActive)
			p.refusedClaim(p.claim("bob", "press"), tenure.ErrHeld)
			p.Advance(time.Millisecond + p.grace - time.Millisecond)
			p.is(p.look(l), tenure.StateRevoking)
			p.refusedClaim(p.claim("bob", "press"), tenure.ErrHeld)
			p.code(p.renew(ref(l)), tenure.ErrStale)
			p.is(p.look(l), tenure.StateRevoking)
			p.Advance(time.Millisecond + 2*p.slack)
			p.is(p.look(l), tenure.StateRevoked)
		},
	},
	{ // proves: T6, T14
		ID: "E63", Name: "beats keep a lease for many TTLs",
		Says: "Given a holder that beats every third of its TTL and a claim that waits, when many TTLs pass, then the lease is untouched and the claim waits; when the beats end, the claim is granted TTL + grace after the last, at the earliest.",
		Run: func(p *probe) {
			l := p.acquire(p.timed("ann", "press"))
			w := p.start(p.Peer, waits(p.claim("bob", "press")))
			rounds, heard := 9, time.Now()
			if p.bubble {
				rounds = 300
			}
			for range rounds {
				p.Advance(p.ttl / 3)
				beat := time.Now()
				if err := p.renew(ref(l)); err != nil {
					if p.bubble || beat.Sub(heard) < p.ttl { // a test that was itself held up longer proves nothing
						p.Fatalf("a beat %v after the last: %v", beat.Sub(heard), err)
					}
					return
				}
				heard = beat
			}
			w.stillWaits()
			if got := p.owner("press"); got.ID != l.ID || got.Token != l.Token {
				p.Errorf("it is now %v", got.Token)
			}
			p.after(heard, p.ttl+p.grace, p.late(), w)
			p.code(p.renew(ref(l)), p.over(tenure.ErrEnded)...)
		},
	},
	{
		ID: "E64", Name: "a replay is not a heartbeat", Needs: tenure.Caps{History: true},
		Says: "Given a silent holder whose claim is repeated again and again, when its TTL passes, then authority is withdrawn as if nothing had been said.",
		Run: func(p *probe) {
			c := p.timed("ann", "press")
			begun := time.Now()
			l := p.acquire(c)
			for time.Since(begun) < p.ttl*3/4 {
				p.Advance(p.ttl / 8)
				if _, err := p.Engine.Acquire(p.ctx, c); err != nil {
					p.Fatalf("repeat: %v", err)
				}
				p.look(l)
			}
			repeated := time.Now()
			p.eventually("authority is withdrawn", func() bool { return p.look(l).State != tenure.StateActive })
			if late := time.Since(repeated); p.bubble && late >= p.ttl {
				p.Errorf("only %v after the last repeat: it counted as a beat", late)
			}
		},
	},
	{ // proves: T14
		ID: "E65", Name: "without a TTL, silence means nothing",
		Says: "Given a lease without TTL and a claim that waits, when very long passes, then nothing happens to it, and a beat is still answered.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.start(p.Peer, waits(p.claim("bob", "press")))
			if p.bubble {
				p.Advance(time.Hour)
			} else {
				p.Advance(2 * (p.ttl + p.grace))
			}
			w.stillWaits()
			p.same(l)
			p.mustRenew(l)
			p.release(l)
			w.granted()
		},
	},
	{ // proves: T6
		ID: "E66", Name: "without grace, the resource is free with the lapse", Needs: tenure.Caps{EveryEvent: true, History: true},
		Says: "Given a lease without grace, when its holder falls silent, then it is revoking and freed together, not before the TTL.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{})
			c := p.timed("ann", "press")
			c.Grace = tenure.NoGrace
			heard := time.Now()
			l := p.acquire(c)
			w.expect(tenure.EventGranted, l.ID)
			w.expect(tenure.EventRevoking, l.ID)
			_, when := w.expect(tenure.EventFreed, l.ID)
			p.between("freed", heard, when, p.ttl, p.ttl+p.slack)
		},
	},
	{ // proves: T5, T14
		ID: "E67", Name: "a holder that comes back late harms nobody",
		Says: "Given a holder whose lease lapsed and went to another, when it renews, releases or repeats its claim, then each is refused, or answered without a token, and the new owner stands.",
		Run: func(p *probe) {
			c := p.timed("ann", "press")
			l := p.acquire(c)
			next := p.start(p.Peer, waits(p.claim("bob", "press"))).granted()
			p.code(p.renew(ref(l)), p.over(tenure.ErrEnded)...)
			p.refused(release(l), p.over(tenure.ErrStale)...)
			if again, err := p.Engine.Acquire(p.ctx, c); err == nil && !again.Token.IsZero() {
				p.Errorf("the old claim, repeated, was given %v", again.Token)
			}
			p.same(next)
			p.mustRenew(next)
		},
	},
	{ // proves: T6
		ID: "E68", Name: "a deadline, to the millisecond", Needs: lawful, Wants: exactTime,
		Says: "Given reservations, when they are activated one millisecond before the deadline, at it and after it, then the first is active; the others are over, and their resource is free soon after.",
		Run: func(p *probe) {
			before := p.acquire(p.reservation("ann", p.reserve, "before"))
			w := p.start(p.Engine, waits(p.claim("bob", "before")))
			p.Advance(p.reserve - time.Millisecond)
			p.is(p.look(before), tenure.StateReserved)
			p.is(p.do(tenure.Activate{Ref: before.Ref, Holder: "ann"}), tenure.StateActive)
			p.Advance(time.Minute)
			p.is(p.look(before), tenure.StateActive) // no timer ends it
			w.stillWaits()
			for _, late := range []time.Duration{0, time.Millisecond} {
				key := "late " + late.String()
				l := p.acquire(p.reservation("ann", p.reserve, key))
				p.Advance(p.reserve - time.Millisecond)
				p.refusedClaim(p.claim("bob", key), tenure.ErrHeld)
				p.Advance(late + time.Millisecond)
				p.refused(tenure.Activate{Ref: l.Ref, Holder: "ann"}, tenure.ErrEnded, tenure.ErrStale)
				p.Advance(p.slack)
				p.is(p.look(l), tenure.StateExpired)
				p.free(key)
			}
		},
	},
	{ // proves: T6
		ID: "E69", Name: "a reservation is confirmed or lost", Needs: tenure.Caps{Reserve: true},
		Says: "Given two reservations, when one is activated in time, then it is active under the same token and no timer ends it; the other keeps its resource through its window, and loses it after that.",
		Run: func(p *probe) {
			begun := time.Now()
			kept := p.acquire(p.reservation("ann", p.patience, "kept"))
			lost := p.acquire(p.reservation("ann", p.reserve, "lost"))
			p.is(kept, tenure.StateReserved)
			w := p.start(p.Peer, waits(p.claim("bob", "lost")))
			p.refusedClaim(p.claim("bob", "kept"), tenure.ErrHeld)
			p.refused(tenure.Activate{Ref: ref(kept), Holder: "bob"}, tenure.ErrHolderMismatch)
			now := p.do(tenure.Activate{Ref: kept.Ref, Holder: "ann"})
			if now.State != tenure.StateActive || now.Token != kept.Token || now.LSN <= kept.LSN {
				p.Errorf("%v under %v, changed at %d; was %v at %d", now.State, now.Token, now.LSN, kept.Token, kept.LSN)
			}
			p.mustRenew(kept)
			late := p.slack
			if p.caps.JudgesLate {
				late += 2 * p.reserve
			}
			got := p.after(begun, p.reserve, late, w)
			if got.Prior != tenure.EndingNever && p.caps.History {
				p.Errorf("prior %v: nobody had authority", got.Prior)
			}
			p.refused(tenure.Activate{Ref: lost.Ref, Holder: "ann"}, p.over(tenure.ErrStale)...)
			p.refusedClaim(p.claim("bob", "kept"), tenure.ErrHeld)
			p.release(kept)
		},
	},
	{ // proves: T6
		ID: "E70", Name: "a reservation ages out at its deadline", Needs: tenure.Caps{Reserve: true, EveryEvent: true},
		Says: "Given a reservation that is renewed but never activated, when its window is over, then it expires, not before, whatever the beats said, and who waits is granted it.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{Resource: at("press")})
			begun := time.Now()
			l := p.acquire(p.reservation("ann", p.reserve, "press"))
			w.expect(tenure.EventGranted, l.ID)
			next := p.start(p.Engine, waits(p.claim("bob", "press")))
			p.Advance(p.reserve * 2 / 3)
			if err := p.renew(ref(l)); err != nil && time.Since(begun) < p.reserve {
				p.Errorf("a beat for a reservation: %v", err)
			}
			ev, when := w.expect(tenure.EventExpired, l.ID)
			p.between("expired", begun, when, p.reserve, p.reserve+p.slack)
			if ev.Lease.State != tenure.StateExpired || ev.Lease.Epoch != 2 || ev.Lease.Result.Outcome != tenure.OutcomeNone {
				p.Errorf("%v at epoch %d, %v", ev.Lease.State, ev.Lease.Epoch, ev.Lease.Result)
			}
			if got := next.granted(); got.Prior != tenure.EndingNever && p.caps.History {
				p.Errorf("prior %v: nobody had authority", got.Prior)
			}
		},
	},
	{ // proves: T4, T5
		ID: "E71", Name: "an activation after the resource went to another", Needs: tenure.Caps{Reserve: true},
		Says: "Given a reservation that expired and a new owner, when the old holder activates or releases it, then it is refused and the new owner stands.",
		Run: func(p *probe) {
			l := p.acquire(p.reservation("ann", p.reserve, "press"))
			next := p.start(p.Engine, waits(p.claim("bob", "press"))).granted()
			p.refused(tenure.Activate{Ref: l.Ref, Holder: "ann"}, p.over(tenure.ErrStale)...)
			p.refused(release(l), p.over(tenure.ErrStale)...)
			p.same(next)
			p.mustRenew(next)
		},
	},
	{ // proves: T14
		ID: "E72", Name: "an activated reservation is kept by beats like any other", Needs: tenure.Caps{Reserve: true, EveryEvent: true},
		Says: "Given a reservation with a TTL, when it is activated late in its window, then its TTL counts from the activation, and it lapses when it is silent.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{})
			c := p.timed("ann", "press")
			c.Reserve = 4 * p.ttl
			l := p.acquire(c)
			w.expect(tenure.EventGranted, l.ID)
			p.Advance(2 * p.ttl)
			p.is(p.look(l), tenure.StateReserved)
			heard := time.Now()
			p.do(tenure.Activate{Ref: l.Ref, Holder: "ann"})
			w.expect(tenure.EventActivated, l.ID)
			_, when := w.expect(tenure.EventRevoking, l.ID)
			p.between("revoking", heard, when, p.ttl, p.ttl+p.slack)
		},
	},
	{ // proves: T6, T14
		ID: "E73", Name: "a restart gives everybody their time again", Wants: restarts | exactTime, Needs: tenure.Caps{History: true, Reserve: true},
		Says: "Given an active, a revoking and a reserved lease near the end of their time, when the engine restarts, then the active one has its full TTL, the revoking one its full TTL + grace, and the reservation no more than its window.",
		Run: func(p *probe) {
			active := p.acquire(p.timed("ann", "active"))
			revoking := p.acquire(p.timed("ann", "revoking"))
			p.revoke(revoking)
			c := p.reservation("ann", p.ttl, "reserved")
			reserved := p.acquire(c)
			p.Advance(p.ttl - time.Millisecond)
			p.restart()
			p.Advance(p.ttl - time.Millisecond)
			p.is(p.look(active), tenure.StateActive)
			p.Advance(p.grace)
			p.is(p.look(reserved), tenure.StateExpired)
			p.is(p.look(revoking), tenure.StateRevoking)
			p.is(p.look(active), tenure.StateRevoking)
			p.Advance(2*p.slack + p.grace)
			p.is(p.look(revoking), tenure.StateRevoked)
			p.is(p.look(active), tenure.StateRevoked)
		},
	},
}

// late is how much after TTL + grace a successor is still on time: who judges
// by watching begins when it comes.
func (p *probe) late() time.Duration {
	if p.caps.JudgesLate {
		return p.slack + 2*(p.ttl+p.grace)
	}
	return 2 * p.slack
}

// after waits for a grant that must come no sooner than least after heard, and
// by late after that.
func (p *probe) after(heard time.Time, least, late time.Duration, w *pending) tenure.Lease {
	p.Helper()
	a := await(p, "the successor's grant", w.answer)
	if a.err != nil {
		p.Fatalf("the successor: %v", a.err)
	}
	p.between("the successor's grant", heard, a.when, least, least+late)
	return p.note(a.lease)
}

func (p *probe) between(what string, from, to time.Time, least, most time.Duration) {
	p.Helper()
	switch d := to.Sub(from); {
	case d < least:
		p.Errorf("%s came after %v, %v at the earliest", what, d, least)
	case d > most:
		p.Errorf("%s came after %v, %v at the latest", what, d, most)
	}
}
