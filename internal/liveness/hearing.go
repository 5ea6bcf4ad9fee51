package liveness

import (
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

// hearing is the table's clock. It counts the time in which this process could
// take beats, from 0 at its creation; it never goes back and never runs ahead
// of the clock below it.
type hearing struct {
	clk    clock.Clock
	origin time.Duration
	deaf   time.Duration // the sum of all pauses
	pause  time.Duration // the least that is taken for one; < 0 = nothing is

	watched bool          // somebody promised to look
	promise time.Duration // when, at the latest
	seen    time.Duration // when somebody last did
}

func newHearing(clk clock.Clock, pause time.Duration) hearing {
	return hearing{clk: clk, origin: clk.Now(), pause: pause}
}

// now reads the clock, and says how long a pause it found: 0 for none. The
// pause is over, and is not part of now.
func (h *hearing) now() (now, paused time.Duration) {
	at := h.clk.Now() - h.origin
	if h.watched && h.pause >= 0 {
		if gap := at - max(h.promise, h.seen); gap > h.pause {
			paused = gap
		}
	}
	h.seen = at
	h.deaf += paused
	return at - h.deaf, paused
}

// watch promises that somebody looks at the clock again within d. It follows a
// call of now.
func (h *hearing) watch(d time.Duration) {
	h.watched = true
	h.promise = h.seen + d
}

// unwatch says that nobody looks any more: a long silence means nothing.
func (h *hearing) unwatch() { h.watched = false }
