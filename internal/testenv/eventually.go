package testenv

import (
	"testing"
	"time"
)

// Eventually waits until ok says yes and fails the test when it has not within
// the time. It is for what happens in other processes, which nothing but a look
// at their traces tells; inside one process, wait for a signal.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.NewTimer(within)
	defer late.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-late.C:
			if !ok() {
				t.Fatalf("not within %v: %s", within, what)
			}
			return
		}
	}
}
