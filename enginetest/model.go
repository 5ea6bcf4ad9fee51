package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// model plays one history twice: on an engine, and on the law.
type model struct {
	p     *probe
	law   *kernel.State
	slot  kernel.Slot
	begun time.Time
	timed bool            // what time does is known: nobody judges late
	start tenure.Position // before the first command

	leases  []*twin
	seen    [2]tenure.LSN // the highest LSN in an answer: the engine's, the law's
	changes []told        // what the law did, in order; lease IDs are the law's
}

// twin is a lease on both sides.
type twin struct {
	claim  tenure.Claim
	seen   tenure.LSN // of the claim's operation, on the law's side
	engine tenure.LeaseID
	law    tenure.LeaseID
	until  kernel.Slot // what its last beat allows
}

func newModel(p *probe, timed bool) *model {
	limits := p.limits
	if !p.caps.History { // no tables, no limits
		limits = tenure.DefaultLimits()
	}
	m := &model{p: p, law: kernel.New(0, limits), timed: timed && !p.caps.JudgesLate, begun: time.Now()}
	if p.caps.EveryEvent {
		w := p.watch(p.Engine, tenure.Filter{})
		m.start = w.stands
		w.end(nil)
	}
	return m
}

// step does one thing on both sides and compares the answers.
func (m *model) step(s step) error {
	switch s.what {
	case "claim":
		return m.claim(s)
	case "look":
		return m.look(s.keys[0])
	case "pass":
		if m.timed {
			return m.pass(s.pass)
		}
		return nil
	case "restart":
		if m.p.Subject.Restart != nil {
			m.p.restart()
		}
		return nil
	}
	if len(m.leases) == 0 {
		return nil
	}
	w := m.leases[max(len(m.leases)-1-s.lease, 0)]
	switch s.what {
	case "repeat":
		c := w.claim
		if s.other {
			c.Meta = []byte("another claim")
		}
		return m.acquire(c, w.seen)
	case "renew":
		return m.renew(w, s)
	}
	return m.command(w, s)
}

func (m *model) claim(s step) error {
	keys := s.keys
	if !m.p.caps.Bundles {
		keys = keys[:1]
	}
	c := m.p.claim(s.holder, keys...)
	c.Op.Seen = m.seen[0]
	if m.timed {
		c = m.p.timed(s.holder, keys...)
		c.Op.Seen = m.seen[0]
	}
	if s.reserve && m.p.caps.Reserve && !m.p.caps.JudgesLate {
		c.Reserve = m.p.patience
		if m.timed {
			c.Reserve = m.p.reserve
		}
	}
	return m.acquire(c, m.seen[1])
}

// acquire claims on both sides. The law's operation has seen what the law had
// said by then.
func (m *model) acquire(c tenure.Claim, seen tenure.LSN) error {
	cmd := kernel.FromClaim(c.Resolve())
	cmd.Seen = seen
	out := m.apply(&cmd)
	l, err := m.p.Engine.Acquire(m.p.ctx, c)
	if err == nil && out.Code == kernel.Granted {
		m.leases = append(m.leases, &twin{claim: c, seen: seen, engine: l.ID, law: out.Lease.ID})
		m.beat(m.leases[len(m.leases)-1])
	}
	return m.agree(&cmd, &out, l, err)
}

// command is a holder's or an operator's.
func (m *model) command(w *twin, s step) error {
	holder, epoch := w.claim.Holder, tenure.Epoch(1)
	if s.other {
		holder = "eve"
	}
	if l, _ := m.law.Lookup(w.law); l != nil && s.current {
		epoch = l.Epoch
	}
	make := func(id tenure.LeaseID) tenure.Command {
		r := tenure.Ref{Token: tenure.Token{Lease: id, Epoch: epoch}, Resource: w.claim.Resources[len(w.claim.Resources)-1]}
		switch s.what {
		case "release":
			return tenure.Release{Ref: r, Holder: holder}
		case "activate":
			return tenure.Activate{Ref: r, Holder: holder}
		case "revoke":
			return tenure.Revoke{Lease: id, Resource: r.Resource, Reason: "history"}
		}
		return tenure.Reclaim{Lease: id, Resource: r.Resource, HolderIsDead: true}
	}
	if s.what == "activate" && !m.p.caps.Reserve {
		return nil
	}
	cmd := kernel.FromCommand(make(w.law))
	out := m.apply(&cmd)
	l, err := m.p.Engine.Do(m.p.ctx, make(w.engine))
	if out.Code == kernel.Activated {
		m.beat(w)
	}
	return m.agree(&cmd, &out, l, err)
}

// renew compares with what the record says about a beat.
func (m *model) renew(w *twin, s step) error {
	l, code := m.law.Lookup(w.law)
	want, epoch := tenure.Code(0), tenure.Epoch(1)
	switch {
	case code == kernel.Retired || !l.State.Live():
		want = tenure.ErrEnded
	default:
		if s.current {
			epoch = l.Epoch
		}
		if !l.State.Held() || epoch != l.Epoch {
			want = tenure.ErrStale
		}
	}
	each, err := m.p.Engine.Renew(m.p.ctx, []tenure.Ref{{Token: tenure.Token{Lease: w.engine, Epoch: epoch}, Resource: w.claim.Resources[0]}})
	if err != nil || len(each) != 1 {
		return fmt.Errorf("renewal: %d answers, %w", len(each), err)
	}
	if want == 0 && l.State == tenure.StateActive {
		m.beat(w)
	}
	if code == kernel.Retired && tenure.CodeOf(each[0]) == tenure.ErrRetired {
		return nil // more than a beat has to be told
	}
	return m.sameCode(each[0], want)
}

// look compares who owns a resource.
func (m *model) look(key string) error {
	owner := m.law.Owner(at(key))
	l, err := m.p.Engine.Lookup(m.p.ctx, tenure.Query{Resource: at(key)})
	if owner == nil {
		return m.sameCode(err, tenure.ErrNotFound)
	}
	if err != nil {
		return err
	}
	return m.sameLease(l, owner)
}

// apply steps the law, and lets it forget what is due.
func (m *model) apply(c *kernel.Command) kernel.Outcome {
	at := kernel.At{LSN: m.law.Last().LSN + 1, Slot: m.slot}
	out, _ := m.law.Step(at, c)
	if out.Event != 0 {
		m.changes = append(m.changes, told{kind: out.Event, lease: out.Lease.Public(at.LSN, false)})
	}
	for m.law.Due(m.slot) {
		m.law.Step(kernel.At{LSN: m.law.Last().LSN + 1, Slot: m.slot}, &kernel.Command{Kind: kernel.KindTick})
	}
	return out
}

// beat notes that the holder was heard now.
func (m *model) beat(w *twin) {
	w.until = m.slot + kernel.Slot(max(w.claim.TTL, 0)/time.Millisecond)
}

// pass lets time pass, so far that nothing is left open: what is due was due
// long enough ago to have happened, or is not due yet.
func (m *model) pass(d time.Duration) error {
	m.p.Advance(d)
	for {
		m.slot = kernel.Slot(time.Since(m.begun) / time.Millisecond)
		due, open := m.due()
		if open {
			m.p.Advance(m.p.slack)
			continue
		}
		if len(due) == 0 {
			return nil
		}
		for _, c := range due {
			m.apply(&c)
		}
	}
}

// due lists what time has done since, and whether something may or may not
// have happened yet.
func (m *model) due() (due []kernel.Command, open bool) {
	for _, w := range m.leases {
		l, _ := m.law.Lookup(w.law)
		if l == nil {
			continue
		}
		var c kernel.Command
		var when kernel.Slot
		switch {
		case l.State == tenure.StateReserved:
			c, when = kernel.Command{Kind: kernel.KindExpire, Lease: l.ID, Deadline: l.Deadline()}, l.Deadline()
		case l.TTL == 0:
			continue
		case l.State == tenure.StateActive:
			c, when = kernel.Command{Kind: kernel.KindLapse, Lease: l.ID, Epoch: l.Epoch}, w.until
		case l.State == tenure.StateRevoking:
			c, when = kernel.Command{Kind: kernel.KindReclaim, Lease: l.ID}, w.until+kernel.Slot(l.Grace)
		default:
			continue
		}
		slack := kernel.Slot(2 * m.p.slack / time.Millisecond)
		open = open || when <= m.slot && m.slot < when+slack
		if when <= m.slot {
			due = append(due, c)
		}
	}
	return due, open
}

// agree compares two answers to one command.
func (m *model) agree(c *kernel.Command, out *kernel.Outcome, l tenure.Lease, err error) error {
	if !m.p.caps.History && !out.Changed() && !out.Lease.ID.IsZero() && !out.Lease.State.Live() && l.Token.IsZero() {
		return nil // the lease is over: what is remembered of it is the engine's affair
	}
	refusal := out.Err(c)
	if refusal != nil {
		if err == nil {
			return fmt.Errorf("executed (%v), the law says %w", l.State, refusal)
		}
		if out.Code == kernel.Held {
			return m.sameHeld(err, out)
		}
		return m.sameCode(err, tenure.CodeOf(refusal))
	}
	if err != nil {
		return fmt.Errorf("%w, the law says %v", err, out.Code)
	}
	m.seen[0], m.seen[1] = max(m.seen[0], l.LSN), max(m.seen[1], out.Lease.LSN)
	if l.Replayed != out.Replayed() {
		return fmt.Errorf("replayed %v, the law says %v", l.Replayed, out.Code)
	}
	return m.sameLease(l, &out.Lease)
}

func (m *model) sameHeld(err error, out *kernel.Outcome) error {
	var got *tenure.Error
	if !errors.As(err, &got) || got.Code != tenure.ErrHeld {
		return fmt.Errorf("answered %v, the law says %v", err, tenure.ErrHeld)
	}
	if got.Resource != out.Resource || got.Holder != out.Lease.Holder || m.twin(out.Lease.ID) != got.Lease {
		return fmt.Errorf("held: %v, lease %v of %q; the law says %v of %q", got.Resource, got.Lease, got.Holder, out.Resource, out.Lease.Holder)
	}
	return nil
}

// sameCode compares refusals; what is over may be over in other words where
// there is no history.
func (m *model) sameCode(err error, want tenure.Code) error {
	got := tenure.CodeOf(err)
	gone := []tenure.Code{tenure.ErrStale, tenure.ErrEnded, tenure.ErrNotFound, tenure.ErrRetired}
	if got == want || !m.p.caps.History && slices.Contains(gone, want) && slices.Contains(gone, got) {
		return nil
	}
	return fmt.Errorf("answered %v, the law says %v", err, want)
}

// twin is the engine's name of a lease of the law.
func (m *model) twin(id tenure.LeaseID) tenure.LeaseID {
	i := slices.IndexFunc(m.leases, func(w *twin) bool { return w.law == id })
	if i < 0 {
		return tenure.LeaseID{}
	}
	return m.leases[i].engine
}

// sameLease compares a lease on both sides, but for positions and clocks.
func (m *model) sameLease(l tenure.Lease, want *kernel.Lease) error {
	w := want.Public(0, false)
	prior := l.Prior == w.Prior || !m.p.caps.History && l.Prior < w.Prior
	if l.ID != m.twin(w.ID) || l.State != w.State || l.Epoch != w.Epoch || l.Holder != w.Holder || l.TTL != w.TTL || l.Grace != w.Grace ||
		!prior || l.Result != w.Result || l.Token.IsZero() != w.Token.IsZero() || !slices.Equal(l.Resources, w.Resources) || string(l.Meta) != string(w.Meta) {
		return fmt.Errorf("lease %+v, the law says %+v", l, w)
	}
	return nil
}

// compare asserts that both sides have come to the same state, by the same way.
func (m *model) compare() error {
	var want []*kernel.Lease
	m.law.Leases(0, func(l *kernel.Lease) bool {
		if m.p.caps.History || l.State.Live() {
			want = append(want, l)
		}
		return true
	})
	got := m.p.list(tenure.Filter{Ended: m.p.caps.History})
	if !m.p.caps.History { // then one record a resource, perhaps in the order of names
		slices.SortFunc(got, func(a, b tenure.Lease) int { return cmp.Compare(a.Resource, b.Resource) })
		slices.SortFunc(want, func(a, b *kernel.Lease) int { return cmp.Compare(a.Resources[0], b.Resources[0]) })
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d leases are listed, the law keeps %d", len(got), len(want))
	}
	for i := range want {
		if err := m.sameLease(got[i], want[i]); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	if m.timed || !m.p.caps.EveryEvent {
		return nil // what time does in one moment has no order
	}
	return m.compareEvents()
}

func (m *model) compareEvents() error {
	w := m.p.watch(m.p.Engine, tenure.Filter{From: m.start})
	defer w.end(nil)
	for i, want := range m.changes {
		ev, _ := w.next()
		if ev.Kind != want.kind || ev.Lease.ID != m.twin(want.lease.ID) || ev.Lease.State != want.lease.State || ev.Lease.Epoch != want.lease.Epoch {
			return fmt.Errorf("event %d is %v of %v, the law says %v of %v", i+1, ev.Kind, ev.Lease.ID, want.kind, m.twin(want.lease.ID))
		}
	}
	return nil
}
