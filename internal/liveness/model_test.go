package liveness_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

// record is what the naive model knows of one lease.
type record struct {
	liveness.Entry
	until     time.Duration // deadline, or end of what the last beat allows
	pardon    time.Duration // condemned when a restart came: what it adds once withdrawn
	promised  time.Duration // what a yes to its holder allows: rule 6
	condemned bool
	out       []liveness.Proposal // on their way
}

func (r *record) due() time.Duration {
	switch {
	case r.Phase == liveness.Reserved:
		return r.until
	case r.TTL <= 0:
		return liveness.Never
	case r.Phase == liveness.Active:
		return r.until
	}
	return r.until + r.Grace
}

// model is a table as one would write it without a wheel: a list, looked
// through from end to end.
type model struct {
	clk    clock.Manual
	table  *liveness.Table
	leases []*record
	last   int
	old    []liveness.Proposal // whose fate was settled before
}

var (
	ttls   = []time.Duration{1, time.Millisecond, 10 * time.Millisecond, 64*time.Millisecond + 1, 100 * time.Millisecond, time.Second, 15 * time.Second, 24 * time.Hour, tenure.NoTTL}
	graces = []time.Duration{tenure.NoGrace, 0, 1, 10 * time.Millisecond, 2 * time.Second, time.Hour}
	steps  = []time.Duration{0, 1, time.Millisecond - 1, time.Millisecond, 7 * time.Millisecond, 64 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, time.Minute, 25 * time.Hour}
)

func (m *model) pick(t *rapid.T) *record {
	if len(m.leases) == 0 {
		t.Skip("no lease")
	}
	return rapid.SampledFrom(m.leases).Draw(t, "lease")
}

func (m *model) forget(r *record) {
	m.leases = slices.DeleteFunc(m.leases, func(o *record) bool { return o == r })
}

func (m *model) track(t *rapid.T) {
	if len(m.leases) > 12 {
		t.Skip("enough")
	}
	m.last++
	r := &record{Entry: liveness.Entry{
		Lease: id(m.last), Epoch: tenure.Epoch(rapid.IntRange(1, 3).Draw(t, "epoch")),
		Phase: liveness.Phase(rapid.SampledFrom([]int{1, 2, 2, 2, 3}).Draw(t, "phase")),
		TTL:   rapid.SampledFrom(ttls).Draw(t, "ttl"), Grace: rapid.SampledFrom(graces).Draw(t, "grace"),
		In: rapid.SampledFrom(steps).Draw(t, "in"),
	}}
	m.table.Track(r.Entry)
	r.Grace = max(r.Grace, 0)
	if r.until = m.clk.Now() + r.TTL; r.Phase == liveness.Reserved {
		r.until = m.clk.Now() + r.In
	}
	m.leases = append(m.leases, r)
}

func (m *model) trackAgain(t *rapid.T) {
	r := m.pick(t)
	e := r.Entry
	e.Phase = liveness.Phase(rapid.IntRange(1, 3).Draw(t, "phase"))
	m.table.Track(e)
	switch {
	case e.Phase <= r.Phase:
	case e.Phase == liveness.Active:
		r.Phase, r.condemned, r.out = liveness.Active, false, nil
		r.until = m.clk.Now() + r.TTL
	default:
		m.withdrawn(r, e.Epoch)
	}
}

func (m *model) withdrawn(r *record, epoch tenure.Epoch) {
	if r.Phase == liveness.Revoking {
		return
	}
	if r.Phase == liveness.Reserved {
		r.until = m.clk.Now() + max(r.TTL, 0)
	}
	both := len(r.out) == 2
	r.Phase, r.Epoch, r.condemned = liveness.Revoking, epoch, false
	r.until, r.pardon = max(r.until, r.pardon, m.clk.Now()), 0
	if r.out = r.out[:0]; both {
		r.out = append(r.out, liveness.Proposal{Kind: liveness.Reclaim, Lease: r.Lease, Epoch: epoch})
	}
}

func (m *model) withdraw(t *rapid.T) {
	r := m.pick(t)
	m.table.Withdraw(r.Lease, r.Epoch+1)
	m.withdrawn(r, r.Epoch+1)
}

func (m *model) renew(t *rapid.T) {
	var refs []tenure.Ref
	var want []error
	for range rapid.IntRange(1, 5).Draw(t, "refs") {
		r := m.pick(t)
		epoch := r.Epoch + tenure.Epoch(rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "off"))
		refs = append(refs, tenure.Ref{Token: tenure.Token{Lease: r.Lease, Epoch: epoch}})
		if epoch != r.Epoch || r.condemned || r.Phase == liveness.Revoking {
			want = append(want, tenure.ErrStale)
			continue
		}
		want = append(want, nil)
		if r.Phase == liveness.Active {
			r.until = max(r.until, m.clk.Now()+r.TTL)
			r.promised = m.clk.Now() + r.TTL
		}
	}
	each := make([]error, len(refs))
	m.table.Renew(refs, each)
	for i := range each {
		if !errors.Is(each[i], want[i]) {
			t.Fatalf("at %v beat of %v: %v, want %v", m.clk.Now(), refs[i].Token, each[i], want[i])
		}
	}
}

func (m *model) reap(t *rapid.T) {
	most := rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "most")
	now := m.clk.Now()
	got := m.table.Due(most, nil)
	if len(got) > most {
		t.Fatalf("%d proposals, at most %d were asked for", len(got), most)
	}
	for i := 0; i < len(got); i++ {
		p := got[i]
		at := slices.IndexFunc(m.leases, func(r *record) bool { return r.Lease == p.Lease })
		if at < 0 {
			t.Fatalf("at %v %v is proposed of a lease that is gone", now, p)
		}
		r := m.leases[at]
		kind := map[liveness.Phase]liveness.Kind{liveness.Reserved: liveness.Expire, liveness.Active: liveness.Lapse, liveness.Revoking: liveness.Reclaim}[r.Phase]
		allowed := r.promised
		if p.Kind == liveness.Reclaim {
			allowed += r.Grace
		}
		if p.Kind != kind || p.Epoch != r.Epoch || len(r.out) > 0 || now < r.due() || now < allowed {
			t.Fatalf("at %v %v is proposed of %+v", now, p, *r)
		}
		r.condemned = p.Kind != liveness.Reclaim
		r.out = append(r.out, p)
		if p.Kind != liveness.Lapse || r.Grace > 0 || i+1 == most {
			continue
		}
		both := liveness.Proposal{Kind: liveness.Reclaim, Lease: p.Lease, Epoch: p.Epoch + 1}
		if i+1 == len(got) && most-len(got) == 0 {
			continue
		}
		if i++; i == len(got) || got[i] != both {
			t.Fatalf("at %v %v is not followed by %v: %v", now, p, both, got)
		}
		r.out = append(r.out, both)
	}
	for _, r := range m.leases {
		if len(got) < most && len(r.out) == 0 && r.due() <= now-liveness.Tick {
			t.Fatalf("at %v %+v is due and was not proposed", now, *r)
		}
	}
}

// settle says what became of a lease's proposals.
func (m *model) settle(t *rapid.T) {
	var some []*record
	for _, r := range m.leases {
		if len(r.out) > 0 {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("nothing is on its way")
	}
	r := rapid.SampledFrom(some).Draw(t, "lease")
	ps := slices.Clone(r.out)
	m.old = append(m.old, ps...)
	switch rapid.SampledFrom([]string{"took", "in vain", "returned"}).Draw(t, "fate") {
	case "took":
		switch ps[0].Kind {
		case liveness.Lapse:
			m.table.Withdraw(r.Lease, r.Epoch+1)
			m.withdrawn(r, r.Epoch+1)
		default:
			m.table.Forget(r.Lease)
			m.forget(r)
		}
		m.table.Settle(ps[0], true)
	case "in vain":
		m.table.Settle(ps[0], false)
		if ps[0].Kind == liveness.Expire {
			r.out, r.until = nil, m.clk.Now()+time.Second
		} else {
			m.forget(r)
		}
	case "returned":
		m.table.Return(ps)
		at := m.clk.Now() + 100*time.Millisecond
		if r.out = nil; r.Phase == liveness.Revoking {
			r.until = max(r.until, at-r.Grace) // a restart in between gave it more
		} else {
			r.until = at
		}
	}
}

// late settles, or returns, a proposal once more; nothing may come of it.
func (m *model) late(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("nothing was settled")
	}
	p := rapid.SampledFrom(m.old).Draw(t, "old")
	for _, r := range m.leases {
		if slices.Contains(r.out, p) {
			t.Skip("was proposed again, and is on its way")
		}
	}
	if rapid.Bool().Draw(t, "returned") {
		m.table.Return([]liveness.Proposal{p, p})
	} else {
		m.table.Settle(p, false)
	}
}

func (m *model) restart() {
	m.table.Restart()
	for _, r := range m.leases {
		full := m.clk.Now() + r.TTL
		switch {
		case r.Phase == liveness.Reserved:
		case r.condemned:
			r.pardon = full
		default:
			r.until = max(r.until, full)
		}
	}
}

func (m *model) check(t *rapid.T) {
	now := m.clk.Now()
	var soonest time.Duration = liveness.Never
	var reserved, activeLeases, revoking, condemned int
	for _, r := range m.leases {
		expires, free, ok := m.table.Left(r.Lease)
		wantExpires, wantFree := max(r.due()-now, 0), max(r.due()-now, 0)
		switch {
		case r.Phase == liveness.Revoking:
			wantExpires = 0
		case r.Phase == liveness.Active && r.TTL > 0:
			wantFree = max(r.until+r.Grace-now, 0)
		}
		if r.condemned && r.Phase == liveness.Active {
			wantExpires = 0
		}
		if r.due() == liveness.Never && r.Phase != liveness.Reserved {
			wantFree = liveness.Never
			if r.Phase == liveness.Active {
				wantExpires = liveness.Never
			}
		}
		if !ok || expires != wantExpires || free != wantFree {
			t.Fatalf("at %v %+v expires in %v and is free in %v, want %v and %v", now, *r, expires, free, wantExpires, wantFree)
		}
		if len(r.out) == 0 {
			soonest = min(soonest, r.due())
		}
		reserved += btoi(r.Phase == liveness.Reserved)
		activeLeases += btoi(r.Phase == liveness.Active)
		revoking += btoi(r.Phase == liveness.Revoking)
		condemned += btoi(r.condemned)
	}
	if in, ok := m.table.Next(); soonest < liveness.Never && (!ok || now+in > max(soonest, now)+liveness.Tick) {
		t.Fatalf("at %v something is due at %v, and next is in %v, %v", now, soonest, in, ok)
	}
	if s := m.table.Stats(); s.Reserved != reserved || s.Active != activeLeases || s.Revoking != revoking || s.Condemned != condemned {
		t.Fatalf("%+v, want %d reserved, %d active, %d revoking, %d condemned", s, reserved, activeLeases, revoking, condemned)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Whatever happens in whatever order, the table proposes what the list would:
// never before its time, and a tick after it at the latest. proves: T6, T14
func TestT6_TheTableAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{}
		m.table = liveness.New(&m.clk, liveness.Config{})
		actions := map[string]func(*rapid.T){
			"track":       m.track,
			"track again": m.trackAgain,
			"withdraw":    m.withdraw,
			"renew":       m.renew,
			"reap":        m.reap,
			"settle":      m.settle,
			"settle soon": m.settle,
			"late":        m.late,
			"pass":        func(t *rapid.T) { m.clk.Advance(rapid.SampledFrom(steps).Draw(t, "step")) },
			"pass to due": m.passToDue,
			"meet":        func(t *rapid.T) { m.passToDue(t); m.reap(t) },
			"restart":     func(*rapid.T) { m.restart() },
			"forget": func(t *rapid.T) {
				r := m.pick(t)
				m.table.Forget(r.Lease)
				m.forget(r)
			},
			"": m.check,
		}
		for range 8 { // long histories, over a crowd
			for len(m.leases) < 4 {
				m.track(t)
			}
			t.Repeat(actions)
		}
	})
}

// passToDue goes to the moment at which something is due, or just beside it.
func (m *model) passToDue(t *rapid.T) {
	r := m.pick(t)
	to := r.due()
	if to == liveness.Never {
		t.Skip("never due")
	}
	to += rapid.SampledFrom([]time.Duration{-1, 0, 1, liveness.Tick}).Draw(t, "beside")
	if to < m.clk.Now() {
		t.Skip("over")
	}
	m.clk.Set(to)
}
