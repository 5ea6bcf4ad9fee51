package journal

import (
	"bytes"
	"slices"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// waiter is a claim that waits, known by its operation. Several callers may be
// attached to it: the repeats of one operation.
type waiter struct {
	cmd   kernel.Command
	asked []*request
}

// sameClaim reports whether two claims ask for the same.
func sameClaim(a, b *kernel.Command) bool {
	return a.Holder == b.Holder && a.TTL == b.TTL && a.Grace == b.Grace && a.Reserve == b.Reserve &&
		slices.Equal(a.Resources, b.Resources) && bytes.Equal(a.Meta, b.Meta)
}

// waiting holds the claims that wait, in arrival order for each resource. It
// belongs to the sequencer. A claim may be granted when it is the first in
// every queue that it stands in.
type waiting struct {
	queues  map[tenure.Resource][]*waiter
	byOp    map[[16]byte]*waiter
	callers int
}

func newWaiting() *waiting {
	return &waiting{queues: make(map[tenure.Resource][]*waiter), byOp: make(map[[16]byte]*waiter)}
}

// wanted reports whether somebody waits for one of the resources.
func (w *waiting) wanted(rs []tenure.Resource) bool {
	if len(w.queues) == 0 {
		return false
	}
	for _, r := range rs {
		if len(w.queues[r]) > 0 {
			return true
		}
	}
	return false
}

// full names the limit that one more waiter for rs would exceed; "" if none.
func (w *waiting) full(rs []tenure.Resource, l tenure.Limits) string {
	if w.callers >= l.Waiters {
		return "waiters"
	}
	for _, r := range rs {
		if len(w.queues[r]) >= l.WaitersPerResource {
			return "waiters_per_resource"
		}
	}
	return ""
}

// join appends a claim to the queues of its resources.
func (w *waiting) join(wt *waiter) {
	w.byOp[wt.cmd.Op] = wt
	for _, r := range wt.cmd.Resources {
		w.queues[r] = append(w.queues[r], wt)
	}
}

// attach lets one more caller wait on wt.
func (w *waiting) attach(wt *waiter, r *request) {
	wt.asked = append(wt.asked, r)
	r.waiter = wt
	w.callers++
}

// detach takes one caller off its waiter and reports whether the waiter has
// none left.
func (w *waiting) detach(r *request) (last bool) {
	wt := r.waiter
	r.waiter = nil
	w.callers--
	i, end := slices.Index(wt.asked, r), len(wt.asked)-1
	wt.asked[i], wt.asked[end] = wt.asked[end], nil // their order means nothing
	wt.asked = wt.asked[:end]
	return len(wt.asked) == 0
}

// leave takes wt out of every queue.
func (w *waiting) leave(wt *waiter) {
	delete(w.byOp, wt.cmd.Op)
	for _, r := range wt.cmd.Resources {
		q := w.queues[r]
		i := slices.Index(q, wt)
		if i == 0 { // the usual case, without moving the rest
			q[0] = nil
			q = q[1:]
		} else {
			q = slices.Delete(q, i, i+1)
		}
		if len(q) == 0 {
			delete(w.queues, r)
		} else {
			w.queues[r] = q
		}
	}
	for _, r := range wt.asked {
		r.waiter = nil
	}
	w.callers -= len(wt.asked)
}

// next returns the waiter that r's freeing lets pass: the first for r, if it
// is also the first for everything else it wants and all of that is free.
func (w *waiting) next(r tenure.Resource, free func(tenure.Resource) bool) *waiter {
	q := w.queues[r]
	if len(q) == 0 {
		return nil
	}
	wt := q[0]
	for _, want := range wt.cmd.Resources {
		if w.queues[want][0] != wt || !free(want) {
			return nil
		}
	}
	return wt
}

// each visits every waiter once, in no order that may reach an outcome.
func (w *waiting) each(visit func(*waiter)) {
	for _, wt := range w.byOp {
		visit(wt)
	}
}
