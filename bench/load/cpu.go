package load

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU is processor time, in seconds, that a measurement took: of the callers'
// process, of the server's, and of everything else on the machine, the kernel's
// own threads included. What others took was not available to those that were
// measured.
type CPU struct {
	Callers float64 `json:"callers_s"`
	Server  float64 `json:"server_s"`
	Others  float64 `json:"others_s"`
	Stolen  float64 `json:"stolen_s"` // by the machine's host
}

// tick is the unit of /proc, the same on every Linux that Go runs on.
const tick = 0.01

// between is what was used between two moments.
func between(ctx context.Context, start, end time.Time, server int) (CPU, error) {
	if err := until(ctx, start); err != nil {
		return CPU{}, err
	}
	before, err := used(server)
	if err != nil {
		return CPU{}, err
	}
	if err := until(ctx, end); err != nil {
		return CPU{}, err
	}
	after, err := used(server)
	c := CPU{
		Callers: after.Callers - before.Callers, Server: after.Server - before.Server,
		Others: after.Others - before.Others, Stolen: after.Stolen - before.Stolen,
	}
	c.Others = max(c.Others-c.Callers-c.Server, 0)
	return c, err
}

func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// used so far; Others is the whole machine's.
func used(server int) (CPU, error) {
	var c CPU
	var err error
	if c.Callers, err = process(os.Getpid()); err != nil {
		return c, err
	}
	if server != 0 {
		if c.Server, err = process(server); err != nil {
			return c, err
		}
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(f) < 9 {
		return c, fmt.Errorf("/proc/stat begins with %q", line)
	}
	c.Others, err = ticks(f[1], f[2], f[3])
	if err != nil {
		return c, err
	}
	c.Stolen, err = ticks(f[8])
	return c, err
}

func process(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third field on
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat holds %q", pid, stat)
	}
	return ticks(f[11], f[12]) // utime, stime
}

func ticks(fields ...string) (float64, error) {
	sum := 0.0
	for _, f := range fields {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += float64(n) * tick
	}
	return sum, nil
}
