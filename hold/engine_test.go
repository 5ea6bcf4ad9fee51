package hold_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// strict is an engine that is as unkind as the seam allows: it withdraws
// authority the very moment a TTL has passed since a call was sent, grants the
// resource to somebody else in the same moment if the claim had no grace, and
// does to any call what its script says. It lives in the virtual time of
// testing/synctest.
type strict struct {
	mu      sync.Mutex
	lsn     tenure.LSN
	rows    []*row
	changed chan struct{} // closed, and replaced, at every release
	calls   map[string]int
	script  func(call string, n int) fault // n counts the calls of that name from 1
	granted func(tenure.Lease)             // called before a grant is answered
}

type row struct {
	lease  tenure.Lease
	op     tenure.Op
	beaten time.Time
}

// fault is what becomes of one call.
type fault struct {
	late   time.Duration // before it takes effect
	refuse error         // instead of taking effect
	slow   time.Duration // after it took effect, before the answer
	lose   error         // instead of the answer
	deaf   bool          // the delays do not end with the call's context
}

var (
	errGone = &tenure.Error{Code: tenure.ErrUnavailable, Why: "scripted"}
	errMaze = &tenure.Error{Code: tenure.ErrUnknownOutcome, Why: "scripted"}
)

func newStrict() *strict {
	return &strict{
		lsn:     40,
		changed: make(chan struct{}),
		calls:   map[string]int{},
		script:  func(string, int) fault { return fault{} },
		granted: func(tenure.Lease) {},
	}
}

// does changes the script. It is called with the lock held, one call at a time.
func (e *strict) does(script func(call string, n int) fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = script
}

func (e *strict) fault(call string) fault {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[call]++
	return e.script(call, e.calls[call])
}

func (e *strict) count(call string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[call]
}

// through runs one call with its fault around the effect.
func through(ctx context.Context, f fault, effect func() error) error {
	if err := delay(ctx, f, f.late); err != nil {
		return &tenure.Error{Code: tenure.ErrUnavailable, Why: "the call was given up", Cause: err}
	}
	if f.refuse != nil {
		return f.refuse
	}
	if err := effect(); err != nil {
		return err
	}
	if err := delay(ctx, f, f.slow); err != nil {
		return &tenure.Error{Code: tenure.ErrUnknownOutcome, Why: "the call was given up", Cause: err}
	}
	return f.lose
}

func delay(ctx context.Context, f fault, d time.Duration) error {
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *strict) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c = c.Resolve()
	sent := time.Now()
	if c.Op.IsZero() {
		c.Op = tenure.NewOp(0)
	}
	var lease tenure.Lease
	err := through(ctx, e.fault("acquire"), func() (err error) {
		lease, err = e.claim(ctx, c, sent)
		return err
	})
	if unknown := (&tenure.Error{}); errors.As(err, &unknown) && unknown.Code == tenure.ErrUnknownOutcome {
		named := *unknown
		named.Op = c.Op
		err = &named
	}
	if err != nil {
		return tenure.Lease{}, err
	}
	return lease, nil
}

func (e *strict) claim(ctx context.Context, c tenure.Claim, sent time.Time) (tenure.Lease, error) {
	until := time.Now().Add(min(c.Wait, time.Hour))
	for {
		lease, err := e.try(c, sent)
		if !errors.Is(err, tenure.ErrHeld) || !time.Now().Before(until) {
			return lease, err
		}
		changed, next := e.next()
		timer := time.NewTimer(min(next, time.Until(until)))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return tenure.Lease{}, ctx.Err()
		}
		timer.Stop()
		sent = time.Now() // a claim that waits lives by its grant
	}
}

// next says when a waiter has to look again: at a release, or when a silent
// holder's time is over.
func (e *strict) next() (changed <-chan struct{}, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next = time.Hour
	for _, r := range e.rows {
		if r.lease.State.Live() && r.lease.TTL != tenure.NoTTL {
			next = min(next, time.Until(r.beaten.Add(r.lease.TTL+max(r.lease.Grace, 0))))
		}
	}
	return e.changed, next
}

func (e *strict) try(c tenure.Claim, sent time.Time) (tenure.Lease, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reap()
	for _, r := range e.rows {
		if r.op.ID == c.Op.ID {
			lease := r.lease
			lease.Replayed = true
			return lease, nil
		}
	}
	for _, r := range e.rows {
		if r.lease.State.Live() && r.lease.Resources[0] == c.Resources[0] {
			return tenure.Lease{}, &tenure.Error{Code: tenure.ErrHeld, Holder: r.lease.Holder, Resource: c.Resources[0]}
		}
	}
	e.lsn++
	id := tenure.LeaseID{LSN: e.lsn}
	lease := tenure.Lease{
		Ref: tenure.Ref{Token: tenure.Token{Lease: id, Epoch: 1}, Resource: c.Resources[0]},
		ID:  id, Epoch: 1, Resources: c.Resources, Holder: c.Holder, State: tenure.StateActive, TTL: c.TTL, Grace: c.Grace, LSN: e.lsn,
	}
	e.rows = append(e.rows, &row{lease: lease, op: c.Op, beaten: sent})
	e.granted(lease)
	return lease, nil
}

// reap does what a reaper does when it is not a moment late; mu is held.
func (e *strict) reap() {
	for _, r := range e.rows {
		if r.lease.TTL == tenure.NoTTL || !r.lease.State.Live() {
			continue
		}
		silent := time.Since(r.beaten)
		if silent >= r.lease.TTL && r.lease.State == tenure.StateActive {
			r.withdraw()
		}
		if silent >= r.lease.TTL+max(r.lease.Grace, 0) {
			r.lease.State = tenure.StateRevoked
		}
	}
}

func (r *row) withdraw() {
	r.lease.State, r.lease.Token = tenure.StateRevoking, tenure.Token{}
	r.lease.Epoch++
}

// revoke is an operator's.
func (e *strict) revoke() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rows[len(e.rows)-1].withdraw()
}

func (e *strict) Renew(ctx context.Context, refs []tenure.Ref) ([]error, error) {
	sent := time.Now()
	each := make([]error, len(refs))
	err := through(ctx, e.fault("renew"), func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.reap()
		for i, ref := range refs {
			var r *row
			if r, each[i] = e.held(ref); r != nil && r.beaten.Before(sent) {
				r.beaten = sent
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return each, nil
}

func (e *strict) Do(ctx context.Context, c tenure.Command) (tenure.Lease, error) {
	var lease tenure.Lease
	err := through(ctx, e.fault("release"), func() error {
		if err := c.Validate(); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.reap()
		rel := c.(tenure.Release)
		for _, r := range e.rows {
			if r.lease.ID == rel.Ref.Token.Lease && r.lease.State == tenure.StateReleased {
				lease = r.lease
				lease.Replayed = true
				return nil
			}
		}
		r, err := e.held(rel.Ref)
		if err != nil {
			return err
		}
		r.withdraw()
		close(e.changed)
		e.changed = make(chan struct{})
		r.lease.State, r.lease.Result = tenure.StateReleased, rel.Result
		if rel.Result.Outcome == tenure.OutcomeNone {
			r.lease.Result.Outcome = tenure.OutcomeOK
		}
		lease = r.lease
		return nil
	})
	return lease, err
}

// held finds the row that a holder's command may act on; mu is held.
func (e *strict) held(ref tenure.Ref) (*row, error) {
	for _, r := range e.rows {
		switch {
		case r.lease.ID != ref.Token.Lease:
		case r.lease.Epoch != ref.Token.Epoch:
			return nil, &tenure.Error{Code: tenure.ErrStale, Resource: ref.Resource, Lease: r.lease.ID}
		default:
			return r, nil
		}
	}
	return nil, &tenure.Error{Code: tenure.ErrNotFound, Resource: ref.Resource}
}

// last is the newest lease as it stands.
func (e *strict) last() tenure.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reap()
	return e.rows[len(e.rows)-1].lease
}

func (e *strict) Lookup(context.Context, tenure.Query) (tenure.Lease, error) {
	panic("a hold looks nothing up")
}

func (e *strict) List(context.Context, tenure.Filter) iter.Seq2[tenure.Lease, error] {
	panic("a hold lists nothing")
}

func (e *strict) Watch(context.Context, tenure.Filter) iter.Seq2[tenure.Event, error] {
	panic("a hold watches nothing")
}

func (e *strict) Caps() tenure.Caps { return tenure.Caps{} }
