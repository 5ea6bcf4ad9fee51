package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

// Do executes a command on one lease, found by the resource that the command
// names. Every change is written on condition that the record still stands as
// it was judged.
func (e *Engine) Do(ctx context.Context, c tenure.Command) (tenure.Lease, error) {
	if c == nil {
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "command", Why: "no command is given"}
	}
	if err := c.Validate(); err != nil {
		return tenure.Lease{}, err
	}
	switch c := c.(type) {
	case tenure.Activate:
		return e.amend(ctx, c.Ref.Token.Lease, c.Ref.Resource, func(v *view) (*record, error) { return e.activate(v, c) })
	case tenure.Release:
		return e.amend(ctx, c.Ref.Token.Lease, c.Ref.Resource, func(v *view) (*record, error) { return e.release(v, c) })
	case tenure.Revoke:
		return e.amend(ctx, c.Lease, c.Resource, func(v *view) (*record, error) { return e.revoke(v, c) })
	case tenure.Reclaim:
		return e.amend(ctx, c.Lease, c.Resource, func(v *view) (*record, error) { return e.reclaim(v, c) })
	}
	return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "command", Why: fmt.Sprintf("there is no command %T", c)}
}

// rule judges a command on what a view shows: the record that is to stand
// instead, or nil for a command that was executed before.
type rule func(v *view) (*record, error)

func (e *Engine) amend(ctx context.Context, id tenure.LeaseID, r tenure.Resource, judge rule) (tenure.Lease, error) {
	key, err := e.key(id, r)
	if err != nil {
		return tenure.Lease{}, err
	}
	for range attempts {
		v, err := e.read(ctx, key, r)
		if err != nil {
			return tenure.Lease{}, err
		}
		next, err := judge(v)
		if err != nil {
			return tenure.Lease{}, err
		}
		if next == nil && v.answer != nil {
			return *v.answer, nil
		}
		if next == nil {
			return e.lease(v, true), nil
		}
		if next.LSN, err = e.after(r, v.rec.LSN); err != nil {
			return tenure.Lease{}, err
		}
		err = e.write(ctx, v, next, false)
		if err == nil {
			return e.lease(v, false), nil
		}
		if !errors.Is(err, errMoved) {
			return tenure.Lease{}, err
		}
	}
	return tenure.Lease{}, &tenure.Error{Code: tenure.ErrUnavailable, Resource: r, Lease: id, Why: "its record changes faster than it can be written, nothing was changed: try again"}
}

// held checks a holder's authority, in the order of the law. replayed means
// that the command was this tenure's last.
func (v *view) held(ref tenure.Ref, h tenure.Holder, command string) (replayed bool, err error) {
	if err := v.names(ref.Token.Lease, tenure.ErrStale); err != nil {
		return false, err
	}
	switch r := v.rec; {
	case r.Last == command && ref.Token.Epoch == 1:
		return true, nil
	case r.holder() != h:
		return false, v.refuse(tenure.ErrHolderMismatch, fmt.Sprintf("%s by %q: lease %v belongs to %q", command, h, r.id(), r.holder()))
	}
	return false, v.current(ref.Token, command)
}

// current checks the epoch, and that the tenure is not over.
func (v *view) current(t tenure.Token, command string) error {
	switch r := v.rec; {
	case tenure.Epoch(r.Epoch) != t.Epoch:
		return v.refuse(tenure.ErrStale, fmt.Sprintf("%s with epoch %d: lease %v is %s at epoch %d; that authority is over, claim again", command, t.Epoch, r.id(), r.State, r.Epoch))
	case !r.state().Live():
		return v.refuse(tenure.ErrEnded, fmt.Sprintf("%s: lease %v is %s; claim again", command, r.id(), r.State))
	}
	return nil
}

func (e *Engine) activate(v *view, c tenure.Activate) (*record, error) {
	if replayed, err := v.held(c.Ref, c.Holder, lastActivate); replayed || err != nil {
		return nil, err
	}
	if v.rec.state() != tenure.StateReserved {
		return nil, v.refuse(tenure.ErrInvalidState, fmt.Sprintf("activate: lease %v is %s, there is nothing to activate", v.rec.id(), v.rec.State))
	}
	if err := e.expired(v, v.rec, lastActivate); err != nil {
		return nil, err
	}
	next := v.rec.next()
	next.State, next.Last = tenure.StateActive.String(), lastActivate
	return next, nil
}

// expired refuses what comes after the deadline of a reservation. The process
// that reserved counts from when it first sent the claim; any other only from
// when it first saw the reservation, which is later: it may then activate what
// nobody took over meanwhile, and never what somebody did.
func (e *Engine) expired(v *view, rec *record, command string) error {
	from := v.sight.lead
	if v.sight.session == rec.Session {
		from = v.sight.sent
	}
	if rec.state() != tenure.StateReserved || e.config.Clock.Now()-from < rec.window() {
		return nil
	}
	return v.refuse(tenure.ErrEnded, fmt.Sprintf("%s: lease %v had to be activated within %v; the reservation is lost, claim again", command, rec.id(), rec.window()))
}

func (e *Engine) release(v *view, c tenure.Release) (*record, error) {
	if v.releasedBefore(c) {
		return nil, nil
	}
	if replayed, err := v.held(c.Ref, c.Holder, lastRelease); replayed || err != nil {
		return nil, err
	}
	if v.rec.state() == tenure.StateRevoking {
		return nil, v.refuse(tenure.ErrInvalidState, fmt.Sprintf("release: the authority of lease %v is withdrawn, it ends when it is reclaimed", v.rec.id()))
	}
	next, left := v.rec.next(), v.rec.prior()
	if v.rec.state() == tenure.StateActive {
		next.Outcome, next.Detail = max(c.Result.Outcome, tenure.OutcomeOK).String(), c.Result.Detail
		left = tenure.EndingClean
	}
	next.Epoch++
	next.Last = lastRelease
	next.blank(tenure.StateReleased, left, e.config.Wall())
	return next, nil
}

// releasedBefore answers the repeat of a release after which others have held
// the resource, as long as the record remembers it.
func (v *view) releasedBefore(c tenure.Release) bool {
	if v.rec == nil {
		return false
	}
	for _, p := range v.rec.Past {
		if p.id() == c.Ref.Token.Lease && p.State == tenure.StateReleased.String() && c.Ref.Token.Epoch == 1 {
			lease := p.public(v, &tenure.Claim{Holder: c.Holder})
			v.answer = &lease
		}
	}
	return v.answer != nil
}

func (e *Engine) revoke(v *view, c tenure.Revoke) (*record, error) {
	if err := v.names(c.Lease, tenure.ErrEnded); err != nil {
		return nil, err
	}
	switch v.rec.state() {
	case tenure.StateRevoking, tenure.StateRevoked:
		return nil, nil
	case tenure.StateReserved:
		return nil, v.refuse(tenure.ErrInvalidState, fmt.Sprintf("revoke: lease %v is reserved: let it expire, or its holder release it", v.rec.id()))
	case tenure.StateActive:
	default:
		return nil, v.refuse(tenure.ErrEnded, fmt.Sprintf("revoke: lease %v is %s", v.rec.id(), v.rec.State))
	}
	next := v.rec.next()
	next.Epoch++
	next.State = tenure.StateRevoking.String()
	next.Outcome, next.Detail = tenure.OutcomeRevoked.String(), c.Reason
	return next, nil
}

func (e *Engine) reclaim(v *view, c tenure.Reclaim) (*record, error) {
	if err := v.names(c.Lease, tenure.ErrEnded); err != nil {
		return nil, err
	}
	switch v.rec.state() {
	case tenure.StateRevoked:
		return nil, nil
	case tenure.StateReserved, tenure.StateActive:
		return nil, v.refuse(tenure.ErrInvalidState, fmt.Sprintf("reclaim: lease %v is %s: revoke it first", v.rec.id(), v.rec.State))
	case tenure.StateRevoking:
	default:
		return nil, v.refuse(tenure.ErrEnded, fmt.Sprintf("reclaim: lease %v is %s", v.rec.id(), v.rec.State))
	}
	if j := v.sight.judge(v.rec, v.now); !j.free && !c.HolderIsDead {
		return nil, v.tooEarly(j)
	}
	next := v.rec.next()
	next.HolderIsDead = c.HolderIsDead
	next.blank(tenure.StateRevoked, tenure.EndingTaken, e.config.Wall())
	return next, nil
}

func (v *view) tooEarly(j judgement) error {
	err := &tenure.Error{Code: tenure.ErrInvalidState, Resource: v.resource, Lease: v.rec.id(), Holder: v.rec.holder(), LSN: tenure.LSN(v.rec.LSN),
		Why: "its holder has no TTL and may believe in it for ever: stop the holder, then assert that it is dead"}
	if j.at > 0 {
		err.Free = j.at - v.now
		err.Why = fmt.Sprintf("its holder may still believe in it for %v, by what this process has seen: a claim takes it over by itself when that is over; or stop the holder and assert that it is dead", err.Free.Round(time.Millisecond))
	}
	return err
}
