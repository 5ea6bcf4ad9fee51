//go:build darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

// alarm sends on C when clock.Boot passes the time that was set, or later if the machine was suspended. It may
// send once too often; who hears it reads the clock.
type alarm struct {
	C     chan struct{}
	clock clock.Clock
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	return &alarm{C: make(chan struct{}, 1), clock: clock.Boot()}, nil
}

// set replaces the time. Only whoever closes the alarm may call it.
func (a *alarm) set(at time.Duration) {
	a.close()
	a.timer = time.AfterFunc(at-a.clock.Now(), func() {
		select {
		case a.C <- struct{}{}:
		default:
		}
	})
}

func (a *alarm) close() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
