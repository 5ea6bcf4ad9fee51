package kernel

import (
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// State is everything that an ordered history has decided. It is not safe for
// concurrent use.
//
// It holds, besides the leases, what their answers depend on: the limits
// (changed by the command configure only, so that a replay judges as the live
// engine did), the retirement floor, the ending of forgotten resources, and the
// position reached.
type State struct {
	shard  uint16
	limits tenure.Limits
	last   At
	digest Digest

	history   history
	ops       map[[16]byte]*Lease // by the operation that created it
	resources map[tenure.Resource]tenancy
	absent    tenure.Ending // the prior ending of a resource without record
	live      int

	rows  []Row      // scratch of the step
	names []Resource // what rows point to
}

// Slot is logical time: milliseconds of monotonic progress, stamped by whoever
// orders commands. It may stand still, and never goes back.
type Slot uint64

// MaxSlot is the last slot: 63 bits, so that it fits a signed column.
const MaxSlot Slot = 1<<63 - 1

// At is the position of a command: its LSN, its slot, and the wall clock in
// Unix milliseconds, which is kept for people and decides nothing.
type At struct {
	LSN  tenure.LSN
	Slot Slot
	Wall int64
}

// New is the state before the first command. The limits have to be valid
// ([tenure.Limits.Validate]); others panic.
func New(shard uint16, limits tenure.Limits) *State {
	if err := limits.Validate(); err != nil {
		panic("kernel: " + err.Error())
	}
	return &State{
		shard:     shard,
		limits:    limits,
		ops:       map[[16]byte]*Lease{},
		resources: map[tenure.Resource]tenancy{},
		absent:    tenure.EndingNever,
	}
}

// Step judges c at the position at, and applies it if it changes anything. It
// returns the rows that changed, the lease's first, then its resources in
// request order. A refusal, a replay and a no-op change nothing: they return no
// rows, and their position stays free for the next command.
//
// The position must be ahead of the last one that was used: an LSN above, a
// slot not below. Anything else is a broken invariant of the caller, and panics.
func (s *State) Step(at At, c *Command) (Outcome, []Row) {
	v := s.judge(at, c)
	s.resetRows()
	if !v.code.effective() {
		return s.outcome(v), nil
	}
	v.lease = s.apply(at, c, v)
	s.last = at
	s.finishRows(v.code)
	return s.outcome(v), s.rows
}

// Judge is what Step would answer; it changes nothing. The lease of a grant
// shares its resources and meta with c.
func (s *State) Judge(at At, c *Command) Outcome {
	v := s.judge(at, c)
	o := s.outcome(v)
	if !v.code.effective() {
		return o
	}
	o.AsOf = at.LSN
	switch {
	case v.code == Granted:
		o.Lease = newLease(s.shard, at, c, v.prior)
	case v.lease != nil:
		o.Lease.advance(at, c, v.code)
	}
	return o
}

// Lookup finds a lease that is kept. Without one it says why: [NotFound], or
// [Retired] where the id is so old that it may have been one.
func (s *State) Lookup(id tenure.LeaseID) (*Lease, Code) {
	if id.Shard != s.shard || id.IsZero() {
		return nil, NotFound
	}
	if l := s.history.get(id.LSN); l != nil {
		return l, 0
	}
	if id.LSN <= s.history.floor {
		return nil, Retired
	}
	return nil, NotFound
}

// Owner is the live lease of r, or nil if r is available.
func (s *State) Owner(r tenure.Resource) *Lease {
	if t, ok := s.resources[r]; ok && t.last.State.Live() {
		return t.last
	}
	return nil
}

// Resource is the record of r; known is false where none is kept, and the
// ending is then the most cautious of all that were dropped: [tenure.EndingNever]
// until the first, and unknown for one that had been taken.
func (s *State) Resource(r tenure.Resource) (rec Resource, known bool) {
	t, ok := s.resources[r]
	if !ok {
		return Resource{Name: r, Ending: s.absent}, false
	}
	return t.record(r), true
}

// Leases yields the kept leases with an ID above after, in order of ID, until
// yield says false. It costs O(log n) and what it visits.
func (s *State) Leases(after tenure.LSN, yield func(*Lease) bool) {
	s.history.each(after, yield)
}

// Shard is the shard whose leases these are.
func (s *State) Shard() uint16 { return s.shard }

// Last is the position of the last command that changed something.
func (s *State) Last() At { return s.last }

// Floor is the retirement floor: the highest LSN of a grant that was retired.
func (s *State) Floor() tenure.LSN { return s.history.floor }

// Live is the number of live leases.
func (s *State) Live() int { return s.live }

// Ended is the number of leases kept as history.
func (s *State) Ended() int { return s.history.ended() }

// Limits are the limits in force.
func (s *State) Limits() tenure.Limits { return s.limits }

// Digest is the rolling digest over every step so far.
func (s *State) Digest() Digest { return s.digest }

// Due reports whether a tick at slot would retire something.
func (s *State) Due(slot Slot) bool {
	l := s.history.oldest()
	if l == nil {
		return false
	}
	if s.history.ended() > s.limits.History {
		return true
	}
	return slot >= l.Ended.Slot && slot-l.Ended.Slot >= Slot(s.limits.HistoryAge/time.Millisecond)
}

// mustBeAhead asserts the caller's side of T9 and of the order of slots.
func (s *State) mustBeAhead(at At) {
	if at.LSN <= s.last.LSN {
		panic(fmt.Sprintf("kernel: LSN %d was stamped after %d: positions only grow", at.LSN, s.last.LSN))
	}
	if at.Slot < s.last.Slot {
		panic(fmt.Sprintf("kernel: slot %d was stamped after %d: slots never go back", at.Slot, s.last.Slot))
	}
}
