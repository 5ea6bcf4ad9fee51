// Package load drives a number of callers for a while and reports what they
// got done.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Work is what callers do, after it was prepared.
type Work struct {
	// Turn does caller i's next piece: how long it took, of how many
	// operations. A negative time is not counted as one.
	Turn func(ctx context.Context, i int) (took time.Duration, did int, err error)
	// Close undoes the preparation.
	Close func() error
	// Note is asked after the measurement for what else there is to say; may be
	// nil.
	Note func() string
}

// Result is what callers got done.
type Result struct {
	Callers int           `json:"callers"`
	Seconds float64       `json:"seconds"`
	Count   int64         `json:"count"` // operations
	PerSec  float64       `json:"per_second"`
	P50     time.Duration `json:"p50_ns"` // of a turn
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
	CPU     CPU           `json:"cpu"`
	Note    string        `json:"note,omitempty"`
}

// stuck is how long after its end a measurement may take to stop.
const stuck = 20 * time.Second

// Run lets all callers work for warm and then for d, of which only the latter
// counts: turns that end within it. Server is the process on the other end; 0
// is none.
func Run(ctx context.Context, w *Work, callers int, warm, d time.Duration, server int) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, warm+d+stuck, errors.New("the callers did not come to an end"))
	defer cancel()
	start := time.Now().Add(warm)
	end := start.Add(d)
	each := make([]caller, callers)
	var running sync.WaitGroup
	for i := range each {
		running.Go(func() { each[i].run(ctx, w, i, start, end) })
	}
	var used CPU
	var err error
	running.Go(func() { used, err = between(ctx, start, end, server) })
	running.Wait()
	all := caller{err: err}
	for i := range each {
		all.add(&each[i])
	}
	if all.err != nil {
		return Result{}, all.err
	}
	if all.count == 0 {
		return Result{}, fmt.Errorf("nothing was done within %v", d)
	}
	r := Result{
		Callers: callers, Seconds: d.Seconds(), Count: all.count, PerSec: float64(all.count) / d.Seconds(),
		P50: all.took.at(0.5), P99: all.took.at(0.99), Max: all.max, CPU: used,
	}
	if w.Note != nil {
		r.Note = w.Note()
	}
	return r, nil
}

// caller is what one of them got done.
type caller struct {
	count int64
	took  histogram
	max   time.Duration
	err   error
}

func (c *caller) run(ctx context.Context, w *Work, i int, start, end time.Time) {
	for {
		took, did, err := w.Turn(ctx, i)
		now := time.Now()
		if err != nil {
			c.err = fmt.Errorf("caller %d: %w", i, err)
			return
		}
		if now.After(end) {
			return
		}
		if now.Before(start) || took < 0 {
			continue
		}
		c.count += int64(did)
		c.took.note(took)
		c.max = max(c.max, took)
	}
}

func (c *caller) add(o *caller) {
	c.count += o.count
	c.took.add(&o.took)
	c.max = max(c.max, o.max)
	if c.err == nil { // one is enough to know: they are mostly the same
		c.err = o.err
	}
}
