package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// every is what cases about single events need.
var every = tenure.Caps{EveryEvent: true}

// watchCases are about what a watcher is told.
var watchCases = []testCase{
	{ // proves: T9
		ID: "E106", Name: "a watch says when it stands",
		Says: "Given a watch, when it has said that it stands, then a change made after that, by either client, is told.",
		Run: func(p *probe) {
			for _, e := range []tenure.Engine{p.Engine, p.Peer} {
				w := p.watch(p.Engine, tenure.Filter{})
				l := p.acquireOn(e, p.claim("ann", "press"))
				w.until("the grant is told", func(ev tenure.Event) bool { return ev.Lease.ID == l.ID && ev.Lease.State == tenure.StateActive })
				p.release(l)
			}
		},
	},
	{ // proves: T9
		ID: "E107", Name: "every event, once, in order", Needs: tenure.Caps{EveryEvent: true, Reserve: true, Bundles: true},
		Says: "Given a watch, when leases go along every arrow of the lifecycle, then each step is one event, in order, with the lease as it stood then, at rising positions.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{})
			var want []told
			tell := func(k tenure.EventKind, l tenure.Lease) tenure.Lease {
				want = append(want, told{k, l})
				return l
			}
			a := tell(tenure.EventGranted, p.acquire(p.claim("ann", "a", "a2")))
			r := tell(tenure.EventGranted, p.acquire(p.reservation("bob", p.patience, "r")))
			p.refusedClaim(p.claim("cid", "a"), tenure.ErrHeld)
			tell(tenure.EventActivated, p.do(tenure.Activate{Ref: r.Ref, Holder: "bob"}))
			p.do(tenure.Activate{Ref: r.Ref, Holder: "bob"})
			tell(tenure.EventReleased, p.release(a))
			p.release(a)
			tell(tenure.EventRevoking, p.revoke(r))
			tell(tenure.EventFreed, p.bury(r))
			short := tell(tenure.EventGranted, p.acquire(p.reservation("cid", p.reserve, "s")))
			last := tenure.Position{}
			for _, x := range want {
				ev, _ := w.next()
				if ev.Kind != x.kind || ev.Lease.LSN != x.lease.LSN || ev.Lease.State != x.lease.State || ev.Lease.Epoch != x.lease.Epoch || ev.Lease.Token != x.lease.Token {
					p.Fatalf("told %v of %v (%v) at %v, want %v of %v (%v) at %d", ev.Kind, ev.Lease.ID, ev.Lease.State, ev.Position, x.kind, x.lease.ID, x.lease.State, x.lease.LSN)
				}
				if ev.Position.Compare(last) <= 0 || ev.Position.LSN != x.lease.LSN || ev.At.IsZero() {
					p.Errorf("%v stands at %v, after %v; changed at %d", ev.Kind, ev.Position, last, x.lease.LSN)
				}
				last = ev.Position
			}
			w.expect(tenure.EventExpired, short.ID)
		},
	},
	{ // proves: T9
		ID: "E108", Name: "a watch is resumed anywhere", Needs: every,
		Says: "Given a history of events, when a watch is resumed after any of them, then it stands there, and tells exactly what follows.",
		Run: func(p *probe) {
			all := p.history(24)
			for i, from := range all {
				w := p.watch(p.Peer, tenure.Filter{From: from.Position})
				if w.stands != from.Position {
					p.Fatalf("resumed after %v, stands at %v", from.Position, w.stands)
				}
				w.follows(all[i+1:])
				w.end(nil)
			}
		},
	},
	{ // proves: T9, T11
		ID: "E109", Name: "a watch is resumed after a restart", Needs: every, Wants: restarts,
		Says: "Given events that a watcher has seen, when the engine restarts and the watch is resumed after any of them, then it tells exactly what follows, what happens after the restart included.",
		Run: func(p *probe) {
			all := p.history(12)
			p.restart()
			l := p.acquire(p.claim("ann", "after"))
			for i, from := range all {
				w := p.watch(p.Engine, tenure.Filter{From: from.Position})
				w.follows(all[i+1:])
				w.expect(tenure.EventGranted, l.ID)
				w.end(nil)
			}
		},
	},
	{
		ID: "E110", Name: "a position that is gone, or never was", Needs: every,
		Says: "Given a watch, when it is resumed from before the store's beginning or from a position not yet reached, then the answer is compacted, with a position from which on a watch stands.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			for _, from := range []tenure.Position{{LSN: 1}, {LSN: l.LSN + 1<<40}} {
				w := p.stream(p.Engine, tenure.Filter{From: from})
				end := await(p, "the end of the watch", w.events)
				e := p.code(end.err, tenure.ErrCompacted)
				if e.LSN < l.LSN || e.LSN > l.LSN+1000 {
					p.Errorf("from %v: go on from %d; the last change was at %d", from, e.LSN, l.LSN)
				}
				again := p.watch(p.Engine, tenure.Filter{From: tenure.Position{LSN: e.LSN}})
				other := p.acquire(p.claim("bob", fmt.Sprint(from.LSN)))
				again.expect(tenure.EventGranted, other.ID)
				again.end(nil)
			}
		},
	},
	{
		ID: "E111", Name: "a watch tells what its filter lets through", Needs: tenure.Caps{EveryEvent: true, Bundles: true},
		Says: "Given watches by namespace, children, holder, resource and state, when leases change, then each is told of exactly what it asked for.",
		Run: func(p *probe) {
			filters := []tenure.Filter{
				{Namespace: "a"}, {Namespace: "a", Children: true}, {Holder: "bob"}, {Resource: "ab/1"}, {State: tenure.StateReleased},
			}
			want := [][]told{{}, {}, {}, {}, {}}
			var watches []*watcher
			for _, f := range filters {
				watches = append(watches, p.watch(p.Engine, f))
			}
			for _, x := range []struct {
				h  tenure.Holder
				rs []tenure.Resource
				by []int // which watches are told
			}{
				{"ann", []tenure.Resource{"a/1"}, []int{0, 1}},
				{"bob", []tenure.Resource{"a.b/1"}, []int{1, 2}},
				{"ann", []tenure.Resource{"ab/1"}, []int{3}},
				{"bob", []tenure.Resource{"c/1", "a/2"}, []int{0, 1, 2}},
				{"ann", []tenure.Resource{"c/2"}, nil},
			} {
				c := p.claim(x.h)
				c.Resources = x.rs
				l := p.acquire(c)
				ended := p.release(l)
				for _, i := range x.by {
					want[i] = append(want[i], told{tenure.EventGranted, l}, told{tenure.EventReleased, ended})
				}
				want[4] = append(want[4], told{tenure.EventReleased, ended})
			}
			for i, w := range watches {
				for _, x := range want[i] {
					if ev, _ := w.next(); ev.Kind != x.kind || ev.Lease.ID != x.lease.ID {
						p.Fatalf("%+v: told %v of %v, want %v of %v", filters[i], ev.Kind, ev.Lease.Resources, x.kind, x.lease.Resources)
					}
				}
				w.quiet()
			}
		},
	},
	{ // proves: T9
		ID: "E112", Name: "events under load", Needs: every,
		Says: "Given a watch, when many claim and release at once, then there is one event for each of their changes, at rising positions, and the events of each lease are in order.",
		Run: func(p *probe) {
			w := p.watch(p.Engine, tenure.Filter{})
			const clients, rounds = 8, 25
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					for range rounds {
						l, err := p.Peer.Acquire(p.ctx, p.claim("ann", fmt.Sprint(i)))
						if err == nil {
							_, err = p.Peer.Do(p.ctx, release(l))
						}
						if err != nil {
							p.Errorf("client %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
			last, held := tenure.Position{}, map[tenure.LeaseID]bool{}
			for range 2 * clients * rounds {
				ev, _ := w.next()
				granted := ev.Kind == tenure.EventGranted
				if ev.Position.Compare(last) <= 0 || granted == held[ev.Lease.ID] {
					p.Fatalf("%v of %v at %v, after %v", ev.Kind, ev.Lease.ID, ev.Position, last)
				}
				last, held[ev.Lease.ID] = ev.Position, granted
			}
			w.quiet()
		},
	},
	{
		ID: "E113", Name: "the latest state of each resource", Wants: latestOnly,
		Says: "Given held and released resources, when a watch is opened where not every event is kept, then it first tells the present owners; then it tells the latest state of each resource, though not every step.",
		Run: func(p *probe) {
			held := p.acquire(p.claim("ann", "held"))
			w := p.watch(p.Peer, tenure.Filter{})
			w.until("the present owner", func(ev tenure.Event) bool { return ev.Lease.ID == held.ID && ev.Lease.State == tenure.StateActive })
			p.release(held)
			w.until("its end", func(ev tenure.Event) bool { return ev.Lease.Resource == at("held") && !ev.Lease.State.Live() })
			for range 5 {
				p.release(p.acquire(p.claim("ann", "held")))
			}
			next := p.acquire(p.claim("bob", "held"))
			w.until("its latest owner", func(ev tenure.Event) bool { return ev.Lease.Holder == "bob" && ev.Lease.ID == next.ID })
		},
	},
	{
		ID: "E114", Name: "a watch ends with its context",
		Says: "Given a watch, when its context ends, then it yields an error that wraps the cause, and nothing after it; when its reader stops, it just ends.",
		Run: func(p *probe) {
			cause := errors.New("enough")
			w := p.watch(p.Engine, tenure.Filter{})
			w.end(cause)
			for {
				ev, open := <-w.events
				if !open {
					p.Fatal("the watch ended without an error")
				}
				if ev.err == nil {
					continue
				}
				if !errors.Is(ev.err, cause) {
					p.Errorf("%v does not wrap the cause", ev.err)
				}
				break
			}
			if ev, open := <-w.events; open {
				p.Errorf("after its end it yields %v, %v", ev.Kind, ev.err)
			}
			for ev, err := range p.Engine.Watch(p.ctx, tenure.Filter{}) {
				if err != nil || ev.Kind != tenure.EventWatching {
					p.Errorf("%v, %v", ev.Kind, err)
				}
				break
			}
		},
	},
}

// told is an event that is expected.
type told struct {
	kind  tenure.EventKind
	lease tenure.Lease
}

// watcher collects what a watch yields.
type watcher struct {
	p      *probe
	end    context.CancelCauseFunc
	stands tenure.Position
	events chan seen // closed when the sequence has ended
}

type seen struct {
	tenure.Event
	err  error
	when time.Time
}

// watch opens a watch and returns when it stands.
func (p *probe) watch(e tenure.Engine, f tenure.Filter) *watcher {
	p.Helper()
	w := p.stream(e, f)
	ev := await(p, "a watch stands", w.events)
	if ev.err != nil || ev.Kind != tenure.EventWatching || ev.Lease.ID != (tenure.LeaseID{}) {
		p.Fatalf("a watch begins with %v of %v, %v", ev.Kind, ev.Lease.ID, ev.err)
	}
	w.stands = ev.Position
	return w
}

// stream opens a watch.
func (p *probe) stream(e tenure.Engine, f tenure.Filter) *watcher {
	ctx, end := context.WithCancelCause(p.ctx)
	w := &watcher{p: p, end: end, events: make(chan seen, 1<<12)}
	p.Cleanup(func() { end(nil) })
	go func() {
		defer close(w.events)
		for ev, err := range e.Watch(ctx, f) {
			w.events <- seen{Event: ev, err: err, when: time.Now()}
		}
	}()
	return w
}

// next is the next event, and when it came.
func (w *watcher) next() (tenure.Event, time.Time) {
	w.p.Helper()
	ev := await(w.p, "the next event", w.events)
	if ev.err != nil || ev.Kind == 0 {
		w.p.Fatalf("the watch has ended: %v", ev.err)
	}
	return ev.Event, ev.when
}

// expect is the next event, which has to be this one.
func (w *watcher) expect(k tenure.EventKind, id tenure.LeaseID) (tenure.Event, time.Time) {
	w.p.Helper()
	ev, when := w.next()
	if ev.Kind != k || ev.Lease.ID != id {
		w.p.Fatalf("told %v of %v, want %v of %v", ev.Kind, ev.Lease.ID, k, id)
	}
	return ev, when
}

// until reads on until an event is the one.
func (w *watcher) until(what string, is func(tenure.Event) bool) {
	w.p.Helper()
	for {
		ev := await(w.p, what, w.events)
		if ev.err != nil || ev.Kind == 0 {
			w.p.Fatalf("%s: the watch has ended: %v", what, ev.err)
		}
		if is(ev.Event) {
			return
		}
	}
}

// follows asserts that exactly these events come next.
func (w *watcher) follows(all []tenure.Event) {
	w.p.Helper()
	for _, want := range all {
		if ev, _ := w.next(); ev.Kind != want.Kind || ev.Position != want.Position || !alike(ev.Lease, want.Lease) {
			w.p.Fatalf("told %v at %v, want %v at %v", ev.Kind, ev.Position, want.Kind, want.Position)
		}
	}
}

// quiet asserts that nothing more is told.
func (w *watcher) quiet() {
	w.p.Helper()
	w.p.settle()
	select {
	case ev := <-w.events:
		w.p.Fatalf("told %v of %v as well, %v", ev.Kind, ev.Lease.Resources, ev.err)
	default:
	}
}

// history makes 2n changes and returns their events.
func (p *probe) history(n int) []tenure.Event {
	p.Helper()
	w := p.watch(p.Engine, tenure.Filter{})
	defer w.end(nil)
	var all []tenure.Event
	for i := range n {
		p.release(p.acquire(p.claim("ann", fmt.Sprint("history-", i%3))))
		for range 2 {
			ev, _ := w.next()
			all = append(all, ev)
		}
	}
	return all
}
