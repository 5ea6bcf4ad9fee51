package kernel

import (
	"bytes"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
)

// Lease is the record of one tenure. What it was granted with never changes:
// together with its operation that is the claim's fingerprint, compared field
// by field. Records handed out are views, not to be changed.
type Lease struct {
	ID        tenure.LeaseID
	Resources []tenure.Resource // in request order
	Holder    tenure.Holder
	Meta      []byte
	Op        [16]byte // the operation that created it
	TTL       uint32   // ms; 0 = no TTL
	Grace     uint32   // ms
	Reserve   uint32   // ms; the window of a reservation, 0 = acquired at once
	Prior     tenure.Ending
	Granted   Stamp

	State     tenure.State
	Epoch     tenure.Epoch
	LSN       tenure.LSN     // of its last change; once it has ended, of its end
	Ended     Stamp          // zero while live
	Outcome   tenure.Outcome // known from the loss of authority on
	Detail    string         // of a failure, or the reason of a revocation
	LastKind  Kind           // the last holder's command: activate, release, or 0
	LastEpoch tenure.Epoch   // the epoch that it carried

	one [1]tenure.Resource // where Resources lies when there is one, to save an allocation
}

// Stamp is a moment: the slot, which decides, and the wall clock in Unix
// milliseconds, for people.
type Stamp struct {
	Slot Slot
	Wall int64
}

// newLease is the lease that an acquire creates. Its Resources are still the
// command's.
func newLease(shard uint16, at At, c *Command, prior tenure.Ending) Lease {
	l := Lease{
		ID:        tenure.LeaseID{Shard: shard, LSN: at.LSN},
		Resources: c.Resources,
		Holder:    c.Holder,
		Meta:      c.Meta,
		Op:        c.Op,
		TTL:       c.TTL,
		Grace:     c.Grace,
		Reserve:   c.Reserve,
		Prior:     prior,
		Granted:   Stamp{Slot: at.Slot, Wall: at.Wall},
		State:     tenure.StateActive,
		Epoch:     1,
		LSN:       at.LSN,
	}
	if c.Reserve > 0 {
		l.State = tenure.StateReserved
	}
	return l
}

// keep makes the record independent of the command that it came from.
func (l *Lease) keep() {
	if len(l.Resources) == 1 {
		l.one[0] = l.Resources[0]
		l.Resources = l.one[:1:1]
	} else {
		l.Resources = slices.Clip(slices.Clone(l.Resources))
	}
	if len(l.Meta) == 0 {
		l.Meta = nil
	} else {
		l.Meta = slices.Clip(bytes.Clone(l.Meta))
	}
}

// advance makes the record what it is after c, judged as code.
func (l *Lease) advance(at At, c *Command, code Code) {
	l.LSN = at.LSN
	switch code {
	case Activated:
		l.State = tenure.StateActive
		l.LastKind, l.LastEpoch = KindActivate, c.Epoch
	case Released:
		if l.State == tenure.StateActive {
			l.Outcome, l.Detail = max(c.Result.Outcome, tenure.OutcomeOK), c.Result.Detail
		}
		l.State = tenure.StateReleased
		l.LastKind, l.LastEpoch = KindRelease, c.Epoch
		l.Epoch++
		l.Ended = Stamp{Slot: at.Slot, Wall: at.Wall}
	case Revoking:
		l.State = tenure.StateRevoking
		l.Epoch++
		l.Outcome = tenure.OutcomeLapsed
		if c.Kind == KindRevoke {
			l.Outcome, l.Detail = tenure.OutcomeRevoked, c.Reason
		}
	case Reclaimed:
		l.State = tenure.StateRevoked
		l.Ended = Stamp{Slot: at.Slot, Wall: at.Wall}
	case Expired:
		l.State = tenure.StateExpired
		l.Epoch++
		l.Ended = Stamp{Slot: at.Slot, Wall: at.Wall}
	}
}

// Deadline is the slot from which on the reservation can no longer be
// activated and may expire; 0 if the lease was never a reservation.
func (l *Lease) Deadline() Slot {
	if l.Reserve == 0 {
		return 0
	}
	return l.Granted.Slot + Slot(l.Reserve)
}

// grantedFor reports whether c asks for what the lease was granted for.
func (l *Lease) grantedFor(c *Command) bool {
	return l.Holder == c.Holder && l.TTL == c.TTL && l.Grace == c.Grace && l.Reserve == c.Reserve &&
		slices.Equal(l.Resources, c.Resources) && bytes.Equal(l.Meta, c.Meta)
}

// covers reports whether r is "" or one of the lease's.
func (l *Lease) covers(r tenure.Resource) bool {
	return r == "" || slices.Contains(l.Resources, r)
}

// repeats reports whether c was the last holder's command. A command is known
// by its kind and token alone. A release with another result is therefore still
// that release: the repeat of one whose answer was lost may well word its detail
// differently (an error text, a duration), and a token can be released only
// once, so there is nothing else that it could be. The first result stands, and
// the answer shows it.
func (l *Lease) repeats(c *Command) bool {
	return l.LastKind == c.Kind && l.LastEpoch == c.Epoch
}

// Public is the lease in the vocabulary's words, as observed at asOf. It
// carries a token only while there is authority to prove. Resources and Meta
// are shared with the record.
func (l *Lease) Public(asOf tenure.LSN, replayed bool) tenure.Lease {
	p := tenure.Lease{
		ID:        l.ID,
		Epoch:     l.Epoch,
		Resources: l.Resources,
		Holder:    l.Holder,
		State:     l.State,
		TTL:       ttlOf(l.TTL),
		Grace:     duration(l.Grace),
		Prior:     l.Prior,
		Result:    tenure.Result{Outcome: l.Outcome, Detail: l.Detail},
		Meta:      l.Meta,
		Replayed:  replayed,
		LSN:       l.LSN,
		AsOf:      asOf,
		GrantedAt: time.UnixMilli(l.Granted.Wall),
	}
	if len(l.Resources) > 0 {
		p.Resource = l.Resources[0]
	}
	if l.State.Held() {
		p.Token = tenure.Token{Lease: l.ID, Epoch: l.Epoch}
	}
	if !l.State.Live() {
		p.EndedAt = time.UnixMilli(l.Ended.Wall)
	}
	return p
}
