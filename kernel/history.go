package kernel

import (
	"slices"

	"github.com/tenurehq/tenure"
)

// history is the order of the kept leases: by grant for reading, by ending for
// retirement. Both orders are appended to only, since a grant and an ending
// always have the highest LSN so far.
type history struct {
	order []grant  // ascending; retired leases leave tombstones until half of it is dead
	dead  int      // tombstones in order
	queue []*Lease // ended, in order of ending, from head on
	head  int
	floor tenure.LSN // the highest grant among retired leases
}

type grant struct {
	lsn   tenure.LSN
	lease *Lease // nil: retired
}

func (h *history) add(l *Lease) {
	h.order = append(h.order, grant{lsn: l.ID.LSN, lease: l})
}

func (h *history) end(l *Lease) { h.queue = append(h.queue, l) }

func (h *history) ended() int { return len(h.queue) - h.head }

// oldest is the lease that ended first among the kept ones, or nil.
func (h *history) oldest() *Lease {
	if h.head == len(h.queue) {
		return nil
	}
	return h.queue[h.head]
}

// retire forgets the oldest ended lease.
func (h *history) retire() {
	l := h.queue[h.head]
	h.queue[h.head] = nil
	h.head++
	if h.head > len(h.queue)/2 {
		n := copy(h.queue, h.queue[h.head:])
		clear(h.queue[n:])
		h.queue, h.head = h.queue[:n], 0
	}
	h.floor = max(h.floor, l.ID.LSN)
	h.order[h.find(l.ID.LSN)].lease = nil
	h.dead++
	if h.dead > len(h.order)/2 {
		h.order = slices.DeleteFunc(h.order, func(g grant) bool { return g.lease == nil })
		h.dead = 0
	}
}

// get is the kept lease that was granted at lsn, or nil. The order is all that
// is needed to find it: a table beside it would cost more memory than it saves
// time.
func (h *history) get(lsn tenure.LSN) *Lease {
	if i := h.find(lsn); i < len(h.order) && h.order[i].lsn == lsn {
		return h.order[i].lease
	}
	return nil
}

func (h *history) kept() int { return len(h.order) - h.dead }

// find is the index of the first grant at or after lsn.
func (h *history) find(lsn tenure.LSN) int {
	lo, hi := 0, len(h.order)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if h.order[mid].lsn < lsn {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (h *history) each(after tenure.LSN, yield func(*Lease) bool) {
	for i := h.find(after); i < len(h.order); i++ {
		if g := h.order[i]; g.lsn > after && g.lease != nil && !yield(g.lease) {
			return
		}
	}
}
