package enginetest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
)

// fair is what cases about the order of waiting need.
var fair = tenure.Caps{Fair: true, Bundles: true}

// waitCases are about claims that wait.
var waitCases = []testCase{
	{
		ID: "E82", Name: "a claim waits for a release",
		Says: "Given a held resource and a claim that waits, when the holder releases, then the claim is granted, not before, and it is not called a replay.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.queue(waits(p.claim("bob", "press")))
			w.stillWaits()
			p.release(l)
			got := w.granted()
			if got.Holder != "bob" || got.State != tenure.StateActive || got.Replayed || got.Token.Compare(l.Token) <= 0 {
				p.Errorf("%v of %q, token %v, replayed %v", got.State, got.Holder, got.Token, got.Replayed)
			}
			if got := p.owner("press"); got.Holder != "bob" {
				p.Errorf("it belongs to %q", got.Holder)
			}
		},
	},
	{
		ID: "E83", Name: "a wait has an end",
		Says: "Given a held resource, when a claim waits for a bounded time, then it is refused as held when that is over, not before, and leaves nothing behind.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			c := p.claim("bob", "press")
			c.Wait = p.ttl / 2
			begun := time.Now()
			_, err := p.Engine.Acquire(p.ctx, c)
			p.between("the end of the wait", begun, time.Now(), c.Wait, c.Wait+p.slack)
			if e := p.code(err, tenure.ErrHeld); e.Holder != "ann" || e.Lease != l.ID {
				p.Errorf("held by %q, %v", e.Holder, e.Lease)
			}
			p.release(l)
			p.Advance(p.ttl / 10)
			p.free("press")
		},
	},
	{
		ID: "E84", Name: "a free resource is not waited for",
		Says: "Given a free resource, when a claim that would wait comes, then it is granted at once.",
		Run: func(p *probe) {
			p.acquire(waits(p.claim("ann", "press")))
			c := p.claim("ann", "drill")
			c.Wait = time.Millisecond
			p.acquire(c)
		},
	},
	{
		ID: "E85", Name: "a wait that its caller ends",
		Says: "Given a claim that waits, when its context ends, then it returns an error that wraps the cause, and after the release the resource is free for others.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.queue(waits(p.claim("bob", "press")))
			cause := errors.New("changed its mind")
			w.end(cause)
			a := await(p, "the end of the wait", w.answer)
			if a.err == nil || !errors.Is(a.err, cause) {
				p.Fatalf("answered %v, %v", a.lease.ID, a.err)
			}
			p.code(a.err, tenure.ErrHeld, tenure.ErrUnknownOutcome, tenure.ErrUnavailable)
			p.release(l)
			p.settle()
			p.eventually("the resource is free", func() bool {
				got, err := p.Engine.Acquire(p.ctx, p.claim("cid", "press"))
				return err == nil && got.Holder == "cid"
			})
		},
	},
	{ // proves: T2
		ID: "E86", Name: "a grant that raced the end of its wait is released",
		Says: "Given claims that wait, when each one's context ends just as its resource is released, then it either holds the lease, or the resource is free soon, or the outcome is unknown and repeating the claim settles it; no grant is left behind.",
		Run: func(p *probe) {
			rounds := 30
			if p.bubble {
				rounds = 400
			}
			for i := range rounds {
				key := fmt.Sprint(i)
				l := p.acquire(p.claim("ann", key))
				w := p.queue(waits(p.claim("bob", key)))
				released := make(chan error, 1)
				go func() { _, err := p.Peer.Do(p.ctx, release(l)); released <- err }()
				for range i % 40 { // now earlier, now later
					runtime.Gosched()
				}
				w.end(nil)
				if err := await(p, "the release", released); err != nil {
					p.Fatalf("release: %v", err)
				}
				a := await(p, "the end of the wait", w.answer)
				if tenure.CodeOf(a.err) == tenure.ErrUnknownOutcome {
					w.claim.Wait = 0
					a.lease, a.err = p.Engine.Acquire(p.ctx, w.claim)
				}
				if a.err == nil && !a.lease.Token.IsZero() {
					p.release(p.note(a.lease))
				}
				p.eventually("the resource is free", func() bool {
					_, err := p.Engine.Acquire(p.ctx, p.claim("cid", key))
					return err == nil
				})
			}
		},
	},
	{
		ID: "E87", Name: "a claim waits for a reclaim",
		Says: "Given a revoking lease and a claim that waits, when the lease is reclaimed, then the claim is granted.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			p.revoke(l)
			w := p.queue(waits(p.claim("bob", "press")))
			w.stillWaits()
			p.bury(l)
			if got := w.granted(); got.Prior > tenure.EndingTaken {
				p.Errorf("prior %v", got.Prior)
			}
		},
	},
	{
		ID: "E88", Name: "arrival order", Needs: fair,
		Says: "Given a held resource and six claims that wait for it, when it is released again and again, then they are granted one after another in the order in which they came.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			var line []*pending
			for i := range 6 {
				line = append(line, p.queue(waits(p.claim(tenure.Holder(fmt.Sprint("waiter-", i)), "press"))))
			}
			for i, w := range line {
				p.release(l)
				l = w.granted()
				if i+1 < len(line) {
					line[i+1].stillWaits()
				}
			}
		},
	},
	{ // proves: T2
		ID: "E89", Name: "a bundle is not starved", Needs: fair,
		Says: "Given a bundle that waits for two busy resources, when one of them is released, then later claims for it, waiting or not, do not pass the bundle; when the other is released, the bundle is granted whole, and the later claim after it.",
		Run: func(p *probe) {
			a, b := p.acquire(p.claim("ann", "a")), p.acquire(p.claim("ann", "b"))
			bundle := p.queue(waits(p.claim("bob", "a", "b")))
			later := p.queue(waits(p.claim("cid", "a")))
			p.release(a)
			p.refusedClaim(p.claim("dan", "a"), tenure.ErrHeld)
			p.free("a")
			late := p.queue(waits(p.claim("eve", "a")))
			bundle.stillWaits()
			later.stillWaits()
			p.release(b)
			got := bundle.granted()
			if !slices.Equal(got.Resources[:2], []tenure.Resource{at("a"), at("b")}) {
				p.Errorf("granted %v", got.Resources)
			}
			later.stillWaits()
			p.release(got)
			p.release(later.granted())
			late.granted()
		},
	},
	{
		ID: "E90", Name: "nobody passes a bundle on its free member", Needs: fair,
		Says: "Given a bundle that waits for one busy resource and one free one, when the free one is claimed, waiting or not, alone or in a bundle whose other members become free, then the claim does not pass; what the bundle does not want is granted.",
		Run: func(p *probe) {
			busy := p.acquire(p.claim("ann", "busy"))
			bundle := p.queue(waits(p.claim("bob", "busy", "open")))
			p.refusedClaim(p.claim("cid", "open"), tenure.ErrHeld)
			p.refusedClaim(p.claim("cid", "other", "open"), tenure.ErrHeld)
			p.free("other")
			other := p.acquire(p.claim("cid", "other"))
			behind := p.queue(waits(p.claim("cid", "other", "open")))
			p.release(other)
			behind.stillWaits()
			p.refusedClaim(p.claim("dan", "other"), tenure.ErrHeld)
			p.release(busy)
			got := bundle.granted()
			behind.stillWaits()
			p.release(got)
			behind.granted()
		},
	},
	{
		ID: "E91", Name: "one release lets several pass", Needs: fair,
		Says: "Given a held bundle and claims that wait for each of its members, when the bundle is released, then all of them are granted.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "a", "b", "c"))
			line := []*pending{p.queue(waits(p.claim("bob", "a"))), p.queue(waits(p.claim("cid", "c"))), p.queue(waits(p.claim("dan", "b")))}
			second := p.queue(waits(p.claim("eve", "a")))
			p.release(l)
			for _, w := range line {
				w.granted()
			}
			second.stillWaits()
		},
	},
	{
		ID: "E92", Name: "who leaves the line lets the next pass", Needs: fair,
		Says: "Given a bundle that waits for a busy and a free resource and a claim behind it for the free one, when the bundle's caller goes, then the claim behind it is granted at once.",
		Run: func(p *probe) {
			p.acquire(p.claim("ann", "busy"))
			bundle := p.queue(waits(p.claim("bob", "busy", "open")))
			behind := p.queue(waits(p.claim("cid", "open")))
			behind.stillWaits()
			bundle.end(nil)
			behind.granted()
			p.refusedClaim(p.claim("dan", "busy"), tenure.ErrHeld)
		},
	},
	{
		ID: "E93", Name: "a wait that ran out lets the next pass", Needs: fair,
		Says: "Given a bundle that waits for a bounded time and a claim behind it, when that time is over, then the bundle is refused and the claim behind it is granted.",
		Run: func(p *probe) {
			p.acquire(p.claim("ann", "busy"))
			c := p.claim("bob", "busy", "open")
			c.Wait = p.ttl
			bundle := p.queue(c)
			behind := p.queue(waits(p.claim("cid", "open")))
			bundle.refused(tenure.ErrHeld)
			behind.granted()
		},
	},
	{ // proves: T10
		ID: "E94", Name: "the repeat of a waiting claim attaches to it", Needs: fair,
		Says: "Given a claim that waits behind another, when it is repeated, then both calls stand in its place and are told of one and the same lease; without waiting the repeat is refused, and with another claim it is a conflict.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.queue(waits(p.claim("bob", "press")))
			c := p.claim("cid", "press")
			first := p.queue(waits(c))
			c = first.claim
			last := p.queue(waits(p.claim("dan", "press")))
			again := p.start(p.Engine, c)
			p.settle()
			now := c
			now.Wait = 0
			p.refusedClaim(now, tenure.ErrHeld)
			other := c
			other.Holder = "eve"
			p.refusedClaim(other, tenure.ErrConflict)
			p.release(l)
			p.release(w.granted())
			a, b := first.granted(), again.granted()
			if a.Token != b.Token || a.Holder != "cid" {
				p.Errorf("%v and %v of %q", a.Token, b.Token, a.Holder)
			}
			last.stillWaits()
			p.release(a)
			last.granted()
		},
	},
	{ // proves: T10
		ID: "E95", Name: "one caller of two goes", Needs: fair,
		Says: "Given a claim that waits for two callers, when one of them goes, then the claim keeps its place, and the other is granted it and keeps it.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			first := p.queue(waits(p.claim("bob", "press")))
			again := p.start(p.Engine, first.claim)
			p.settle()
			behind := p.queue(waits(p.claim("cid", "press")))
			first.end(nil)
			await(p, "the end of the wait", first.answer)
			p.release(l)
			got := again.granted()
			behind.stillWaits()
			p.same(got)
			p.mustRenew(got)
		},
	},
	{ // proves: T12
		ID: "E96", Name: "the line is bounded", Needs: fair,
		Set:  func(l *tenure.Limits) { l.Waiters, l.WaitersPerResource = 3, 2 },
		Says: "Given limits of 3 waiting claims in all and 2 for one resource, when one more comes, then it is refused as full by the name of the limit, and those in line are not disturbed.",
		Run: func(p *probe) {
			a, b := p.acquire(p.claim("ann", "a")), p.acquire(p.claim("ann", "b"))
			line := []*pending{p.queue(waits(p.claim("bob", "a"))), p.queue(waits(p.claim("cid", "a")))}
			if err := p.refusedClaim(waits(p.claim("dan", "a")), tenure.ErrFull); err.Field != "waiters_per_resource" {
				p.Errorf("the field is %q", err.Field)
			}
			line = append(line, p.queue(waits(p.claim("dan", "b"))))
			if err := p.refusedClaim(waits(p.claim("eve", "b")), tenure.ErrFull); err.Field != "waiters" {
				p.Errorf("the field is %q", err.Field)
			}
			p.refusedClaim(p.claim("eve", "b"), tenure.ErrHeld)
			p.release(a)
			p.release(b)
			p.release(line[0].granted())
			p.release(line[1].granted())
			p.release(line[2].granted())
		},
	},
	{ // proves: T6
		ID: "E97", Name: "the line moves when a holder falls silent", Needs: fair,
		Says: "Given a silent holder and a line of short-lived claims, when time passes, then each is granted in its turn, a TTL and a grace after the one before at the earliest.",
		Run: func(p *probe) {
			heard := time.Now()
			p.acquire(p.timed("ann", "press"))
			var line []*pending
			for i := range 3 {
				line = append(line, p.queue(waits(p.timed(tenure.Holder(fmt.Sprint("waiter-", i)), "press"))))
			}
			for i, w := range line {
				least := time.Duration(i+1) * (p.ttl + p.grace)
				p.after(heard, least, time.Duration(i+1)*p.late(), w)
			}
		},
	},
	{ // proves: T10
		ID: "E98", Name: "a claim that waited long is not too old to be judged", Needs: tenure.Caps{Fair: true, History: true, Bundles: true},
		Set:  func(l *tenure.Limits) { l.History = 0 },
		Says: "Given a claim that waits while leases granted after it came are retired, when its turn comes, then it is granted.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.queue(waits(p.claim("bob", "press")))
			for i := range 3 {
				other := p.acquire(p.claim("cid", fmt.Sprint(i)))
				p.release(other)
				p.retired(other)
			}
			p.release(l)
			w.granted()
		},
	},
	{ // proves: T11
		ID: "E99", Name: "a restart ends every wait", Wants: restarts, Needs: fair,
		Says: "Given a claim that waits, when the engine restarts and the holder releases, then the claim was refused, or its outcome is open; repeated, it is granted, and by then only once.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			w := p.start(p.Engine, waits(p.claim("bob", "press")))
			p.settle()
			p.restart()
			p.release(l)
			a := await(p, "the end of the wait", w.answer)
			if a.err != nil {
				p.code(a.err, tenure.ErrUnavailable, tenure.ErrUnknownOutcome, tenure.ErrHalted)
			}
			got := p.acquire(w.claim)
			if a.err == nil && got.Token != a.lease.Token {
				p.Errorf("granted %v, and %v", a.lease.Token, got.Token)
			}
			p.same(got)
		},
	},
}
