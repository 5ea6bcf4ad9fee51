package clock_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv"
)

func Example() {
	var c clock.Manual
	deadline := c.Now() + 10*time.Second
	c.Advance(4 * time.Second)
	fmt.Println("left:", deadline-c.Now())
	// Output: left: 6s
}

// /proc/uptime is CLOCK_BOOTTIME as every other process of the host sees it, in hundredths of a second.
func TestBootIsTheHostsUptime(t *testing.T) {
	if runtime.GOOS != "linux" {
		testenv.Need(t, "Linux")
	}
	uptime := func() time.Duration {
		text, err := os.ReadFile("/proc/uptime")
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(seconds * float64(time.Second))
	}
	before := uptime()
	now := clock.Boot().Now()
	after := uptime()
	if slack := 20 * time.Millisecond; now < before-slack || now > after+slack {
		t.Fatalf("Boot reads %v, /proc/uptime %v before and %v after", now, before, after)
	}
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
