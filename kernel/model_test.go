package kernel

import (
	"slices"
	"time"

	"github.com/tenurehq/tenure"
)

// model is the law once more, as plainly as it can be said: a list of every
// lease that was ever granted, searched from one end to the other. It shares
// the vocabulary's types with the kernel, and nothing else.
type model struct {
	limits  tenure.Limits
	all     []*modelLease
	endings map[tenure.Resource]tenure.Ending // of resources that a kept lease names
	absent  tenure.Ending
}

type modelLease struct {
	lsn, changed, endedAt tenure.LSN
	claim                 Command
	state                 tenure.State
	epoch                 tenure.Epoch
	granted, ended        Slot
	retired               bool
	lastHolder            Kind // which always carried epoch 1
	result                tenure.Result
	prior                 tenure.Ending
}

// modelAnswer is what the model has an opinion on.
type modelAnswer struct {
	code  Code
	lease *modelLease
	busy  tenure.Resource
	gone  []tenure.LSN // retired by a tick, in order
}

func newModel(l tenure.Limits) *model {
	return &model{limits: l, endings: map[tenure.Resource]tenure.Ending{}, absent: tenure.EndingNever}
}

func (m *model) find(id tenure.LeaseID) *modelLease {
	for _, l := range m.all {
		if l.lsn == id.LSN && id.Shard == 0 && !l.retired {
			return l
		}
	}
	return nil
}

func (m *model) floor() (floor tenure.LSN) {
	for _, l := range m.all {
		if l.retired {
			floor = max(floor, l.lsn)
		}
	}
	return floor
}

func (m *model) live() (live []*modelLease) {
	for _, l := range m.all {
		if l.state.Live() {
			live = append(live, l)
		}
	}
	return live
}

func (m *model) owner(r tenure.Resource) *modelLease {
	for _, l := range m.live() {
		if slices.Contains(l.claim.Resources, r) {
			return l
		}
	}
	return nil
}

// history lists the kept ended leases in order of ending.
func (m *model) history() (ended []*modelLease) {
	for _, l := range m.all {
		if !l.state.Live() && !l.retired {
			ended = append(ended, l)
		}
	}
	slices.SortFunc(ended, func(a, b *modelLease) int { return int(a.endedAt) - int(b.endedAt) })
	return ended
}

func (m *model) step(at At, c *Command) modelAnswer {
	switch c.Kind {
	case KindAcquire:
		return m.acquire(at, c)
	case KindTick:
		return m.tick(at)
	case KindConfigure:
		if c.Limits == m.limits {
			return modelAnswer{code: NoOp}
		}
		m.limits = c.Limits
		return modelAnswer{code: Configured}
	}
	l := m.find(c.Lease)
	known := l != nil && (c.Resource == "" || slices.Contains(l.claim.Resources, c.Resource))
	if c.Kind == KindLapse || c.Kind == KindExpire {
		if !known {
			return modelAnswer{code: NoOp}
		}
		return m.internal(at, c, l)
	}
	if !known {
		code := NotFound
		if l == nil && c.Lease.Shard == 0 && c.Lease.LSN > 0 && c.Lease.LSN <= m.floor() {
			code = Retired
		}
		return modelAnswer{code: code}
	}
	if c.Kind == KindRevoke || c.Kind == KindReclaim {
		return m.operator(at, c, l)
	}
	return m.holder(at, c, l)
}

func (m *model) acquire(at At, c *Command) modelAnswer {
	for _, l := range m.all {
		if l.claim.Op != c.Op || l.retired {
			continue
		}
		was := l.claim
		same := was.Holder == c.Holder && was.TTL == c.TTL && was.Grace == c.Grace && was.Reserve == c.Reserve &&
			string(was.Meta) == string(c.Meta) && slices.Equal(was.Resources, c.Resources)
		if same {
			return modelAnswer{code: Replayed, lease: l}
		}
		return modelAnswer{code: Conflict, lease: l}
	}
	if c.Seen < m.floor() {
		return modelAnswer{code: Retired}
	}
	if code := m.malformed(c); code != 0 {
		return modelAnswer{code: code}
	}
	for _, r := range c.Resources {
		if l := m.owner(r); l != nil {
			return modelAnswer{code: Held, lease: l, busy: r}
		}
	}
	if len(m.live()) >= m.limits.Leases {
		return modelAnswer{code: Full}
	}
	l := &modelLease{lsn: at.LSN, changed: at.LSN, claim: *c, state: tenure.StateActive, epoch: 1, granted: at.Slot, prior: tenure.EndingNever}
	if c.Reserve > 0 {
		l.state = tenure.StateReserved
	}
	l.claim.Resources = slices.Clone(c.Resources)
	for _, r := range c.Resources {
		if _, ok := m.endings[r]; !ok {
			m.endings[r] = m.absent
		}
		l.prior = min(l.prior, m.endings[r])
	}
	m.all = append(m.all, l)
	return modelAnswer{code: Granted, lease: l}
}

func (m *model) malformed(c *Command) Code {
	seen := map[tenure.Resource]bool{}
	bad := len(c.Resources) == 0
	for _, r := range c.Resources {
		bad = bad || seen[r] || r == "malformed"
		seen[r] = true
	}
	switch {
	case len(c.Resources) > m.limits.Bundle:
		return BundleTooLarge
	case bad, c.Holder == "":
		return Invalid
	case c.TTL != 0 && (c.TTL < 100 || c.TTL > 86_400_000), c.Reserve != 0 && (c.Reserve < 10 || c.Reserve > 3_600_000):
		return TTLOutOfRange
	}
	return 0
}

func (m *model) holder(at At, c *Command, l *modelLease) modelAnswer {
	reply := func(code Code) modelAnswer { return modelAnswer{code: code, lease: l} }
	switch {
	case l.lastHolder == c.Kind && c.Epoch == 1:
		return reply(Replayed)
	case l.claim.Holder != c.Holder:
		return reply(HolderMismatch)
	case l.epoch != c.Epoch:
		return reply(Stale)
	case l.ended > 0 || !l.state.Live():
		return reply(Ended)
	case l.state == tenure.StateRevoking:
		return reply(InvalidState)
	case c.Kind == KindActivate && l.state == tenure.StateActive:
		return reply(InvalidState)
	case c.Kind == KindActivate && at.Slot >= l.granted+Slot(l.claim.Reserve):
		return reply(DeadlinePassed)
	}
	l.lastHolder, l.changed = c.Kind, at.LSN
	if c.Kind == KindActivate {
		l.state = tenure.StateActive
		return reply(Activated)
	}
	if l.state == tenure.StateActive {
		l.result = c.Result
		if l.result.Outcome == 0 {
			l.result.Outcome = tenure.OutcomeOK
		}
		m.leave(l, tenure.EndingClean)
	}
	m.end(at, l, tenure.StateReleased, 2)
	return reply(Released)
}

func (m *model) operator(at At, c *Command, l *modelLease) modelAnswer {
	revoke := c.Kind == KindRevoke
	switch l.state {
	case tenure.StateRevoked:
		return modelAnswer{code: Replayed, lease: l}
	case tenure.StateReleased, tenure.StateExpired:
		return modelAnswer{code: Ended, lease: l}
	case tenure.StateReserved:
		return modelAnswer{code: InvalidState, lease: l}
	case tenure.StateActive:
		if revoke {
			l.state, l.epoch, l.changed, l.result = tenure.StateRevoking, 2, at.LSN, tenure.Result{Outcome: tenure.OutcomeRevoked, Detail: c.Reason}
			return modelAnswer{code: Revoking, lease: l}
		}
		return modelAnswer{code: InvalidState, lease: l}
	}
	if revoke {
		return modelAnswer{code: Replayed, lease: l}
	}
	m.leave(l, tenure.EndingTaken)
	m.end(at, l, tenure.StateRevoked, 2)
	return modelAnswer{code: Reclaimed, lease: l}
}

func (m *model) internal(at At, c *Command, l *modelLease) modelAnswer {
	deadline := l.granted + Slot(l.claim.Reserve)
	switch {
	case c.Kind == KindLapse && l.state == tenure.StateActive && c.Epoch == l.epoch && l.claim.TTL > 0:
		l.state, l.epoch, l.changed, l.result = tenure.StateRevoking, 2, at.LSN, tenure.Result{Outcome: tenure.OutcomeLapsed}
		return modelAnswer{code: Revoking, lease: l}
	case c.Kind == KindExpire && l.state == tenure.StateReserved && c.Deadline == deadline && at.Slot >= deadline:
		m.end(at, l, tenure.StateExpired, 2)
		return modelAnswer{code: Expired, lease: l}
	}
	return modelAnswer{code: NoOp, lease: l}
}

func (m *model) leave(l *modelLease, e tenure.Ending) {
	for _, r := range l.claim.Resources {
		m.endings[r] = e
	}
}

func (m *model) end(at At, l *modelLease, state tenure.State, epoch tenure.Epoch) {
	l.state, l.epoch, l.changed, l.endedAt, l.ended = state, epoch, at.LSN, at.LSN, at.Slot
}

func (m *model) tick(at At) modelAnswer {
	answer := modelAnswer{code: NoOp}
	for {
		ended := m.history()
		age := Slot(m.limits.HistoryAge / time.Millisecond)
		if len(ended) == 0 || len(ended) <= m.limits.History && ended[0].ended+age > at.Slot {
			return answer
		}
		ended[0].retired = true
		answer.code, answer.gone = Ticked, append(answer.gone, ended[0].lsn)
		for _, r := range ended[0].claim.Resources {
			m.drop(r)
		}
	}
}

// drop forgets a resource that no kept lease names any more.
func (m *model) drop(r tenure.Resource) {
	for _, l := range m.all {
		if !l.retired && slices.Contains(l.claim.Resources, r) {
			return
		}
	}
	e := m.endings[r]
	if e == tenure.EndingTaken {
		e = tenure.EndingUnknown
	}
	m.absent = min(m.absent, e)
	delete(m.endings, r)
}
