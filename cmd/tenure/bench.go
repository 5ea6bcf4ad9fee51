package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenurehq/tenure"
)

// benchCmd measures an engine as it is configured, durability included.
type benchCmd struct {
	What     string        `arg:"" default:"cycles" enum:"cycles,renew,contend,handover" help:"cycles: acquire and release; renew: heartbeats of held leases; contend: try-lock of one held resource; handover: release until the next waiter holds."`
	Callers  int           `default:"64" help:"Concurrent callers."`
	Leases   int           `placeholder:"10000" help:"For renew: leases that are kept alive."`
	Duration time.Duration `default:"5s" help:"How long to measure."`
}

// measured is what a benchmark prints.
type measured struct {
	What    string        `json:"what"`
	Engine  string        `json:"engine"`
	Callers int           `json:"callers"`
	Seconds float64       `json:"seconds"`
	Count   int           `json:"count"`
	PerSec  float64       `json:"per_second"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// Run measures.
func (c *benchCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	switch {
	case c.Callers < 1 || c.Callers > 100_000 || c.Leases < 0 || c.Duration <= 0:
		return usage("--callers is 1 to 100000, --leases at least 1, --duration positive")
	case c.Leases > 0 && c.What != "renew":
		return usage("--leases goes with bench renew")
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		b := &bench{engine: eng, callers: c.Callers, leases: cmp.Or(c.Leases, 10_000), tag: tenure.NewOp(0).String()[:8]}
		loop := map[string]func(context.Context, int) (turn, func(), error){
			"cycles": b.cycles, "renew": b.renew, "contend": b.contend, "handover": b.handOver,
		}[c.What]
		r, err := b.run(ctx, c.Duration, loop)
		if err != nil {
			return err
		}
		r.What, r.Engine, r.Callers = c.What, g.shown(), c.Callers
		if g.JSON {
			return m.printJSON(r)
		}
		fmt.Fprintf(m.Stdout, "%s on %s, %d callers, %.1f s: %.0f/s, p50 %v, p99 %v, max %v\n",
			r.What, r.Engine, r.Callers, r.Seconds, r.PerSec, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.Max.Round(time.Microsecond))
		return nil
	})
}

// turn does a caller's next piece of work: how long it took, and how much it
// was.
type turn func() (took time.Duration, did int, err error)

type bench struct {
	engine  tenure.Engine
	callers int
	leases  int
	tag     string

	released atomic.Pointer[time.Time] // handover: when the last holder began to release
}

// run prepares every caller, lets them go together, and gathers what each
// turn took and how much it did.
func (b *bench) run(ctx context.Context, d time.Duration, prepare func(context.Context, int) (turn, func(), error)) (measured, error) {
	turns, ends := make([]turn, b.callers), make([]func(), b.callers)
	for i := range turns {
		var err error
		if turns[i], ends[i], err = prepare(ctx, i); err != nil {
			return measured{}, err
		}
		defer ends[i]()
	}
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	count := 0
	start := time.Now()
	var running sync.WaitGroup
	for _, next := range turns {
		running.Go(func() {
			var mine []time.Duration
			n := 0
			var err error
			for err == nil && ctx.Err() == nil && time.Since(start) < d {
				var took time.Duration
				var did int
				if took, did, err = next(); err == nil {
					mine, n = append(mine, took), n+did
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all, count, failed = append(all, mine...), count+n, errors.Join(failed, err)
		})
	}
	running.Wait()
	seconds := time.Since(start).Seconds()
	switch {
	case ctx.Err() != nil: // what was under way then is of no interest
		return measured{}, context.Cause(ctx)
	case failed != nil:
		return measured{}, failed
	case len(all) == 0:
		return measured{}, fmt.Errorf("nothing was done within %v: measure for longer", d)
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(int(float64(len(all))*q), len(all)-1)] }
	return measured{Seconds: seconds, Count: count, PerSec: float64(count) / seconds, P50: at(0.5), P99: at(0.99), Max: all[len(all)-1]}, nil
}

func (b *bench) claim(name string) tenure.Claim {
	return tenure.Claim{Resources: tenure.On("bench." + b.tag + "/" + name).Resources, Holder: "bench", TTL: time.Minute}
}

func (b *bench) release(ctx context.Context, l tenure.Lease) error {
	_, err := b.engine.Do(ctx, tenure.Release{Ref: l.Ref, Holder: l.Holder})
	return err
}

// cycles: each caller acquires and releases a resource of its own.
func (b *bench) cycles(ctx context.Context, i int) (turn, func(), error) {
	claim := b.claim(fmt.Sprintf("cycle-%d", i))
	return func() (time.Duration, int, error) {
		start := time.Now()
		l, err := b.engine.Acquire(ctx, claim)
		if err == nil {
			err = b.release(ctx, l)
		}
		return time.Since(start), 1, err
	}, func() {}, nil
}

// renew: each caller keeps its share of the leases alive, a hundred a call.
func (b *bench) renew(ctx context.Context, i int) (turn, func(), error) {
	var held []tenure.Lease
	var refs []tenure.Ref
	for n := i; n < b.leases; n += b.callers {
		l, err := b.engine.Acquire(ctx, b.claim(fmt.Sprintf("renew-%d", n)))
		if err != nil {
			return nil, nil, err
		}
		held, refs = append(held, l), append(refs, l.Ref)
	}
	end := func() {
		for _, l := range held {
			_ = b.release(context.WithoutCancel(ctx), l) // it lapses otherwise
		}
	}
	at := 0
	return func() (time.Duration, int, error) {
		if len(refs) == 0 {
			return 0, 0, nil
		}
		part := refs[at:min(at+100, len(refs))]
		at = (at + len(part)) % len(refs)
		start := time.Now()
		each, err := b.engine.Renew(ctx, part)
		return time.Since(start), len(part), errors.Join(append(each, err)...)
	}, end, nil
}

// contend: everybody tries for one resource that somebody holds.
func (b *bench) contend(ctx context.Context, i int) (turn, func(), error) {
	claim := b.claim("contended")
	end := func() {}
	if i == 0 {
		owner := claim
		owner.Holder = "owner"
		l, err := b.engine.Acquire(ctx, owner)
		if err != nil {
			return nil, nil, err
		}
		end = func() { _ = b.release(context.WithoutCancel(ctx), l) }
	}
	return func() (time.Duration, int, error) {
		start := time.Now()
		_, err := b.engine.Acquire(ctx, claim)
		if !errors.Is(err, tenure.ErrHeld) {
			return 0, 0, fmt.Errorf("the held resource was not refused: %w", err)
		}
		return time.Since(start), 1, nil
	}, end, nil
}

// handOver: everybody waits for one resource; the time is from a release to
// the next grant.
func (b *bench) handOver(ctx context.Context, _ int) (turn, func(), error) {
	claim := b.claim("passed-on")
	claim.Wait = time.Minute
	return func() (time.Duration, int, error) {
		l, err := b.engine.Acquire(ctx, claim)
		if err != nil {
			return 0, 0, err
		}
		took := time.Duration(0) // the first has nobody before it
		if before := b.released.Load(); before != nil {
			took = time.Since(*before)
		}
		now := time.Now()
		b.released.Store(&now) // only its holder is here
		return took, 1, b.release(ctx, l)
	}, func() {}, nil
}
