package journal

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// claim grants, refuses, or lets wait. A claim on a resource that an earlier
// claim waits for does not pass it, even if the resource is free.
func (s *sequencer) claim(r *request) {
	if r.drawn {
		r.cmd.Seen = s.asOf() // nobody can have executed it: it was drawn a moment ago
	}
	if wt := s.waiting.byOp[r.cmd.Op]; wt != nil {
		s.repeat(r, wt)
		return
	}
	wanted := s.waiting.wanted(r.cmd.Resources)
	if !wanted && !r.wait {
		out := s.execute(&r.cmd)
		s.resolve(r, &r.cmd, &out)
		return
	}
	s.at.LSN = s.next
	out := s.state.Judge(s.at, &r.cmd)
	switch {
	case r.wait && (out.Code == kernel.Held || out.Code == kernel.Granted && wanted):
		s.enqueue(r)
	case out.Code != kernel.Granted:
		s.resolve(r, &r.cmd, &out)
	case wanted:
		s.refuse(r, &tenure.Error{Code: tenure.ErrHeld, Resource: r.first(), LSN: s.asOf(),
			Why: "it is free, but an earlier claim waits for it, or for a bundle with it: wait in line, or try again later"})
	case r.decide():
		out = s.execute(&r.cmd)
		r.granted = out.Changed()
		s.resolve(r, &r.cmd, &out)
	}
}

func (s *sequencer) refuse(r *request, err error) {
	r.err = err
	s.answers = append(s.answers, r)
}

// repeat attaches a claim to the waiter that has its operation.
func (s *sequencer) repeat(r *request, wt *waiter) {
	switch {
	case !sameClaim(&r.cmd, &wt.cmd):
		s.refuse(r, &tenure.Error{Code: tenure.ErrConflict, Resource: r.first(), LSN: s.asOf(),
			Why: "another claim waits under this operation: draw a fresh operation for a different claim"})
	case !r.wait:
		s.refuse(r, s.held(&wt.cmd))
	case s.waiting.callers >= s.state.Limits().Waiters:
		s.refuse(r, tooManyWaiters("waiters", r))
	default:
		r.arrived = s.engine.cfg.Clock.Now()
		s.waiting.attach(wt, r)
		r.standInLine()
	}
}

func (s *sequencer) enqueue(r *request) {
	if limit := s.waiting.full(r.cmd.Resources, s.state.Limits()); limit != "" {
		s.refuse(r, tooManyWaiters(limit, r))
		return
	}
	r.arrived = s.engine.cfg.Clock.Now()
	wt := &waiter{cmd: r.cmd}
	s.waiting.join(wt)
	s.waiting.attach(wt, r)
	r.standInLine()
}

func tooManyWaiters(limit string, r *request) error {
	return &tenure.Error{Code: tenure.ErrFull, Field: limit, Resource: r.first(),
		Why: "as many claims wait as the limit allows: try again later, or raise the limit"}
}

// handOver grants what was freed to the claims that may now pass, in the same
// record as the command that freed it.
func (s *sequencer) handOver(freed []tenure.Resource) {
	if len(s.waiting.queues) == 0 {
		return
	}
	work := append([]tenure.Resource(nil), freed...)
	for len(work) > 0 {
		r := work[0]
		wt := s.waiting.next(r, func(r tenure.Resource) bool { return s.state.Owner(r) == nil })
		if wt == nil {
			work = work[1:]
			continue
		}
		s.admit(wt)
		work = append(work, wt.cmd.Resources...) // a refused waiter may have stood before others
	}
}

// admit steps the claim of a waiter that may pass and takes it out of line. If
// all its callers have left in the meantime, nothing is granted.
func (s *sequencer) admit(wt *waiter) {
	// The operation was never executed while it waited here, however long ago
	// the client looked at the history.
	wt.cmd.Seen = max(wt.cmd.Seen, s.asOf())
	asked := slices.DeleteFunc(slices.Clone(wt.asked), func(r *request) bool { return !r.decide() })
	s.waiting.leave(wt)
	if len(asked) == 0 {
		return
	}
	out := s.execute(&wt.cmd)
	for _, r := range asked {
		r.granted = out.Changed()
		s.resolve(r, &wt.cmd, &out)
	}
}

// giveUp ends a wait whose time is over or whose caller has gone. If it was
// granted before, there is nothing to do: the answer, or the finding that
// nobody takes it, settles it.
func (s *sequencer) giveUp(r *request) {
	wt := r.waiter
	if wt == nil {
		return
	}
	if s.waiting.detach(r) {
		s.waiting.leave(wt)
	}
	s.refuse(r, s.held(&wt.cmd))
	if len(wt.asked) == 0 {
		s.handOver(wt.cmd.Resources)
	}
}

// held says who stands in the way of a claim that waited.
func (s *sequencer) held(waited *kernel.Command) error {
	cmd := *waited
	cmd.Seen = max(cmd.Seen, s.asOf()) // as in admit
	s.at.LSN = s.next
	out := s.state.Judge(s.at, &cmd)
	if err := out.Err(&cmd); err != nil {
		return err
	}
	return &tenure.Error{Code: tenure.ErrHeld, Resource: cmd.Resources[0], LSN: s.asOf(), Why: "earlier claims wait for it"}
}

// orphan notes the release of a grant that nobody took. Several callers may
// have asked under one operation, waiting or repeating: it is an orphan only
// if none of them was answered, since whoever was given the token believes in
// it.
func (s *sequencer) orphan(l *tenure.Lease) {
	for _, r := range s.answers {
		if r.kind == askClaim && r.lease.Token == l.Token && r.fate.Load() == fateAnswered {
			return
		}
	}
	s.orphans = append(s.orphans, kernel.FromCommand(tenure.Release{
		Ref: l.Ref, Holder: l.Holder, Result: tenure.Result{Outcome: tenure.OutcomeOK, Detail: "the claimant had gone"},
	}))
}

// tooEarly refuses to reclaim, without the operator's assertion, what its
// holder may still believe in.
func (s *sequencer) tooEarly(cmd *kernel.Command) error {
	l, _ := s.state.Lookup(cmd.Lease)
	if l == nil || l.State != tenure.StateRevoking {
		return nil // the law answers
	}
	left, known := s.engine.live.table.Reclaimable(cmd.Lease)
	if l.LSN > s.engine.feed.headLSN() { // withdrawn in this very turn: the table has not heard of it
		left, known = max(left, time.Duration(l.TTL+l.Grace)*time.Millisecond), l.TTL > 0
	}
	if known && left <= 0 {
		return nil
	}
	why := "its holder has no TTL and may believe in it for ever: stop the holder, then assert that it is dead"
	if known {
		why = fmt.Sprintf("its holder may still believe in it for %v: wait, or stop the holder and assert that it is dead", left.Round(time.Millisecond))
	}
	return &tenure.Error{Code: tenure.ErrInvalidState, Lease: cmd.Lease, Holder: l.Holder, Free: left, LSN: s.asOf(), Why: why}
}
