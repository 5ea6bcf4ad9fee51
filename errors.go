package tenure

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code says why an engine refused, or what it could not find out. Codes are
// errors themselves, for errors.Is: errors.Is(err, tenure.ErrHeld).
type Code uint8

// A definite refusal changed nothing. ErrUnknownOutcome is settled by
// repeating the same call with the same operation.
const (
	ErrHeld           Code = iota + 1 // somebody else owns it: Error says who, and when it may be free
	ErrStale                          // the token is no longer current
	ErrHolderMismatch                 // the lease has another holder
	ErrNotFound                       // no such lease, or the resource is free
	ErrEnded                          // the lease is kept, but over
	ErrRetired                        // dropped from history, or an operation too old to be judged
	ErrInvalidState                   // the lease's state does not allow it
	ErrConflict                       // the operation was used before, for another claim
	ErrLost                           // a holder's belief in its lease has ended
	ErrUnknownOutcome                 // it may have happened: repeat the same call to settle it
	ErrHalted                         // a write failed, the engine acknowledges nothing more: reopen it
	ErrRecovering                     // restored: grants wait until earlier holders must have given up
	ErrFull                           // a limit is reached
	ErrUnsupported                    // this engine lacks the capability
	ErrInvalid                        // a field is malformed or out of range: Error names it
	ErrDenied                         // not authenticated, or not allowed
	ErrUnavailable                    // the engine cannot be reached or is closing; nothing was done
	ErrCompacted                      // the watch position is gone: Error.LSN is where to go on from
)

var codeNames = [...]string{
	ErrHeld: "held", ErrStale: "stale", ErrHolderMismatch: "holder_mismatch", ErrNotFound: "not_found",
	ErrEnded: "ended", ErrRetired: "retired", ErrInvalidState: "invalid_state", ErrConflict: "conflict",
	ErrLost: "lost", ErrUnknownOutcome: "unknown_outcome", ErrHalted: "halted", ErrRecovering: "recovering",
	ErrFull: "full", ErrUnsupported: "unsupported", ErrInvalid: "invalid", ErrDenied: "denied",
	ErrUnavailable: "unavailable", ErrCompacted: "compacted",
}

// String is the code's name on the wire and in metrics: "held",
// "unknown_outcome".
func (c Code) String() string {
	if c == 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("code(%d)", uint8(c))
	}
	return codeNames[c]
}

// Error makes a bare code usable as an errors.Is target.
func (c Code) Error() string { return "tenure: " + c.String() }

// ParseCode is the inverse of [Code.String].
func ParseCode(s string) (Code, bool) {
	for c := ErrHeld; int(c) < len(codeNames); c++ {
		if codeNames[c] == s {
			return c, true
		}
	}
	return 0, false
}

// Codes lists every code, for tables that must not miss one.
func Codes() []Code {
	all := make([]Code, 0, len(codeNames)-1)
	for c := ErrHeld; int(c) < len(codeNames); c++ {
		all = append(all, c)
	}
	return all
}

// Error is a refusal, or an outcome that is not known. Fields that do not
// apply are zero.
type Error struct {
	Code     Code
	Resource Resource
	Lease    LeaseID
	Holder   Holder        // ErrHeld: who owns it; ErrHolderMismatch: whose lease it is
	Free     time.Duration // ErrHeld, ErrRecovering: how long until it may be free if its holder stays silent, by the engine's reckoning; 0 = not known
	Field    string        // ErrInvalid, ErrFull: the field or limit
	LSN      LSN           // what the engine observed; ErrCompacted: the position to go on from
	Op       Op            // ErrUnknownOutcome of an Acquire: repeat the claim with it
	Why      string        // what was asked, what stands in the way, what can be done
	Cause    error         // what lies below, for errors.Is and As
}

// Error is one line: code, the resource, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("tenure: ")
	b.WriteString(e.Code.String())
	if e.Field != "" {
		b.WriteString(" " + e.Field)
	}
	if e.Resource != "" {
		b.WriteString(" " + shorten(string(e.Resource)))
	}
	if e.Why != "" {
		b.WriteString(": " + e.Why)
	}
	if e.Cause != nil {
		b.WriteString(": " + e.Cause.Error())
	}
	return b.String()
}

// Is matches the error's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf is the code of the first [*Error] or [Code] in err's tree; 0 for nil
// and for errors of other origin.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return 0
}

func invalid(field string, r Resource, why string) error {
	if len(r) > MaxResourceBytes {
		r = ""
	}
	return &Error{Code: ErrInvalid, Field: field, Resource: r, Why: why}
}
