package hold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// Hold is an active lease that is kept alive until it is released or lost. It
// is safe for concurrent use. Whoever got it calls [Hold.Release] or
// [Hold.Fail] once the work has stopped, whatever became of the lease: until
// then it is renewed, even if the context it was acquired under has ended, since
// the work may still be stopping.
type Hold struct {
	eng   tenure.Engine
	lease tenure.Lease
	cfg   config

	ctx    context.Context // the work's: ends with the parent, the belief, or the release
	cancel context.CancelCauseFunc

	calls     context.Context // the renewals': has the parent's values, and ends with the hold
	stopCalls context.CancelFunc

	mu       sync.Mutex
	deadline *Deadline
	requests uint64
	failures int   // renewals in a row that were not answered
	failure  error // the last of them
	over     error // nil while the holder may believe
	refused  bool  // the engine itself said that it is over
	expiry   *time.Timer
	beat     *time.Timer

	finishing  bool          // somebody releases, or has released
	finished   chan struct{} // closed when that is done
	releaseErr error         // valid then
}

// newHold starts keeping a lease whose belief has begun.
func newHold(parent context.Context, eng tenure.Engine, lease tenure.Lease, cfg config, d *Deadline) *Hold {
	h := &Hold{eng: eng, lease: lease, cfg: cfg, deadline: d, requests: d.newest, finished: make(chan struct{})}
	inner, cancel := context.WithCancelCause(parent)
	h.ctx, h.cancel = proofContext{Context: inner, prover: h}, cancel
	h.calls, h.stopCalls = context.WithCancel(context.WithoutCancel(parent))

	h.mu.Lock()
	defer h.mu.Unlock()
	now := cfg.now()
	if left := d.Remaining(now); left != Forever {
		h.expiry = time.AfterFunc(left, h.expire)
	}
	h.beat = time.AfterFunc(h.untilBeat(d.from, now), h.renew)
	return h
}

// Context is the work's context: it ends before the lease can be lost, with a
// cause that matches [tenure.ErrLost] and says who lost it and why; when the
// hold is released, with [ErrReleased]; or with the context that the lease was
// acquired under. [Token], [From] and [ProofOf] find the hold in it.
func (h *Hold) Context() context.Context { return h.ctx }

// Done is closed when the work has to stop.
func (h *Hold) Done() <-chan struct{} { return h.ctx.Done() }

// Err is nil while the work may go on, and then the cause for which it has to
// stop; see [Hold.Context].
func (h *Hold) Err() error {
	if h.ctx.Err() == nil {
		return nil
	}
	return context.Cause(h.ctx)
}

// Token is the proof of authority to pass to what the work writes to; zero as
// soon as the lease is released or the holder must not believe in it any more.
// It is still there after the parent context has ended, for work that is
// stopping in an orderly way.
func (h *Hold) Token() tenure.Token {
	if h.check() != nil {
		return tenure.Token{}
	}
	return h.lease.Token
}

// Ref names the lease as it was granted, for logs and commands; it says nothing
// of whether it still stands.
func (h *Hold) Ref() tenure.Ref { return h.lease.Ref }

// Lease is the lease as it was granted.
func (h *Hold) Lease() tenure.Lease { return h.lease }

// Remaining is how long the holder may act without a further renewal: 0 when
// the hold is over, [Forever] without a TTL. Who hands it on as a moment on
// another clock reads that clock first.
func (h *Hold) Remaining() time.Duration {
	h.check()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return 0
	}
	return h.deadline.Remaining(h.cfg.now())
}

// Deadline is when the hold ends unless it is renewed, for people and for logs;
// ok is false without a TTL. It is never compared across machines, and moves
// with the wall clock: to decide anything, ask [Hold.Remaining].
func (h *Hold) Deadline() (at time.Time, ok bool) {
	now := time.Now()
	left := h.Remaining()
	if left == Forever {
		return time.Time{}, false
	}
	return now.Add(left), true
}

// check ends the hold if its time is over, and says why it is over.
func (h *Hold) check() error {
	h.mu.Lock()
	ended := h.over == nil && h.deadline.Remaining(h.cfg.now()) == 0
	if ended {
		h.end(h.silent())
	}
	over := h.over
	h.mu.Unlock()
	if ended {
		h.cfg.log.Error("tenure: hold lost", "resource", h.lease.Resource, "holder", h.lease.Holder, "lease", h.lease.ID, "err", over)
	}
	return over
}

// expire is the timer's look at the clock. The belief may have been extended
// since the timer was set, so it is set anew while time is left.
func (h *Hold) expire() {
	if h.check() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.expiry.Reset(max(h.deadline.Remaining(h.cfg.now()), time.Microsecond))
	}
}

// end makes the hold over; the caller holds mu.
func (h *Hold) end(why error) {
	h.over = why
	if h.expiry != nil {
		h.expiry.Stop()
	}
	h.beat.Stop()
	h.stopCalls()
	h.cancel(why)
}

// silent is the loss by a deadline that passed without a renewal.
func (h *Hold) silent() error {
	why := fmt.Sprintf("%s was not heard for %v of its TTL of %v: the process or its machine was paused, or the engine was too slow; whoever waits is granted the resource after that", h.lease.Holder, h.cfg.belief(), h.cfg.ttl)
	if h.failure != nil {
		why = fmt.Sprintf("%s could not renew for %v of its TTL of %v (%d failed attempts)", h.lease.Holder, h.cfg.belief(), h.cfg.ttl, h.failures)
	}
	return h.lost(why, h.failure)
}

func (h *Hold) lost(why string, cause error) error {
	return &tenure.Error{Code: tenure.ErrLost, Resource: h.lease.Resource, Lease: h.lease.ID, Holder: h.lease.Holder, Why: why, Cause: cause}
}

// ErrReleased is the cause with which the context of a released hold ends.
var ErrReleased = errors.New("hold: released")
