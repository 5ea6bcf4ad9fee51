package liveness

import (
	"math/bits"
	"time"
)

const (
	tick     = time.Millisecond
	slotBits = 6
	slots    = 1 << slotBits
	levels   = 8 // 48 bits of ticks: more than a time.Duration can say
	nowhere  = 1<<16 - 1
)

// wheel is a hierarchical timing wheel over the entries of a slab: 64 slots of
// one tick, 64 of 64 ticks, and so on. An entry stands on the level on which
// its tick first differs from the wheel's, and comes down level by level as the
// wheel turns. Filing and removing are O(1), finding the next slot looks at one
// bitmap a level.
//
// It is lazy: an entry is handed out at or before its tick, and it is the
// caller who knows when it is really due and files it again.
type wheel struct {
	slab *slab
	cur  uint64 // every tick before it has been handed out
	full [levels]uint64
	head [levels * slots]uint32
}

// file puts entry i, which stands nowhere, into the slot of the moment at,
// rounded up to a tick.
func (w *wheel) file(i uint32, at time.Duration) {
	b := w.slot(max(ceilTick(at), w.cur))
	e := w.slab.at(i)
	e.where, e.prev, e.next = b, 0, w.head[b]
	if e.next != 0 {
		w.slab.at(e.next).prev = i
	}
	w.head[b] = i
	w.full[b/slots] |= 1 << (b % slots)
}

// remove takes entry i out of its slot, if it stands in one.
func (w *wheel) remove(i uint32) {
	e := w.slab.at(i)
	if e.where == nowhere {
		return
	}
	if e.next != 0 {
		w.slab.at(e.next).prev = e.prev
	}
	if e.prev != 0 {
		w.slab.at(e.prev).next = e.next
	} else if w.head[e.where] = e.next; e.next == 0 {
		w.full[e.where/slots] &^= 1 << (e.where % slots)
	}
	e.where, e.prev, e.next = nowhere, 0, 0
}

// take removes and returns an entry whose slot begins at or before now; 0 if
// there is none.
func (w *wheel) take(now time.Duration) uint32 {
	b, start, ok := w.next()
	if passed := uint64(now / tick); !ok || start > passed {
		w.cur = max(w.cur, passed) // nothing stands in between
		return 0
	}
	w.cur = start
	i := w.head[b]
	w.remove(i)
	return i
}

// next is the occupied slot that begins first.
func (w *wheel) next() (b uint16, start uint64, ok bool) {
	for level, full := range w.full {
		if full == 0 {
			continue
		}
		slot := bits.TrailingZeros64(full)
		shift := slotBits * level
		begin := w.cur>>(shift+slotBits)<<(shift+slotBits) | uint64(slot)<<shift
		if !ok || begin < start {
			b, start, ok = uint16(level*slots+slot), begin, true
		}
	}
	return b, start, ok
}

// slot is where tick at, not before the wheel's, belongs.
func (w *wheel) slot(at uint64) uint16 {
	level := 0
	if differ := at ^ w.cur; differ >= slots {
		level = (bits.Len64(differ) - 1) / slotBits
	}
	return uint16(level*slots) + uint16(at>>(slotBits*level)%slots)
}

// ceilTick rounds up: what is due within a tick is handed out after it.
func ceilTick(at time.Duration) uint64 {
	t := at / tick
	if at%tick > 0 {
		t++
	}
	return uint64(max(t, 0))
}
