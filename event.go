package tenure

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Position is where an event stands in its engine's history (T9), written
// "42.0".
type Position struct {
	LSN   LSN
	Index uint32
}

// IsZero reports whether p is before every event.
func (p Position) IsZero() bool { return p == Position{} }

// Compare orders positions; it returns -1, 0 or +1.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.LSN, q.LSN); c != 0 {
		return c
	}
	return cmp.Compare(p.Index, q.Index)
}

// String is the canonical form "42.0".
func (p Position) String() string {
	return strconv.FormatUint(uint64(p.LSN), 10) + "." + strconv.FormatUint(uint64(p.Index), 10)
}

// ParsePosition reads "42.0", or "42" for "42.0".
func ParsePosition(s string) (Position, error) {
	lsn, index, found := strings.Cut(s, ".")
	n, okLSN := canonical(lsn, uint64(MaxLSN))
	i, okIndex := canonical(index, math.MaxUint32)
	if !okLSN || (found && !okIndex) {
		return Position{}, invalid("from", "", fmt.Sprintf("%s is not a position: write LSN.INDEX, for example 42.0", quote(s)))
	}
	return Position{LSN: LSN(n), Index: uint32(i)}, nil
}

// EventKind says what became of a lease.
type EventKind uint8

const (
	EventWatching  EventKind = iota + 1 // the watch stands: nothing after this position is missed; Lease is zero
	EventGranted                        // acquired or reserved: see the lease's state
	EventActivated                      // a reservation was confirmed
	EventReleased                       // ended by its holder
	EventRevoking                       // authority was withdrawn
	EventFreed                          // reclaimed after that: the resources are reusable
	EventExpired                        // a reservation aged out
)

var eventNames = [...]string{
	EventWatching: "watching", EventGranted: "granted", EventActivated: "activated", EventReleased: "released",
	EventRevoking: "revoking", EventFreed: "freed", EventExpired: "expired",
}

// String is the kind's name on the wire: "granted".
func (k EventKind) String() string { return nameOf(eventNames[:], uint8(k), "event") }

// ParseEventKind is the inverse of [EventKind.String].
func ParseEventKind(s string) (EventKind, bool) {
	i, ok := indexOf(eventNames[:], s)
	return EventKind(i), ok
}

// Event is one change of one lease, as it stood right after the change.
type Event struct {
	Position Position
	Kind     EventKind
	At       time.Time // the engine's wall clock, for people
	Lease    Lease
}
