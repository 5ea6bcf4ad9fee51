// Package clock reads time for leases: how long since a fixed origin, on a clock that also counts the time a
// machine spends suspended.
//
// It only reads. Timers stay those of the standard library: a timer that fires late, because the machine was
// suspended or busy, is only late, and whoever acts on it reads the clock again first. Whoever must act
// promptly when a machine wakes needs a timer on the same clock (internal/keeper has one).
package clock

import "time"

// Clock tells the time since an arbitrary origin that is fixed for the life of the clock. It never goes back.
// Readings of two clocks are comparable only where their constructor says so.
type Clock interface {
	Now() time.Duration
}

// Boot is the clock of production. On Linux it reads CLOCK_BOOTTIME: time since the machine started, suspend
// included, so readings are comparable between all processes of one host (and one time namespace). On macOS,
// FreeBSD, OpenBSD and DragonFly it reads CLOCK_MONOTONIC: comparable likewise, but whether it counts suspend is up to the
// system. Elsewhere it is the monotonic clock of this process alone.
func Boot() Clock { return boot{} }

// Monotonic counts from the call on Go's monotonic clock, which stands still while Linux is suspended. It
// follows the fake time of testing/synctest, which Boot cannot, and is there for tests.
func Monotonic() Clock { return monotonic{start: time.Now()} }

type monotonic struct{ start time.Time }

func (m monotonic) Now() time.Duration { return time.Since(m.start) }
