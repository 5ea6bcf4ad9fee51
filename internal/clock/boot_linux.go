package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

type boot struct{}

// Now panics if the kernel has no CLOCK_BOOTTIME (Linux before 2.6.39): no lease can be judged without it.
func (boot) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("clock: cannot read CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(ts.Nano())
}
