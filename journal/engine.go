package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// shard is the only one there is so far.
const shard = 0

// Engine is a [tenure.Engine] that keeps its leases in a [Log].
type Engine struct {
	cfg  Config
	log  Log
	live *observer
	feed *feed

	inbox     inbox
	snapshots *snapshotter
	metrics   *metrics
	report    Opened

	trip       atomic.Pointer[tenure.Error] // set outside the sequencer: it halts at its next turn
	waiters    atomic.Int64                 // for the metric
	randomness sync.Mutex                   // guards cfg.Rand
	sequenced  chan struct{}
	closing    sync.Once
	closed     error
}

var _ tenure.Engine = (*Engine)(nil)

// Caps is everything: an embedded journal lacks no capability.
func (e *Engine) Caps() tenure.Caps {
	return tenure.Caps{Bundles: true, Reserve: true, History: true, MinLSN: true, Fair: true, EveryEvent: true}
}

// Acquire grants the claim, waits for it, or says who stands in its way. The
// lease is durable when it returns.
func (e *Engine) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c = c.Resolve()
	if c.Wait < 0 {
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "wait", Why: fmt.Sprintf("%v is negative: 0 never waits, WaitForever waits until the context ends", c.Wait)}
	}
	r := newRequest(askClaim)
	if r.drawn = c.Op.IsZero(); r.drawn {
		op, err := e.draw()
		if err != nil {
			return tenure.Lease{}, err
		}
		c.Op = op
	}
	c.Resources, c.Meta = slices.Clone(c.Resources), bytes.Clone(c.Meta) // the state keeps them
	r.cmd = kernel.FromClaim(c)
	r.wait = c.Wait > 0
	if err := e.submit(ctx, r); err != nil {
		return tenure.Lease{}, err
	}
	l, err := e.await(ctx, r, c)
	if errors.Is(err, tenure.ErrInvalid) {
		// The law counts in milliseconds of 32 bits; quote what was asked.
		err = cmp.Or(c.Validate(e.cfg.Limits), err)
	}
	return l, err
}

// draw makes an operation for a claim that brought none.
func (e *Engine) draw() (tenure.Op, error) {
	e.randomness.Lock()
	defer e.randomness.Unlock()
	return tenure.ReadOp(e.cfg.Rand, e.feed.headLSN())
}

// await takes the answer to a claim or a command (whose claim is zero), or
// takes the claim back.
func (e *Engine) await(ctx context.Context, r *request, c tenure.Claim) (tenure.Lease, error) {
	var over <-chan time.Time
	if r.wait && c.Wait < tenure.WaitForever {
		timer := time.NewTimer(c.Wait)
		defer timer.Stop()
		over = timer.C
	}
	for {
		select {
		case <-r.done:
			return r.lease, r.err
		case <-over:
			over = nil
			e.giveUp(r) // the sequencer answers: refused, or granted just before
		case <-ctx.Done():
			was := r.leave()
			if was == fateAnswered {
				<-r.done
				return r.lease, r.err
			}
			if r.wait {
				e.giveUp(r)
			}
			if was == fateInLine || was == fateOpen && r.wait && r.drawn {
				return tenure.Lease{}, &tenure.Error{Code: tenure.ErrHeld, Resource: r.first(), Cause: context.Cause(ctx), Why: "the wait was ended, nothing was granted"}
			}
			return tenure.Lease{}, &tenure.Error{Code: tenure.ErrUnknownOutcome, Op: c.Op, Cause: context.Cause(ctx),
				Why: "the context ended before the answer: repeat the same call to settle it"}
		}
	}
}

func (e *Engine) giveUp(r *request) {
	up := newRequest(askGiveUp)
	up.target = r
	_ = e.inbox.put(up, true) // closing or halted: every wait is ended there
}

// Do executes a command on one lease; the change is durable when it returns.
func (e *Engine) Do(ctx context.Context, c tenure.Command) (tenure.Lease, error) {
	switch c.(type) {
	case tenure.Activate, tenure.Release, tenure.Revoke, tenure.Reclaim:
	default:
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "command", Why: fmt.Sprintf("%T is none of Activate, Release, Revoke, Reclaim", c)}
	}
	if err := c.Validate(); err != nil {
		return tenure.Lease{}, err
	}
	r := newRequest(askCommand)
	r.cmd = kernel.FromCommand(c)
	if err := e.submit(ctx, r); err != nil {
		return tenure.Lease{}, err
	}
	return e.await(ctx, r, tenure.Claim{})
}

// Renew says that the holders are alive. It is answered from memory and never
// waits for the disk: of a lease that is not alive it says ErrEnded, or
// ErrNotFound if its id was never reached, and no more; Lookup knows what became
// of it.
func (e *Engine) Renew(ctx context.Context, refs []tenure.Ref) ([]error, error) {
	if len(refs) > tenure.MaxRefsPerRenew {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "refs", Why: fmt.Sprintf("%d in one call, at most %d are allowed", len(refs), tenure.MaxRefsPerRenew)}
	}
	if err := e.inbox.reason(); err != nil {
		return nil, err // closing or halted: nobody is promised time any more
	}
	each := make([]error, len(refs))
	e.live.renew(refs, each)
	for i, err := range each {
		switch tenure.CodeOf(err) {
		case tenure.ErrNotFound:
			each[i] = e.gone(refs[i])
		case tenure.ErrHalted, tenure.ErrUnavailable:
			return nil, err
		}
	}
	return each, nil
}

// gone refuses to renew a lease that is not alive.
func (e *Engine) gone(ref tenure.Ref) error {
	refused := &tenure.Error{Code: tenure.ErrEnded, Lease: ref.Token.Lease, Resource: ref.Resource, LSN: e.feed.headLSN(),
		Why: "no live lease has this token, its tenure is over: acquire again, under a new token"}
	switch {
	case ref.Token.IsZero():
		refused.Code, refused.Field, refused.Why = tenure.ErrInvalid, "token", "a renewal carries the token of its grant"
	case ref.Token.Lease.Shard != shard || ref.Token.Lease.LSN > refused.LSN:
		refused.Code, refused.Why = tenure.ErrNotFound, "there is no such lease: check the token"
	}
	return refused
}

// submit puts r before the sequencer.
func (e *Engine) submit(ctx context.Context, r *request) error {
	if ctx.Err() != nil {
		return &tenure.Error{Code: tenure.ErrUnavailable, Cause: context.Cause(ctx), Why: "the context had ended before anything was asked"}
	}
	return e.inbox.put(r, false)
}

// ask puts a read before the sequencer and waits for its answer.
func (e *Engine) ask(ctx context.Context, r *request) error {
	if err := e.submit(ctx, r); err != nil {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return &tenure.Error{Code: tenure.ErrUnavailable, Cause: context.Cause(ctx), Why: "the context ended before the read was answered"}
	}
}

// finish adds what only the volatile side knows: how long until the lease may
// end, or its resource be free.
func (e *Engine) finish(r *request, now time.Duration) {
	if r.lease.State.Live() {
		r.lease.ExpiresIn, r.lease.FreeIn = e.live.left(r.lease.ID)
	}
	for i := range r.page.leases {
		if l := &r.page.leases[i]; l.State.Live() {
			l.ExpiresIn, l.FreeIn = e.live.left(l.ID)
		}
	}
	if refused, ok := r.err.(*tenure.Error); ok && refused.Code == tenure.ErrHeld && !refused.Lease.IsZero() {
		_, refused.Free = e.live.left(refused.Lease)
	}
	e.metrics.answered(r, now)
}

// halt fails closed everything that is not the sequencer's own.
func (e *Engine) halt(err *tenure.Error) {
	e.cfg.Logger.Error("journal halted", "err", err.Cause)
	e.inbox.close(err)
	e.live.halt(err)
	e.feed.fail(err)
	e.metrics.halt()
}

// diverged halts the engine from outside the sequencer.
func (e *Engine) diverged(err error) {
	halted := &tenure.Error{Code: tenure.ErrHalted, Cause: err, Why: "the engine found its own history and state at odds and acknowledges nothing more: keep the directory, run tenure verify on it, report it"}
	e.trip.Store(halted)
	e.halt(halted)
}

// tripped is what halted the engine from outside the sequencer, or nil.
func (e *Engine) tripped() error {
	if err := e.trip.Load(); err != nil {
		return err
	}
	return nil
}

// Halted returns the error that halted the engine; nil while it serves, and
// after a clean Close.
func (e *Engine) Halted() error {
	if err := e.feed.failure(); errors.Is(err, tenure.ErrHalted) {
		return err
	}
	return nil
}

// Close ends every wait and watch with ErrUnavailable, answers what was asked
// before, seals the log and releases it. Leases stay what they are.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		closing := &tenure.Error{Code: tenure.ErrUnavailable, Why: "the engine is closing"}
		e.live.stop()
		e.inbox.close(closing)
		<-e.sequenced
		e.feed.fail(closing)
		e.live.halt(closing)
		e.metrics.unregister()
	})
	return e.closed
}

// inbox gathers requests while the sequencer is busy.
type inbox struct {
	mu      sync.Mutex
	arrived []*request
	spare   []*request
	refusal error // set once closed
	wake    chan struct{}
}

// put adds a request; urgent ones pass the bound, since they only make room.
func (in *inbox) put(r *request, urgent bool) error {
	in.mu.Lock()
	if in.refusal != nil {
		in.mu.Unlock()
		return in.refusal
	}
	if len(in.arrived) >= maxInbox && !urgent {
		in.mu.Unlock()
		return &tenure.Error{Code: tenure.ErrFull, Field: "requests", Why: fmt.Sprintf("%d requests wait to be ordered: slow down and try again", maxInbox)}
	}
	in.arrived = append(in.arrived, r)
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns everything that has arrived, waiting for a first request. It
// reports false when the inbox is closed and empty. The slice is valid until the
// next call.
func (in *inbox) take() (batch []*request, open bool) {
	for {
		in.mu.Lock()
		if len(in.arrived) > 0 {
			batch = in.arrived
			in.arrived, in.spare = in.spare[:0], batch
			in.mu.Unlock()
			return batch, true
		}
		closed := in.refusal != nil
		in.mu.Unlock()
		if closed {
			return nil, false
		}
		<-in.wake
	}
}

// close refuses, with err, every request from now on. The first call decides.
func (in *inbox) close(err error) {
	in.mu.Lock()
	if in.refusal == nil {
		in.refusal = err
	}
	in.mu.Unlock()
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// reason is why the inbox is closed; nil while it is open.
func (in *inbox) reason() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refusal
}
