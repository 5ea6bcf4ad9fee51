package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenurehq/tenure"
)

// FromLeaseID is empty for the zero id.
func FromLeaseID(id tenure.LeaseID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// ToLeaseID reads the canonical form; empty is the zero id.
func ToLeaseID(s string) (tenure.LeaseID, error) {
	if s == "" {
		return tenure.LeaseID{}, nil
	}
	return tenure.ParseLeaseID(s)
}

// ToToken reads the canonical form; empty is the zero token.
func ToToken(s string) (tenure.Token, error) {
	if s == "" {
		return tenure.Token{}, nil
	}
	return tenure.ParseToken(s)
}

func toLSN(field string, n uint64) (tenure.LSN, error) {
	if n > uint64(tenure.MaxLSN) {
		return 0, invalid(field, fmt.Sprintf("%d is above the last position, %d", n, tenure.MaxLSN))
	}
	return tenure.LSN(n), nil
}

func millis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// asked writes a duration that a caller asks for: rounded up, since it is a
// lower bound of silence, and refused where it does not fit.
func asked(field string, d time.Duration) (uint32, error) {
	ms := ceil(d)
	if d < 0 || ms > math.MaxUint32 {
		return 0, invalid(field, fmt.Sprintf("%v is out of range", d))
	}
	return uint32(ms), nil
}

// remaining writes the time until something may be free: rounded up, and
// saturated, since late is right and early is not.
func remaining(d time.Duration) uint32 {
	return uint32(min(max(ceil(d), 0), math.MaxUint32))
}

// left writes the time until authority may end: rounded down, but not to 0,
// which means that it is not known.
func left(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min(max(int64(d/time.Millisecond), 1), math.MaxUint32))
}

func ceil(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d > 0 && d%time.Millisecond != 0 {
		ms++
	}
	return ms
}

// valid replaces what is not UTF-8, which no message may carry, in text that
// is for people.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// sendable refuses text that no message may carry. The engine would refuse it
// too, so nothing is lost by not asking.
func sendable(field, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return invalid(field, fmt.Sprintf("%q is not UTF-8", s))
}

func invalid(field, why string) error {
	return &tenure.Error{Code: tenure.ErrInvalid, Field: field, Why: why}
}
