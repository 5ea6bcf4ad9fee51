package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
)

// Acquire acquires the claim and keeps the lease alive until it is released or
// lost. The hold's context is ctx's child: what bounds the acquiring alone is
// [tenure.Claim].Wait, not a timeout of ctx.
//
// A claim whose outcome is not known is repeated with the same operation until
// ctx ends or a TTL has passed, and the error then names the operation. A claim
// that waited, or was answered with a replay, is renewed once before Acquire
// returns: the belief counts from the send of that renewal. If the claim names
// an operation whose tenure is over, the error is [tenure.ErrEnded]; an
// operation of the engine's own is followed by a fresh one.
//
// Refused as [tenure.ErrInvalid]: a TTL that is not larger than the margin, and
// a claim that only reserves.
func Acquire(ctx context.Context, eng tenure.Engine, claim tenure.Claim, opts ...Option) (*Hold, error) {
	claim = claim.Resolve()
	if claim.Reserve != 0 {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "reserve", Why: "a hold keeps active leases: leave Reserve out, or reserve with the engine's Acquire and confirm with Activate"}
	}
	cfg, err := configure(claim.TTL, opts)
	if err != nil {
		return nil, err
	}
	a := acquisition{eng: eng, claim: claim, cfg: cfg, given: !claim.Op.IsZero(), began: cfg.now()}
	return a.run(ctx)
}

// acquisition is one Acquire under way.
type acquisition struct {
	eng   tenure.Engine
	claim tenure.Claim // resolved; its operation is filled in when the engine names it
	cfg   config
	given bool // the operation is the caller's
	began Instant
}

// maxTenures bounds how many leases in a row may be over before their answer
// arrives: an engine that is so slow, or so wrong, is not asked for ever.
const maxTenures = 3

func (a *acquisition) run(ctx context.Context) (*Hold, error) {
	var over error
	for range maxTenures {
		lease, d, err := a.grant(ctx)
		if err != nil {
			return nil, err
		}
		if lease.Token.IsZero() {
			over = ended(lease)
		} else {
			over, err = a.confirm(ctx, lease, &d)
		}
		switch {
		case err != nil:
			return nil, err
		case over == nil:
			return newHold(ctx, a.eng, lease, a.cfg, d), nil
		case a.given:
			return nil, over
		}
		a.claim.Op = tenure.Op{}
	}
	return nil, fmt.Errorf("hold: %d leases in a row were over before their holder heard of them: %w", maxTenures, over)
}

// grant claims until the outcome is known. The belief counts from the first
// send, and has not begun if the answer is a replay.
func (a *acquisition) grant(ctx context.Context) (tenure.Lease, *Deadline, error) {
	const id = 1 // one operation, however often it is sent
	d := a.deadline()
	var unknown error
	var since Instant
	for tries := 1; ; tries++ {
		now := a.cfg.now()
		d.Sent(id, now)
		lease, err := a.eng.Acquire(ctx, a.waitLeft(now))
		switch {
		case err == nil && !lease.Replayed:
			d.Answered(id, a.cfg.now())
			return lease, d, nil
		case err == nil:
			return lease, d, nil
		case tenure.CodeOf(err) == tenure.ErrUnknownOutcome:
			a.learnOp(err)
		case unknown == nil || !transient(err):
			return tenure.Lease{}, nil, err
		}
		if unknown == nil {
			since = a.cfg.now()
		}
		unknown = err
		if a.claim.Op.IsZero() {
			return tenure.Lease{}, nil, err // nothing to repeat it with
		}
		if a.cfg.now().since(since) >= a.cfg.belief() || !sleep(ctx, a.cfg.backoff(tries)) {
			return tenure.Lease{}, nil, a.unsettled(ctx, unknown)
		}
	}
}

// confirm makes the belief a fresh one where the answer did not come promptly
// from a grant. It reports as over that the authority is gone again, and as err
// why there is no telling; a lease that is this call's own is given back then.
func (a *acquisition) confirm(ctx context.Context, lease tenure.Lease, d **Deadline) (over, err error) {
	now := a.cfg.now()
	prompt := a.cfg.ttl == tenure.NoTTL || (*d).begun && now.since((*d).from) <= a.cfg.margin
	if prompt && (*d).Remaining(now) > 0 && ctx.Err() == nil {
		return nil, nil
	}
	fresh := a.deadline()
	start, id := now, uint64(0)
	for ctx.Err() == nil {
		id++
		fresh.Sent(id, a.cfg.now())
		attempt, cancel := context.WithTimeout(ctx, a.cfg.interval())
		err = renewOne(attempt, a.eng, lease.Ref)
		cancel()
		switch {
		case err == nil && fresh.Answered(id, a.cfg.now()):
			*d = fresh
			if ctx.Err() == nil {
				return nil, nil
			}
		case err == nil:
			err = fmt.Errorf("hold: the renewal was answered too late to count")
		case !transient(err):
			return err, nil
		}
		if a.cfg.now().since(start) >= a.cfg.belief() || !sleep(ctx, a.cfg.backoff(int(id))) {
			break
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = fmt.Errorf("hold: granted, but not confirmed in time: %w", err)
	if lease.Replayed && a.given {
		return nil, err // others may work under the caller's operation
	}
	return nil, errors.Join(err, release(ctx, a.eng, lease, tenure.Result{Detail: "given back before the work began"}, &a.cfg, a.cfg.releaseLimit()))
}

func (a *acquisition) deadline() *Deadline {
	d, err := NewDeadline(a.cfg.ttl, a.cfg.margin)
	if err != nil {
		panic("hold: " + err.Error()) // configure has judged it
	}
	return d
}

// waitLeft is the claim with what is left of its wait.
func (a *acquisition) waitLeft(now Instant) tenure.Claim {
	c := a.claim
	if c.Wait != tenure.WaitForever {
		c.Wait = max(c.Wait-now.since(a.began), 0)
	}
	return c
}

// learnOp takes over the operation that the engine drew.
func (a *acquisition) learnOp(err error) {
	var e *tenure.Error
	if a.claim.Op.IsZero() && errors.As(err, &e) {
		a.claim.Op = e.Op
	}
}

func (a *acquisition) unsettled(ctx context.Context, last error) error {
	otherwise := "let it lapse"
	if a.claim.TTL == tenure.NoTTL {
		otherwise = "revoke and reclaim it"
	}
	unknown := &tenure.Error{
		Code: tenure.ErrUnknownOutcome, Op: a.claim.Op,
		Why:   fmt.Sprintf("the lease may have been granted to %s: repeat the claim with operation %s to settle it, or %s", a.claim.Holder, a.claim.Op, otherwise),
		Cause: errors.Join(context.Cause(ctx), last),
	}
	if len(a.claim.Resources) > 0 { // claims are judged by the engine, and it did not answer
		unknown.Resource = a.claim.Resources[0]
	}
	return unknown
}

func ended(l tenure.Lease) error {
	return &tenure.Error{
		Code: tenure.ErrEnded, Resource: l.Resource, Lease: l.ID, Holder: l.Holder, LSN: l.LSN,
		Why: fmt.Sprintf("the operation was executed before, and its tenure is over (%s): claim with a fresh operation", l.State),
	}
}
