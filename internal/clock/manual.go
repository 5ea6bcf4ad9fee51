package clock

import (
	"fmt"
	"sync"
	"time"
)

// Manual is a Clock that moves only when told to. The zero value stands at 0. Safe for concurrent use.
type Manual struct {
	mu  sync.Mutex
	now time.Duration
}

// Now returns the time it was last moved to.
func (m *Manual) Now() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Set moves the clock to now. It panics if that is back: no Clock goes back.
func (m *Manual) Set(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now < m.now {
		panic(fmt.Sprintf("clock: Manual set back from %v to %v", m.now, now))
	}
	m.now = now
}

// Advance moves the clock forward by d, which must not be negative.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d < 0 {
		panic(fmt.Sprintf("clock: Manual advanced by %v", d))
	}
	m.now += d
}
