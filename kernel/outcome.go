package kernel

import (
	"fmt"

	"github.com/tenurehq/tenure"
)

// Outcome answers one command.
type Outcome struct {
	Code     Code
	Lease    Lease            // as it stands after the command; for Held the one in the way; for Conflict the one that the operation created; zero where there is none
	Resource tenure.Resource  // Held: the busy one; NotFound: the one that the lease does not cover
	Field    string           // Full, Overflow: what has no room; Invalid and its relatives: the malformed field
	Event    tenure.EventKind // what a watcher is told; 0 if nothing happened to a lease
	AsOf     tenure.LSN       // the last position that the answer rests on, this one included

	invalid *tenure.Error
}

// Code says how a command was answered.
type Code uint8

// First what changed the state, then what was already so, then the refusals.
const (
	Granted    Code = iota + 1
	Activated       //
	Released        //
	Revoking        // by revoke or lapse
	Reclaimed       //
	Expired         //
	Ticked          //
	Configured      //

	Replayed // executed before; the lease is shown as it stands
	NoOp     // an internal command that no longer applies

	Held           // a resource is not available
	Conflict       // the operation was used for another claim
	Retired        // dropped from history, or an operation too old to be judged
	Invalid        // malformed
	BundleTooLarge // over the limit of resources in one lease
	TTLOutOfRange  // or grace, or the reserve window
	Full           // a table's limit is reached
	NotFound       //
	HolderMismatch //
	Stale          // not the current epoch
	Ended          //
	InvalidState   // the lease's state does not allow it
	DeadlinePassed // the reservation can no longer be activated
	Overflow       // an LSN, slot or epoch has no successor
)

var codeNames = [...]string{
	Granted: "granted", Activated: "activated", Released: "released", Revoking: "revoking", Reclaimed: "reclaimed",
	Expired: "expired", Ticked: "ticked", Configured: "configured", Replayed: "replayed", NoOp: "noop",
	Held: "held", Conflict: "conflict", Retired: "retired", Invalid: "invalid", BundleTooLarge: "bundle_too_large",
	TTLOutOfRange: "ttl_out_of_range", Full: "full", NotFound: "not_found", HolderMismatch: "holder_mismatch",
	Stale: "stale", Ended: "ended", InvalidState: "invalid_state", DeadlinePassed: "deadline_passed", Overflow: "overflow",
}

// String is the code's name in the law and in transcripts.
func (c Code) String() string {
	if c == 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("code(%d)", uint8(c))
	}
	return codeNames[c]
}

func (c Code) effective() bool { return c >= Granted && c <= Configured }

var events = [Configured + 1]tenure.EventKind{
	Granted: tenure.EventGranted, Activated: tenure.EventActivated, Released: tenure.EventReleased,
	Revoking: tenure.EventRevoking, Reclaimed: tenure.EventFreed, Expired: tenure.EventExpired,
}

func (s *State) outcome(v verdict) Outcome {
	o := Outcome{Code: v.code, Resource: v.resource, Field: v.field, AsOf: s.last.LSN, invalid: v.invalid}
	if v.lease != nil {
		o.Lease = *v.lease
	}
	if v.invalid != nil {
		o.Field = v.invalid.Field
	}
	if v.code.effective() {
		o.Event = events[v.code]
	}
	return o
}

// Changed reports whether the command changed the state, and so used its LSN.
func (o *Outcome) Changed() bool { return o.Code.effective() }

// Replayed reports whether the command had been executed before.
func (o *Outcome) Replayed() bool { return o.Code == Replayed }

// Err is the answer as an error: nil for what was done, was done before, or no
// longer applies, else an [*tenure.Error]. When the lease in the way may be gone
// is for the engine to add: the law knows no silence.
func (o *Outcome) Err(c *Command) error {
	if o.Code <= NoOp {
		return nil
	}
	e := &tenure.Error{
		Code:     refusals[o.Code],
		Resource: o.Resource,
		Lease:    o.Lease.ID,
		Field:    o.Field,
		LSN:      o.AsOf,
		Why:      o.why(c),
	}
	switch {
	case o.invalid != nil:
		e.Resource = o.invalid.Resource
	case o.Code == Held || o.Code == HolderMismatch:
		e.Holder = o.Lease.Holder
	}
	if e.Resource == "" && len(c.Resources) == 1 && len(c.Resources[0]) <= tenure.MaxResourceBytes && o.invalid == nil {
		e.Resource = c.Resources[0]
	}
	if e.Lease.IsZero() {
		e.Lease = c.Lease
	}
	if e.Resource == "" && len(o.Lease.Resources) > 0 {
		e.Resource = o.Lease.Resources[0]
	}
	return e
}

var refusals = [Overflow + 1]tenure.Code{
	Held: tenure.ErrHeld, Conflict: tenure.ErrConflict, Retired: tenure.ErrRetired, Invalid: tenure.ErrInvalid,
	BundleTooLarge: tenure.ErrInvalid, TTLOutOfRange: tenure.ErrInvalid, Full: tenure.ErrFull, NotFound: tenure.ErrNotFound,
	HolderMismatch: tenure.ErrHolderMismatch, Stale: tenure.ErrStale, Ended: tenure.ErrEnded,
	InvalidState: tenure.ErrInvalidState, DeadlinePassed: tenure.ErrEnded, Overflow: tenure.ErrFull,
}

// why says what was asked, what stands in the way, and what can be done.
func (o *Outcome) why(c *Command) string {
	l := &o.Lease
	switch o.Code {
	case Held:
		return fmt.Sprintf("it cannot be given to %q, lease %v of %q is %s: wait, or ask its holder", c.Holder, l.ID, l.Holder, l.State)
	case Conflict:
		return fmt.Sprintf("the operation already created lease %v for another claim: repeat that claim unchanged, or use a fresh operation", l.ID)
	case Retired:
		if c.Kind == KindAcquire {
			return "the operation is older than the history that is kept, so whether it was executed cannot be told: look whether the resource is owned, then claim with a fresh operation"
		}
		return fmt.Sprintf("lease %v is no longer kept: it ended long ago, if it ever existed", c.Lease)
	case Full:
		return "the limit of " + o.Field + " is reached: try again later, or raise it"
	case NotFound:
		if c.Kind == 0 { // a reader's question
			return fmt.Sprintf("there is no lease %v: check the id", c.Lease)
		}
		if o.Resource != "" {
			return fmt.Sprintf("%s: lease %v does not cover it: name one of its resources, or none", c.Kind, c.Lease)
		}
		return fmt.Sprintf("%s: there is no lease %v: check the id", c.Kind, c.Lease)
	case HolderMismatch:
		return fmt.Sprintf("%s by %q: lease %v belongs to %q", c.Kind, c.Holder, l.ID, l.Holder)
	case Stale:
		return fmt.Sprintf("%s with epoch %d: lease %v is %s at epoch %d; that authority is over, claim again", c.Kind, c.Epoch, l.ID, l.State, l.Epoch)
	case Ended:
		if c.Kind == KindRevoke || c.Kind == KindReclaim {
			return fmt.Sprintf("%s: lease %v is %s: it owns nothing any more", c.Kind, l.ID, l.State)
		}
		return fmt.Sprintf("%s: lease %v is %s; claim again", c.Kind, l.ID, l.State)
	case InvalidState:
		return fmt.Sprintf("%s: lease %v is %s%s", c.Kind, l.ID, l.State, instead(c.Kind, l.State))
	case DeadlinePassed:
		return fmt.Sprintf("activate: lease %v had to be activated before slot %d; the reservation is lost, claim again", l.ID, l.Deadline())
	case Overflow:
		return fmt.Sprintf("%s: the %s has reached its end; nothing was changed", c.Kind, o.Field)
	}
	if o.invalid != nil {
		return o.invalid.Why
	}
	return ""
}

// instead says what to do about a lease in a state that does not allow the
// command.
func instead(k Kind, s tenure.State) string {
	switch {
	case k == KindActivate && s == tenure.StateActive:
		return " from its grant on: there is nothing to activate"
	case k == KindRevoke && s == tenure.StateReserved:
		return ": let it expire, or its holder release it"
	case k == KindReclaim && s.Held():
		return ": revoke it first"
	case s == tenure.StateRevoking:
		return ": its authority is withdrawn, it ends when it is reclaimed"
	}
	return ""
}
