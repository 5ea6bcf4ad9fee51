package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// renew sends one renewal and sets the timer for the next.
func (h *Hold) renew() {
	if h.check() != nil {
		return
	}
	id, left := h.send()
	// An attempt that hangs leaves half of the time to others.
	ctx, cancel := context.WithTimeout(h.calls, min(h.cfg.interval(), max(left/2, h.cfg.interval()/16)))
	err := renewOne(ctx, h.eng, h.lease.Ref)
	cancel()
	switch over := h.answer(id, err); {
	case over != nil:
		return
	case err == nil:
		h.cfg.renewed(h)
	default:
		h.cfg.log.Warn("tenure: renewal failed", "resource", h.lease.Resource, "holder", h.lease.Holder, "lease", h.lease.ID, "left", h.Remaining(), "err", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.beat.Reset(h.pause())
	}
}

func (h *Hold) send() (id uint64, left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.now()
	h.requests++
	h.deadline.Sent(h.requests, now)
	return h.requests, h.deadline.Remaining(now)
}

// answer takes in what became of a renewal, and says whether the hold is over.
func (h *Hold) answer(id uint64, err error) error {
	// An answer that comes when the time is up ends nothing and saves nothing.
	if over := h.check(); over != nil {
		return over
	}
	h.mu.Lock()
	switch {
	case h.over != nil:
	case err == nil:
		h.deadline.Answered(id, h.cfg.now())
		h.failures, h.failure = 0, nil
	case transient(err):
		h.deadline.Dropped(id)
		h.failures, h.failure = h.failures+1, err
	default:
		h.refused = true
		h.end(h.lost(fmt.Sprintf("the engine refused to renew the lease of %s", h.lease.Holder), err))
	}
	over, refused := h.over, h.refused
	h.mu.Unlock()
	if refused {
		h.cfg.log.Error("tenure: hold lost", "resource", h.lease.Resource, "holder", h.lease.Holder, "lease", h.lease.ID, "err", over)
	}
	return over
}

// pause is the time until the next renewal; the caller holds mu.
func (h *Hold) pause() time.Duration {
	now := h.cfg.now()
	if h.failures > 0 { // the nearer the end, the more often
		return max(min(h.cfg.backoff(h.failures), h.deadline.Remaining(now)/4), h.cfg.interval()/64)
	}
	return h.untilBeat(h.deadline.from, now)
}

// untilBeat counts from the send of what was answered last, up to a tenth of
// the interval early, so that many holds do not beat as one. An engine that
// needs longer than the interval is given a rest all the same.
func (h *Hold) untilBeat(from, now Instant) time.Duration {
	interval := h.cfg.interval()
	early := time.Duration(h.cfg.float() * float64(interval/10))
	return max(interval-early-(now.Mono-from.Mono), interval/16)
}

// renewOne renews one lease and makes one error of the engine's two.
func renewOne(ctx context.Context, eng tenure.Engine, ref tenure.Ref) error {
	each, err := eng.Renew(ctx, []tenure.Ref{ref})
	switch {
	case err != nil:
		return err
	case len(each) != 1:
		return fmt.Errorf("hold: the engine answered %d refs of 1", len(each))
	}
	return each[0]
}

// transient reports whether an error leaves open that authority still stands,
// so that it is worth asking again until the deadline. Everything else says
// that authority is gone, or can never be confirmed. A halted engine may be
// reopened in time; an error that is not the engine's word is the network's.
func transient(err error) bool {
	switch tenure.CodeOf(err) {
	case 0, tenure.ErrUnavailable, tenure.ErrUnknownOutcome, tenure.ErrHalted, tenure.ErrRecovering, tenure.ErrFull, tenure.ErrDenied:
		return true
	}
	return false
}
