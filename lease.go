package tenure

import (
	"fmt"
	"time"
)

// State is where a lease stands in its lifecycle; see the package comment.
type State uint8

const (
	StateReserved State = iota + 1 // ownership is committed, the holder has yet to confirm
	StateActive                    // the holder has authority; no timer ends it
	StateRevoking                  // authority is withdrawn, the resources are not yet reusable
	StateReleased                  // ended by its holder
	StateExpired                   // a reservation that aged out
	StateRevoked                   // ended after its authority was withdrawn
)

var stateNames = [...]string{
	StateReserved: "reserved", StateActive: "active", StateRevoking: "revoking",
	StateReleased: "released", StateExpired: "expired", StateRevoked: "revoked",
}

// Live reports whether the lease still owns its resources.
func (s State) Live() bool { return s >= StateReserved && s <= StateRevoking }

// Held reports whether a holder has, or can still confirm, authority.
func (s State) Held() bool { return s == StateReserved || s == StateActive }

// String is the state's name on the wire: "active".
func (s State) String() string { return nameOf(stateNames[:], uint8(s), "state") }

// ParseState is the inverse of [State.String].
func ParseState(s string) (State, bool) {
	i, ok := indexOf(stateNames[:], s)
	return State(i), ok
}

// Ending is how the previous tenure of a resource ended. The zero value is the
// cautious one, and smaller means more cautious.
type Ending uint8

const (
	EndingUnknown Ending = iota // not known any more: take nothing for granted
	EndingTaken                 // authority was withdrawn: the earlier holder may have been at work until then
	EndingClean                 // released by its holder
	EndingNever                 // never owned before
)

var endingNames = [...]string{"unknown", "taken", "clean", "never"}

// String is the ending's name on the wire: "clean".
func (e Ending) String() string { return nameOf(endingNames[:], uint8(e), "ending") }

// ParseEnding is the inverse of [Ending.String].
func ParseEnding(s string) (Ending, bool) {
	i, ok := indexOf(endingNames[:], s)
	return Ending(i), ok
}

// Outcome says how a tenure ended.
type Outcome uint8

const (
	OutcomeNone    Outcome = iota // not ended, or a reservation that was never activated
	OutcomeOK                     // released, the work was done
	OutcomeFailed                 // released, the work failed: see Detail
	OutcomeLapsed                 // authority withdrawn because the holder fell silent
	OutcomeRevoked                // authority withdrawn by an operator: see Detail
)

var outcomeNames = [...]string{"", "ok", "failed", "lapsed", "revoked"}

// String is the outcome's name on the wire: "ok"; empty for none.
func (o Outcome) String() string { return nameOf(outcomeNames[:], uint8(o), "outcome") }

// ParseOutcome is the inverse of [Outcome.String].
func ParseOutcome(s string) (Outcome, bool) {
	if s == "" {
		return OutcomeNone, true
	}
	i, ok := indexOf(outcomeNames[:], s)
	return Outcome(i), ok
}

// Result is what became of a tenure: its outcome and, for a failure or a
// revocation, a word about it (at most [MaxReasonBytes] of UTF-8).
type Result struct {
	Outcome Outcome
	Detail  string
}

// Lease is the one authority object: it covers one resource or a bundle, has
// one holder, one lifecycle, one fencing token.
type Lease struct {
	// Ref is what the holder's commands carry. Its Token is zero unless the
	// lease is reserved or active: there is no authority to prove otherwise.
	Ref
	ID        LeaseID
	Epoch     Epoch
	Resources []Resource // in the order of the claim; shared, not to be changed
	Holder    Holder
	State     State
	TTL       time.Duration // NoTTL
	Grace     time.Duration // 0 = none
	Prior     Ending        // how the resource's previous tenure ended, fixed at the grant; for a bundle its worst member
	Result    Result
	Meta      []byte // shared, not to be changed

	Replayed bool // the answer to an operation that had been executed before
	LSN      LSN  // of the lease's last change
	AsOf     LSN  // what the engine observed when it answered

	// For people: the engine's wall clock, and its reckoning of the time left.
	// Nothing may be decided by comparing them across machines.
	GrantedAt time.Time
	EndedAt   time.Time     // zero while live
	ExpiresIn time.Duration // until authority may be withdrawn for silence (active) or at the deadline (reserved); 0 = not known or never
	FreeIn    time.Duration // until the resources may be reusable if the holder stays silent; 0 = not known or never
}

func nameOf(names []string, i uint8, kind string) string {
	if int(i) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

func indexOf(names []string, s string) (uint8, bool) {
	for i, name := range names {
		if name == s && s != "" {
			return uint8(i), true
		}
	}
	return 0, false
}
