package kernel

import (
	"fmt"

	"github.com/tenurehq/tenure"
)

// TickBatch is how many leases one tick retires at most, so that no step takes
// long.
const TickBatch = 4096

// scratchKept bounds the row buffer that is kept between steps.
const scratchKept = 4 * TickBatch

// apply does what was judged, and returns the lease concerned.
func (s *State) apply(at At, c *Command, v verdict) *Lease {
	switch v.code {
	case Granted:
		return s.grant(at, c, v.prior)
	case Ticked:
		s.retire(at)
	case Configured:
		s.limits = c.Limits
	default:
		s.change(at, c, v)
		return v.lease
	}
	return nil
}

func (s *State) grant(at At, c *Command, prior tenure.Ending) *Lease {
	l := new(Lease)
	*l = newLease(s.shard, at, c, prior)
	l.keep()
	s.history.add(l)
	s.ops[l.Op] = l
	s.live++
	s.rows = append(s.rows, Row{Lease: l})
	for _, r := range l.Resources {
		t, known := s.resources[r]
		if !known {
			t.ending = s.absent
		}
		if known && t.last.State.Live() {
			panic(fmt.Sprintf("kernel: %s is granted to %v while %v owns it (T1)", r, l.ID, t.last.ID))
		}
		t.last = l
		s.resources[r] = t
		s.touch(r, t, false)
	}
	return l
}

// change advances one lease, and lets its resources follow.
func (s *State) change(at At, c *Command, v verdict) {
	l := v.lease
	ending, tenured := ending(l, v.code)
	l.advance(at, c, v.code)
	s.rows = append(s.rows, Row{Lease: l})
	for _, r := range l.Resources {
		t := s.resources[r]
		if t.last != l {
			panic(fmt.Sprintf("kernel: %v is live, and %s does not point at it (T3)", l.ID, r))
		}
		if tenured {
			t.ending = ending
			s.resources[r] = t
		}
		s.touch(r, t, false)
	}
	if !l.State.Live() {
		s.live--
		s.history.end(l)
	}
}

// ending is how the resources of l are left behind by code. A reservation that
// was never activated leaves them as they were: its holder had no authority to
// do anything with them.
func ending(l *Lease, code Code) (e tenure.Ending, tenured bool) {
	switch {
	case code == Reclaimed:
		return tenure.EndingTaken, true
	case code == Released && l.State == tenure.StateActive:
		return tenure.EndingClean, true
	}
	return 0, false
}

// retire drops the oldest history that is due, and the resources that it was
// the last to own.
func (s *State) retire(at At) {
	for n := 0; n < TickBatch && s.Due(at.Slot); n++ {
		l := s.history.oldest()
		s.history.retire()
		delete(s.ops, l.Op)
		s.rows = append(s.rows, Row{Lease: l, Deleted: true})
		for _, r := range l.Resources {
			t := s.resources[r]
			if t.last != l {
				continue
			}
			delete(s.resources, r)
			s.absent = min(s.absent, forgotten(t.ending))
			s.touch(r, t, true)
		}
	}
}

// touch notes a resource's row; finishRows points it at the record.
func (s *State) touch(r tenure.Resource, t tenancy, deleted bool) {
	s.rows = append(s.rows, Row{Deleted: deleted})
	s.names = append(s.names, t.record(r))
}

func (s *State) resetRows() {
	if cap(s.rows) > scratchKept {
		s.rows, s.names = nil, nil
		return
	}
	clear(s.rows)
	clear(s.names)
	s.rows, s.names = s.rows[:0], s.names[:0]
}

// finishRows points the rows at their records, which no longer move, and rolls
// the digest over them.
func (s *State) finishRows(code Code) {
	s.digest.step(s.last, code)
	if code == Configured {
		s.digest.limits(&s.limits)
	}
	next := 0
	for i := range s.rows {
		row := &s.rows[i]
		if row.Lease != nil {
			s.digest.lease(row.Lease, code, row.Deleted)
			continue
		}
		row.Resource = &s.names[next]
		next++
		s.digest.resource(row.Resource, row.Deleted)
	}
}
