package kernel

import (
	"errors"
	"math"

	"github.com/tenurehq/tenure"
)

// verdict is the judgement of one command on one state. Its lease is the one
// concerned, or the one in the way.
type verdict struct {
	code     Code
	lease    *Lease
	resource tenure.Resource // the busy one
	field    string          // the limit that is reached
	invalid  *tenure.Error   // what is malformed
	prior    tenure.Ending   // of a grant
}

// historySlack is how far history may be behind its limit before grants are
// refused: an engine that does not tick must not grow without bound (T12).
const historySlack = 1 << 16

// judge answers c, and changes nothing. Every check is here, in the order of
// the law; the first that fails is the answer.
func (s *State) judge(at At, c *Command) verdict {
	s.mustBeAhead(at)
	v := s.rule(at, c)
	if field := overflow(at, c, v); field != "" {
		return verdict{code: Overflow, lease: v.lease, field: field}
	}
	return v
}

func (s *State) rule(at At, c *Command) verdict {
	switch c.Kind {
	case KindAcquire:
		return s.judgeAcquire(c)
	case KindActivate:
		return s.judgeActivate(at, c)
	case KindRelease:
		return s.judgeRelease(c)
	case KindRevoke:
		return s.judgeRevoke(c)
	case KindReclaim:
		return s.judgeReclaim(c)
	case KindLapse:
		return s.judgeLapse(c)
	case KindExpire:
		return s.judgeExpire(at, c)
	case KindTick:
		return s.judgeTick(at)
	case KindConfigure:
		return s.judgeConfigure(c)
	}
	return verdict{code: Invalid, invalid: &tenure.Error{Code: tenure.ErrInvalid, Field: "command", Why: "there is no " + c.Kind.String()}}
}

func (s *State) judgeAcquire(c *Command) verdict {
	if l := s.ops[c.Op]; l != nil {
		if l.grantedFor(c) {
			return verdict{code: Replayed, lease: l}
		}
		return verdict{code: Conflict, lease: l}
	}
	if c.Seen < s.history.floor {
		return verdict{code: Retired}
	}
	if c.Op == ([16]byte{}) {
		return verdict{code: Invalid, invalid: &tenure.Error{Code: tenure.ErrInvalid, Field: "operation", Why: "a claim that reaches the law carries an operation"}}
	}
	if err := c.claim().Validate(s.limits); err != nil {
		return s.malformed(c, err)
	}
	prior := tenure.EndingNever
	for _, r := range c.Resources {
		t, known := s.resources[r]
		if !known {
			prior = min(prior, s.absent)
			continue
		}
		if t.last.State.Live() {
			return verdict{code: Held, lease: t.last, resource: r}
		}
		prior = min(prior, t.ending)
	}
	if s.live >= s.limits.Leases {
		return verdict{code: Full, field: "leases"}
	}
	if s.history.ended() >= s.limits.History+historySlack {
		return verdict{code: Full, field: "history"}
	}
	return verdict{code: Granted, prior: prior}
}

// malformed gives the vocabulary's refusal the law's code.
func (s *State) malformed(c *Command, err error) verdict {
	v := verdict{code: Invalid, invalid: &tenure.Error{Code: tenure.ErrInvalid, Why: err.Error()}}
	if errors.As(err, &v.invalid) {
		switch v.invalid.Field {
		case "resources":
			if len(c.Resources) > s.limits.Bundle {
				v.code = BundleTooLarge
			}
		case "ttl", "grace", "reserve":
			v.code = TTLOutOfRange
		}
	}
	return v
}

// named finds the lease that c names; ok is false if v is the answer.
func (s *State) named(c *Command) (l *Lease, v verdict, ok bool) {
	l, code := s.Lookup(c.Lease)
	if l == nil {
		return nil, verdict{code: code}, false
	}
	if !l.covers(c.Resource) {
		return nil, verdict{code: NotFound, resource: c.Resource}, false
	}
	return l, verdict{}, true
}

// held finds the lease of a holder's command and checks its authority: the
// part that activate and release share.
func (s *State) held(c *Command) (l *Lease, v verdict, ok bool) {
	l, v, ok = s.named(c)
	switch {
	case !ok:
		return nil, v, false
	case l.repeats(c):
		return nil, verdict{code: Replayed, lease: l}, false
	case l.Holder != c.Holder:
		return nil, verdict{code: HolderMismatch, lease: l}, false
	case l.Epoch != c.Epoch:
		return nil, verdict{code: Stale, lease: l}, false
	case !l.State.Live():
		return nil, verdict{code: Ended, lease: l}, false
	}
	return l, verdict{}, true
}

// someRef fills a command of the vocabulary of which only the words are
// checked. Whose lease it names is the law's business, and fields that name
// none are answered as an unknown lease.
var someRef = tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{LSN: 1}, Epoch: 1}}

func (s *State) judgeActivate(at At, c *Command) verdict {
	l, v, ok := s.held(c)
	switch {
	case !ok:
		return v
	case l.State != tenure.StateReserved:
		return verdict{code: InvalidState, lease: l}
	case at.Slot >= l.Deadline():
		return verdict{code: DeadlinePassed, lease: l}
	}
	return verdict{code: Activated, lease: l}
}

func (s *State) judgeRelease(c *Command) verdict {
	if c.Result.Outcome > tenure.OutcomeFailed || c.Result.Detail != "" {
		words := tenure.Release{Ref: someRef, Holder: "some", Result: c.Result}
		if err := words.Validate(); err != nil {
			return s.malformed(c, err)
		}
	}
	l, v, ok := s.held(c)
	switch {
	case !ok:
		return v
	case l.State == tenure.StateRevoking:
		return verdict{code: InvalidState, lease: l}
	}
	return verdict{code: Released, lease: l}
}

func (s *State) judgeRevoke(c *Command) verdict {
	if c.Reason != "" {
		words := tenure.Revoke{Lease: someRef.Token.Lease, Reason: c.Reason}
		if err := words.Validate(); err != nil {
			return s.malformed(c, err)
		}
	}
	l, v, ok := s.named(c)
	switch {
	case !ok:
		return v
	case l.State == tenure.StateRevoking || l.State == tenure.StateRevoked:
		return verdict{code: Replayed, lease: l}
	case !l.State.Live():
		return verdict{code: Ended, lease: l}
	case l.State == tenure.StateReserved:
		return verdict{code: InvalidState, lease: l}
	}
	return verdict{code: Revoking, lease: l}
}

func (s *State) judgeReclaim(c *Command) verdict {
	l, v, ok := s.named(c)
	switch {
	case !ok:
		return v
	case l.State == tenure.StateRevoked:
		return verdict{code: Replayed, lease: l}
	case !l.State.Live():
		return verdict{code: Ended, lease: l}
	case l.State != tenure.StateRevoking:
		return verdict{code: InvalidState, lease: l}
	}
	return verdict{code: Reclaimed, lease: l}
}

// judgeLapse refuses a lease without a TTL, too: no silence ends it.
func (s *State) judgeLapse(c *Command) verdict {
	l, _, ok := s.named(c)
	if !ok || l.State != tenure.StateActive || l.Epoch != c.Epoch || l.TTL == 0 {
		return verdict{code: NoOp, lease: l}
	}
	return verdict{code: Revoking, lease: l}
}

func (s *State) judgeExpire(at At, c *Command) verdict {
	l, _, ok := s.named(c)
	if !ok || l.State != tenure.StateReserved || l.Deadline() != c.Deadline || at.Slot < c.Deadline {
		return verdict{code: NoOp, lease: l}
	}
	return verdict{code: Expired, lease: l}
}

func (s *State) judgeTick(at At) verdict {
	if !s.Due(at.Slot) {
		return verdict{code: NoOp}
	}
	return verdict{code: Ticked}
}

func (s *State) judgeConfigure(c *Command) verdict {
	if err := c.Limits.Validate(); err != nil {
		return s.malformed(c, err)
	}
	if c.Limits == s.limits {
		return verdict{code: NoOp}
	}
	return verdict{code: Configured}
}

// overflow names the count that a command which is about to be applied would
// leave without room.
func overflow(at At, c *Command, v verdict) string {
	switch {
	case !v.code.effective():
		return ""
	case at.LSN > tenure.MaxLSN:
		return "lsn"
	case at.Slot > MaxSlot:
		return "slot"
	case v.code == Granted && Slot(c.Reserve) > MaxSlot-at.Slot:
		return "slot"
	case (v.code == Released || v.code == Revoking || v.code == Expired) && v.lease.Epoch == math.MaxUint32:
		return "epoch"
	}
	return ""
}
