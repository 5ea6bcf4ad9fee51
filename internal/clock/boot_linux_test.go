package clock_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

// /proc/uptime is CLOCK_BOOTTIME as every other process of the host sees it, in hundredths of a second.
func TestBootIsTheHostsUptime(t *testing.T) {
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
