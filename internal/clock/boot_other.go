//go:build !linux && !darwin && !freebsd && !openbsd && !dragonfly

package clock

import "time"

var origin = time.Now()

type boot struct{}

func (boot) Now() time.Duration { return time.Since(origin) }
