package liveness

import (
	"context"
	"time"
)

// sweepMax is how many proposals go out together.
const sweepMax = 1024

// Reaper proposes what is due. It looks at least every [Config].Sweep, with one
// batch on its way at a time, and rests while the table is empty.
type Reaper struct {
	table   *Table
	propose func(context.Context, []Proposal) error
}

// NewReaper makes the reaper of a table; a table has one. propose puts a batch
// of at most 1,024 proposals in order, in their order, and returns when their
// outcomes are known and noted in the table ([Table.Withdraw], [Table.Forget],
// [Table.Settle]) or when it failed; the batch is the reaper's again then. What
// is not noted by then, after an error or not, is proposed again.
func NewReaper(t *Table, propose func(context.Context, []Proposal) error) *Reaper {
	return &Reaper{table: t, propose: propose}
}

// Run reaps until ctx ends, and returns after the last propose has.
func (r *Reaper) Run(ctx context.Context) {
	defer r.table.unwatch()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []Proposal
	var done chan struct{} // closed when the batch on its way is through; nil while there is none
	for ctx.Err() == nil {
		if wait := r.table.promise(done != nil); wait < Never {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-r.table.wake:
		case <-timer.C:
		case <-done:
			r.table.Return(batch)
			done = nil
		}
		if done != nil || ctx.Err() != nil {
			continue
		}
		if batch = r.table.Due(sweepMax, batch[:0]); len(batch) > 0 {
			done = r.start(ctx, batch)
		}
	}
	if done != nil {
		<-done
		r.table.Return(batch)
	}
}

// start proposes on the side: the reaper goes on looking at the clock, so that
// a slow disk is not taken for a pause of the process.
func (r *Reaper) start(ctx context.Context, batch []Proposal) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.propose(ctx, batch) // what it did not settle is proposed again, whatever the reason
	}()
	return done
}

// promise says how long the reaper may sleep, and holds it to that: see
// hearing. Never is until wake: nothing can be due before then.
func (t *Table) promise(busy bool) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !busy && (len(t.index) == 0 || t.halted != nil) {
		t.resting = t.halted == nil
		t.hearing.unwatch()
		return Never
	}
	wait := t.sweep
	if in, ok := t.next(now); ok && !busy {
		wait = min(wait, in)
	}
	t.hearing.watch(wait)
	return wait
}

// unwatch says that no reaper looks at the clock any more.
func (t *Table) unwatch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting = false
	t.hearing.unwatch()
}
