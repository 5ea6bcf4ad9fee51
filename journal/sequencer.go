package journal

import (
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/kernel"
)

// sequencer orders commands: it owns the kernel's state, the waiting claims
// and the log's tail, and everything it does happens in turns on one goroutine.
type sequencer struct {
	engine  *Engine
	state   *kernel.State
	waiting *waiting

	next tenure.LSN  // the next command's
	sum  record.Sum  // the last record's
	slot kernel.Slot // the last record's
	time slotClock

	// Of one turn.
	at      kernel.At
	body    []byte     // the commands that changed something
	effects []effect   // what they mean for the volatile side
	answers []*request // to be answered once the record is durable
	failed  error      // what halted the engine; nothing is stepped afterwards

	orphans []kernel.Command // releases of grants whose claimants had gone
	frame   []byte           // the encoded record, reused
	written int64            // bytes since the last snapshot's cut
}

// slotClock turns progress of the engine's clock into slots, going on from the
// last slot of the history: downtime does not count.
type slotClock struct {
	base   kernel.Slot
	opened time.Duration
}

func (c slotClock) slot(now time.Duration) kernel.Slot {
	return c.base + kernel.Slot((now-c.opened)/time.Millisecond)
}

// run takes turns until the engine closes. It returns when nothing is left to
// answer.
func (s *sequencer) run() {
	for {
		arrived, open := s.engine.inbox.take()
		if !open {
			break
		}
		for rest := arrived; len(rest) > 0 || len(s.orphans) > 0; {
			rest = s.turn(rest)
		}
		clear(arrived) // what was answered is its caller's alone
		clear(s.answers)
	}
	s.refuseWaiters(s.engine.inbox.reason())
}

// turn steps requests in order, makes what they changed durable as one record,
// and answers them. It returns the requests that did not fit into the record.
func (s *sequencer) turn(batch []*request) (rest []*request) {
	s.begin()
	if s.failed != nil {
		s.refuseAll(batch)
		return nil
	}
	s.tick()
	for len(s.orphans) > 0 && len(s.body) < maxBatchBytes {
		s.execute(&s.orphans[0])
		s.orphans = s.orphans[1:]
	}
	for i, r := range batch {
		if i == maxBatch || len(s.body) >= maxBatchBytes {
			rest = batch[i:]
			break
		}
		s.dispatch(r)
	}
	s.tick()
	if err := s.commit(); err != nil {
		s.halt(err)
		return rest
	}
	s.publish()
	s.reply()
	return rest
}

// tick retires history that is due, before anything is asked of it and after
// more was added.
func (s *sequencer) tick() {
	if s.state.Due(s.at.Slot) {
		s.execute(&kernel.Command{Kind: kernel.KindTick})
	}
}

// refuseAll answers with what halted the engine.
func (s *sequencer) refuseAll(batch []*request) {
	s.orphans = nil
	s.refuseWaiters(s.failed)
	for _, r := range batch {
		r.err = s.failed
		r.answer()
	}
}

func (s *sequencer) begin() {
	if s.failed == nil {
		s.failed = s.engine.tripped()
	}
	slot := max(s.time.slot(s.engine.cfg.Clock.Now()), s.slot)
	s.at = kernel.At{Slot: slot, Wall: s.engine.cfg.Wall().UnixMilli()}
	s.body, s.effects = s.body[:0], s.effects[:0]
	clear(s.answers)
	s.answers = s.answers[:0]
}

func (s *sequencer) dispatch(r *request) {
	switch r.kind {
	case askClaim:
		s.claim(r)
	case askGiveUp:
		s.giveUp(r.target)
	case askCommand:
		s.command(r)
	case askPropose:
		s.propose(r)
	case askLookup:
		s.lookup(r)
	case askPage:
		s.list(r)
	case askStats:
		s.stats(r)
	}
}

// execute steps one command, notes its effect, and hands over what it freed.
func (s *sequencer) execute(cmd *kernel.Command) kernel.Outcome {
	s.at.LSN = s.next
	out, _ := s.state.Step(s.at, cmd)
	if !out.Changed() {
		return out
	}
	s.body = kernel.AppendCommand(s.body, cmd)
	s.next++
	if out.Event != 0 {
		s.effects = append(s.effects, effect{at: s.at, event: out.Event, lease: out.Lease})
	}
	switch out.Event {
	case tenure.EventReleased, tenure.EventFreed, tenure.EventExpired:
		s.handOver(out.Lease.Resources)
	}
	return out
}

// asOf is the position that everything stepped so far has reached.
func (s *sequencer) asOf() tenure.LSN { return s.next - 1 }

// resolve turns an outcome into r's answer, to be given when the record is
// durable.
func (s *sequencer) resolve(r *request, cmd *kernel.Command, out *kernel.Outcome) {
	r.err = out.Err(cmd)
	if r.err == nil {
		r.lease = out.Lease.Public(s.asOf(), out.Replayed())
		r.changed = true
	}
	s.answers = append(s.answers, r)
}

func (s *sequencer) command(r *request) {
	if r.cmd.Kind == kernel.KindReclaim && !r.cmd.HolderIsDead {
		if err := s.tooEarly(&r.cmd); err != nil {
			r.err = err
			s.answers = append(s.answers, r)
			return
		}
	}
	out := s.execute(&r.cmd)
	s.resolve(r, &r.cmd, &out)
}

// commit writes what the turn changed as one record and waits until it is
// durable.
func (s *sequencer) commit() error {
	if len(s.body) == 0 {
		return nil
	}
	rec := record.Record{
		Rules: kernel.Rules, Kind: record.KindCommands, Shard: shard,
		First: s.engine.feed.headLSN() + 1, Last: s.next - 1,
		Slot: uint64(s.at.Slot), Wall: s.at.Wall, Prev: s.sum, Body: s.body,
	}
	return s.append(&rec)
}

func (s *sequencer) append(rec *record.Record) error {
	s.frame = record.Append(s.frame[:0], rec)
	start := s.engine.cfg.Clock.Now()
	if err := s.engine.log.Append(rec.Prev, s.frame); err != nil {
		return err
	}
	s.engine.metrics.committed(s.engine.cfg.Clock.Now()-start, int(rec.Last-rec.First)+1)
	s.sum, s.slot = rec.Sum, kernel.Slot(rec.Slot)
	s.written += int64(len(s.frame))
	return nil
}

// publish applies the turn's effects to everything volatile: only now may they
// be seen.
func (s *sequencer) publish() {
	now := s.time.slot(s.engine.cfg.Clock.Now()) // the record may have taken its time
	for i := range s.effects {
		s.engine.live.follow(&s.effects[i], now)
	}
	s.engine.metrics.stepped(s.effects)
	s.engine.feed.publish(s.effects, s.next-1)
	s.engine.waiters.Store(int64(s.waiting.callers))
	s.engine.snapshots.consider(s)
}

// reply answers the turn's requests. A grant whose claimant went away while it
// waited is released in the next turn, before anything else.
func (s *sequencer) reply() {
	left := s.answers[:0:0]
	now := s.engine.cfg.Clock.Now() // once: reading a clock that counts suspend is a system call
	for _, r := range s.answers {
		s.engine.finish(r, now)
		if grant := r.granted; !r.answer() && grant {
			left = append(left, r)
		}
	}
	for _, r := range left {
		s.orphan(&r.lease)
	}
}

// halt ends the engine's authority: what the turn changed may or may not be
// durable, and nothing more is acknowledged.
func (s *sequencer) halt(err error) {
	halted := &tenure.Error{Code: tenure.ErrHalted, Cause: err,
		Why: "a write to the journal failed and the engine acknowledges nothing more: mend the cause, then open it again"}
	s.failed = halted
	s.engine.halt(halted)
	for _, r := range s.answers {
		r.err = halted
		if r.changed {
			r.err = &tenure.Error{Code: tenure.ErrUnknownOutcome, Op: tenure.Op{ID: r.cmd.Op, Seen: r.cmd.Seen}, Cause: err,
				Why: "the journal failed while it was written: repeat the same call when the engine is open again"}
		}
		r.lease = tenure.Lease{}
		r.answer()
	}
	s.refuseWaiters(halted)
}

// refuseWaiters ends every wait with err: nothing was granted.
func (s *sequencer) refuseWaiters(err error) {
	s.waiting.each(func(wt *waiter) {
		for _, r := range wt.asked {
			r.waiter = nil
			r.err = err
			r.answer()
		}
	})
	s.waiting = newWaiting()
	s.engine.waiters.Store(0)
}

// seal marks a clean end of the log.
func (s *sequencer) seal() error {
	if s.failed != nil || s.engine.tripped() != nil {
		return nil
	}
	s.begin()
	rec := record.Record{
		Rules: kernel.Rules, Kind: record.KindSeal, Shard: shard, First: s.next, Last: s.next - 1,
		Slot: uint64(s.at.Slot), Wall: s.at.Wall, Prev: s.sum,
	}
	return s.append(&rec)
}
