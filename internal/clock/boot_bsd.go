//go:build darwin || freebsd || openbsd || dragonfly

package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

type boot struct{}

// Now reads CLOCK_MONOTONIC; it panics if the kernel refuses, as no lease can be judged without it.
func (boot) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("clock: cannot read CLOCK_MONOTONIC: %v", err))
	}
	return time.Duration(ts.Nano())
}
