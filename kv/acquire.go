package kv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// Acquire grants the claim when the table in the package comment lets it. To
// judge a holder of whose life nothing is known it watches the record, also
// with Wait 0: until the record changes (ErrHeld), or has not for long enough
// (granted). A reservation is refused at once: its window says when it ends. ctx
// bounds the watching; a claim must not be repeated sooner to get there
// sooner, since what was seen so far counts for the next call as well.
//
// A key that is absent where its holder may still believe is watched likewise,
// and when ctx ends that is ErrRecovering. A claim that waited was sent long
// ago: its holder renews before it counts on the full TTL.
func (e *Engine) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c = c.Resolve()
	if err := c.Validate(e.config.Limits); err != nil {
		return tenure.Lease{}, err
	}
	if c.Wait < 0 {
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "wait", Resource: c.Resources[0], Why: fmt.Sprintf("%v is negative: 0 never waits for a living holder", c.Wait)}
	}
	if err := e.Caps().Require(tenure.Caps{Bundles: len(c.Resources) > 1}); err != nil {
		return tenure.Lease{}, err
	}
	a := &acquiring{engine: e, claim: c, resource: c.Resources[0], key: keyOf(c.Resources[0]), session: e.session(), start: e.config.Clock.Now()}
	if c.Op.IsZero() {
		op, err := tenure.ReadOp(e.config.Random, 0)
		if err != nil {
			return tenure.Lease{}, err
		}
		a.claim.Op, a.fresh = op, true
	}
	defer a.stop()
	for {
		if lease, done, err := a.turn(ctx); done {
			return lease, err
		}
	}
}

// acquiring is one claim on its way.
type acquiring struct {
	engine   *Engine
	claim    tenure.Claim
	fresh    bool // the operation was drawn here: it cannot have been executed before
	resource tenure.Resource
	key      string
	session  string

	start  time.Duration
	last   *view         // the last reading that was to be waited on; nil until then
	judged judgement     // of it
	wake   chan struct{} // nil until it waits
	cancel func()
}

// turn reads, judges, and takes the resource, refuses, or waits for the next
// turn.
func (a *acquiring) turn(ctx context.Context) (lease tenure.Lease, done bool, err error) {
	v, err := a.engine.read(ctx, a.key, a.resource)
	if err != nil {
		return a.unread(ctx, err)
	}
	if lease, done, err = a.repeated(v); done {
		return lease, true, err
	}
	j := a.judge(v)
	if j.free {
		return a.take(ctx, v, j.prior)
	}
	if j.alive && a.engine.config.Clock.Now()-a.start >= a.claim.Wait {
		return tenure.Lease{}, true, a.held(v, j, nil)
	}
	a.last, a.judged = v, j
	if err := a.watch(ctx); err != nil {
		return tenure.Lease{}, true, err
	}
	if !a.pause(ctx, j.at) {
		return tenure.Lease{}, true, a.held(v, j, context.Cause(ctx))
	}
	return tenure.Lease{}, false, nil
}

// unread goes on over an outage as long as the claim would have waited, or
// watched, anyway.
func (a *acquiring) unread(ctx context.Context, err error) (tenure.Lease, bool, error) {
	now := a.engine.config.Clock.Now()
	patient := now-a.start < a.claim.Wait || now < a.judged.at
	if errors.Is(err, tenure.ErrUnavailable) && patient && pause(ctx, a.engine.jitter(min(a.engine.config.Poll, time.Second))) {
		return tenure.Lease{}, false, nil
	}
	if ctx.Err() != nil && a.last != nil {
		return tenure.Lease{}, true, a.held(a.last, a.judged, context.Cause(ctx))
	}
	return tenure.Lease{}, true, err
}

// repeated answers a claim whose operation the record knows, or is too old to
// know (T10).
func (a *acquiring) repeated(v *view) (tenure.Lease, bool, error) {
	if a.fresh && a.claim.Op.Seen == 0 {
		a.claim.Op.Seen = tenure.LSN(v.sight.count)
	}
	if v.rec == nil {
		return tenure.Lease{}, false, nil
	}
	op, conflict := hex.EncodeToString(a.claim.Op.ID[:]), func(id tenure.LeaseID) error {
		return &tenure.Error{Code: tenure.ErrConflict, Resource: a.resource, Lease: id, LSN: tenure.LSN(v.rec.LSN),
			Why: fmt.Sprintf("the operation already created lease %v for another claim: repeat that claim unchanged, or use a fresh operation", id)}
	}
	if v.rec.Op == op {
		if !v.rec.grantedFor(&a.claim) {
			return tenure.Lease{}, true, conflict(v.rec.id())
		}
		return a.engine.lease(v, v.rec.Session != a.session), true, nil
	}
	for _, p := range v.rec.Past {
		if p.Op != op {
			continue
		}
		if p.Print != newRecord(&a.claim).print() {
			return tenure.Lease{}, true, conflict(p.id())
		}
		return p.public(v, &a.claim), true, nil
	}
	if !a.fresh && uint64(a.claim.Op.Seen) < v.rec.Floor {
		return tenure.Lease{}, true, v.refuse(tenure.ErrRetired, "the operation is older than what the record remembers, so whether it was executed cannot be told: look whether the resource is owned, then claim with a fresh operation that has seen this LSN")
	}
	return tenure.Lease{}, false, nil
}

// judge adds to the rules for records those for a key that is absent.
func (a *acquiring) judge(v *view) judgement {
	if v.rec != nil {
		return v.sight.judge(v.rec, v.now)
	}
	silence := a.silence()
	age := v.bucket.Now.Sub(v.bucket.Created)
	if v.entry.Revision == 0 && age > silence {
		return judgement{free: true, prior: tenure.EndingNever}
	}
	j := judgement{at: v.sight.since + silence, prior: tenure.EndingUnknown}
	if j.free = v.now >= j.at; !j.free && v.entry.Revision == 0 {
		j.at = min(j.at, v.now+silence-age+time.Millisecond)
	}
	return j
}

// silence is how long a key must have been absent: nobody knows any more for
// how long its last holder may believe, so the claim's own terms stand in; one
// without a TTL goes by the default.
func (a *acquiring) silence() time.Duration {
	c := a.claim
	if c.TTL == tenure.NoTTL {
		c = tenure.Claim{Holder: c.Holder}.Resolve()
	}
	return c.TTL + max(c.Grace, 0)
}

// take writes the claim over what was judged free. done is false if another
// was faster.
func (a *acquiring) take(ctx context.Context, v *view, prior tenure.Ending) (tenure.Lease, bool, error) {
	e, last := a.engine, v.sight.count
	if v.rec != nil {
		last = max(last, v.rec.LSN)
	} else {
		// A record was deleted, perhaps, whose count nobody here knows: it was
		// drawn from a wall clock before the store's own of now (T7).
		e.notBefore(max(micros(v.bucket.Now), micros(v.entry.Created)))
	}
	count, err := e.after(a.resource, last)
	if err != nil {
		return tenure.Lease{}, true, err
	}
	rec := newRecord(&a.claim)
	rec.Session, rec.Count, rec.LSN = a.session, count, count
	rec.Prior, rec.GrantedAt = prior.String(), stamp(e.config.Wall())
	rec.succeed(v.rec)
	over := v.entry
	err = e.write(ctx, v, rec, true)
	switch {
	case err == nil:
		return e.lease(v, false), true, nil
	case errors.Is(err, errMoved):
		return tenure.Lease{}, false, nil
	case errors.Is(err, tenure.ErrUnknownOutcome) && ctx.Err() != nil && a.wake != nil:
		return tenure.Lease{}, true, a.abandon(ctx, over, err)
	}
	return tenure.Lease{}, true, a.unknown(err)
}

func micros(t time.Time) uint64 { return uint64(max(0, t.UnixMicro())) }

// unknown names the operation to repeat.
func (a *acquiring) unknown(err error) error {
	var known *tenure.Error
	if errors.As(err, &known) && known.Code == tenure.ErrUnknownOutcome {
		known.Op = a.claim.Op
	}
	return err
}

// abandon settles a grant that raced the end of ctx during a wait: it is
// released, since nobody is there to use it, unless its operation is the
// caller's own, which others may share. Nobody worked under it, so it leaves the
// resource as it found it.
func (a *acquiring) abandon(ctx context.Context, over Entry, err error) error {
	e := a.engine
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.Timeout)
	defer cancel()
	for range attempts {
		v, readErr := e.read(late, a.key, a.resource)
		if readErr != nil || same(v.entry, over) {
			return a.unknown(err)
		}
		if v.rec == nil || v.rec.Session != a.session || !v.rec.state().Held() {
			return a.held(v, judgement{}, context.Cause(ctx))
		}
		if !a.fresh {
			return a.unknown(err) // another caller may have been answered it under the same operation (T14)
		}
		rec := v.rec.next()
		rec.Epoch, rec.LSN, rec.Last = rec.Epoch+1, rec.LSN+1, lastRelease
		rec.blank(tenure.StateReleased, rec.prior(), e.config.Wall())
		if writeErr := e.write(late, v, rec, false); writeErr != nil && !errors.Is(writeErr, errMoved) {
			return a.unknown(err)
		}
	}
	return a.unknown(err)
}

func (a *acquiring) held(v *view, j judgement, cause error) error {
	err := &tenure.Error{Code: tenure.ErrRecovering, Resource: a.resource, Cause: cause,
		Why: "its key is absent, and may have been deleted under a holder that still believes: wait until that is over"}
	if v.rec != nil {
		err.Code, err.Lease, err.Holder, err.LSN = tenure.ErrHeld, v.rec.id(), v.rec.holder(), tenure.LSN(v.rec.LSN)
		err.Why = fmt.Sprintf("it cannot be given to %q, lease %v of %q is %s: wait, or ask its holder", a.claim.Holder, v.rec.id(), v.rec.holder(), v.rec.State)
	}
	if j.at > 0 {
		err.Free = max(0, j.at-a.engine.config.Clock.Now())
	}
	return err
}

// watch begins to wake this claim when the record changes. What a watch tells
// is only that there is something to read.
func (a *acquiring) watch(ctx context.Context) error {
	if a.wake != nil {
		return nil
	}
	if err := a.engine.enter(a.resource); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	a.wake = make(chan struct{}, 1)
	a.cancel = func() {
		cancel()
		a.engine.leave(a.resource)
	}
	go a.engine.wakeOn(ctx, a.key, a.wake)
	return nil
}

func (a *acquiring) stop() {
	if a.cancel != nil {
		a.cancel()
	}
}

// pause waits for a change, for the moment at, for the end of the wait, or for
// the next look that does not trust the watch; false means that ctx ended.
func (a *acquiring) pause(ctx context.Context, at time.Duration) bool {
	now := a.engine.config.Clock.Now()
	d := a.engine.jitter(a.engine.config.Poll)
	if at > 0 {
		d = min(d, at-now)
	}
	if left := a.claim.Wait - (now - a.start); left > 0 {
		d = min(d, left)
	}
	t := time.NewTimer(max(d, time.Millisecond))
	defer t.Stop()
	select {
	case <-a.wake:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// wakeOn turns a watch on one key into signals until ctx ends. A watch that
// fails is begun again; meanwhile the claim looks by itself.
func (e *Engine) wakeOn(ctx context.Context, key string, wake chan<- struct{}) {
	for {
		for entry, err := range e.store.Watch(ctx, key) {
			if err != nil {
				e.config.Logger.Debug("kv: a watch ended", "key", key, "error", err)
				break
			}
			if entry.Synced {
				continue
			}
			select {
			case wake <- struct{}{}:
			default: // one signal is waiting already
			}
		}
		if !pause(ctx, e.jitter(e.config.Poll)) {
			return
		}
	}
}

// enter counts a waiting claim (T12).
func (e *Engine) enter(r tenure.Resource) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.config.Limits
	if e.waiters >= l.Waiters || e.waiting[string(r)] >= l.WaitersPerResource {
		return &tenure.Error{Code: tenure.ErrFull, Field: "waiters", Resource: r, Why: "too many claims are waiting: try again later"}
	}
	e.waiters++
	e.waiting[string(r)]++
	return nil
}

func (e *Engine) leave(r tenure.Resource) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters--
	if e.waiting[string(r)]--; e.waiting[string(r)] == 0 {
		delete(e.waiting, string(r))
	}
}
