package clock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

func Example() {
	var c clock.Manual
	deadline := c.Now() + 10*time.Second
	c.Advance(4 * time.Second)
	fmt.Println("left:", deadline-c.Now())
	// Output: left: 6s
}

func TestBootNeverGoesBack(t *testing.T) {
	c := clock.Boot()
	for last, i := c.Now(), 0; i < 10_000; i++ {
		now := c.Now()
		if now < last {
			t.Fatalf("went back from %v to %v", last, now)
		}
		last = now
	}
}

func TestMonotonicFollowsFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Monotonic()
		if now := c.Now(); now != 0 {
			t.Fatalf("starts at %v, want 0", now)
		}
		time.Sleep(time.Hour)
		if now := c.Now(); now != time.Hour {
			t.Fatalf("after a fake hour reads %v", now)
		}
	})
}

func TestManualMovesOnlyForward(t *testing.T) {
	var c clock.Manual
	c.Set(time.Second)
	c.Advance(time.Second)
	if now := c.Now(); now != 2*time.Second {
		t.Fatalf("reads %v, want 2s", now)
	}
	for name, back := range map[string]func(){
		"Set":     func() { c.Set(time.Second) },
		"Advance": func() { c.Advance(-time.Nanosecond) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("moved back without a panic")
				}
				if now := c.Now(); now != 2*time.Second {
					t.Errorf("reads %v afterwards, want 2s", now)
				}
			}()
			back()
		})
	}
}

func TestManualIsSafeForConcurrentUse(t *testing.T) {
	var c clock.Manual
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Advance(time.Nanosecond)
			}
		})
	}
	wg.Wait()
	if now := c.Now(); now != 8000 {
		t.Fatalf("8000 steps of 1ns read %v", now)
	}
}
