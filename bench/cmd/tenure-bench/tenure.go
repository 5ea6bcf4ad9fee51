package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/bench/load"
	"github.com/tenurehq/tenure/client"
)

// ttl is what every subject's leases have.
const ttl = 15 * time.Second

func claim(use string, i int) tenure.Claim {
	return tenure.Claim{Resources: tenure.On(resource(use, i)).Resources, Holder: tenure.Holder(holder(i)), TTL: ttl}
}

func release(ctx context.Context, e tenure.Engine, l *tenure.Lease) error {
	_, err := e.Do(ctx, tenure.Release{Ref: l.Ref, Holder: l.Holder})
	return err
}

func tenureCycles(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := client.Dial(ctx, r.addr("tenure"))
	if err != nil {
		return nil, err
	}
	return &load.Work{Turn: cycle(c, callers), Close: c.Close}, nil
}

// cycle is acquire and release of the caller's own resource.
func cycle(e tenure.Engine, callers int) func(context.Context, int) (time.Duration, int, error) {
	claims := make([]tenure.Claim, callers)
	for i := range claims {
		claims[i] = claim("cycle", i)
	}
	return func(ctx context.Context, i int) (time.Duration, int, error) {
		start := time.Now()
		l, err := e.Acquire(ctx, claims[i])
		if err == nil {
			err = release(ctx, e, &l)
		}
		return time.Since(start), 1, err
	}
}

func tenureRenewals(batch int) func(context.Context, *rig, int) (*load.Work, error) {
	return func(ctx context.Context, r *rig, callers int) (*load.Work, error) {
		c, err := client.Dial(ctx, r.addr("tenure"))
		if err != nil {
			return nil, err
		}
		leases := make([]tenure.Lease, renewals)
		if err := parallel(renewals, func(i int) (err error) {
			leases[i], err = c.Acquire(ctx, claim("renew", i))
			return err
		}); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		refs := make([]tenure.Ref, renewals)
		for i := range leases {
			refs[i] = leases[i].Ref
		}
		grown := growth(ctx, c)
		next := rounds(renewals, batch, callers)
		return &load.Work{
			Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
				part := refs[next(i):][:batch]
				start := time.Now()
				each, err := c.Renew(ctx, part)
				took := time.Since(start)
				return took, batch, errors.Join(append(each, err)...)
			},
			Note: grown,
			Close: func() error {
				err := parallel(renewals, func(i int) error { return release(context.WithoutCancel(ctx), c, &leases[i]) })
				return errors.Join(err, c.Close())
			},
		}, nil
	}
}

// rounds gives each caller the beginning of its next batch of n: everything
// once, then again, each caller its own part.
func rounds(n, batch, callers int) func(caller int) int {
	batches := n / batch
	turns := make([]struct {
		n int
		_ [56]byte // a cache line of its own
	}, callers)
	return func(i int) int {
		at := (turns[i].n*callers + i) % batches
		turns[i].n++
		return at * batch
	}
}

// growth says how many commands the journal has got since it was called.
func growth(ctx context.Context, c *client.Client) func() string {
	before, err := c.Status(ctx)
	return func() string {
		after, later := c.Status(context.WithoutCancel(ctx))
		if err := errors.Join(err, later); err != nil {
			return "the journal's growth is not known: " + err.Error()
		}
		return fmt.Sprintf("the journal grew by %d commands", after.LSN-before.LSN)
	}
}

func tenureHandOver(ctx context.Context, r *rig, _ int) (*load.Work, error) {
	c, err := client.Dial(ctx, r.addr("tenure"))
	if err != nil {
		return nil, err
	}
	var baton baton
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			want := claim("pass", i)
			want.Resources = tenure.On(resource("pass", 0)).Resources
			want.Wait = time.Minute
			l, err := c.Acquire(ctx, want)
			if err != nil {
				return 0, 0, err
			}
			took := baton.taken()
			baton.passed()
			return took, 1, release(ctx, c, &l)
		},
		Close: c.Close,
	}, nil
}

// baton measures from one holder to the next.
type baton struct{ at atomic.Pointer[time.Time] }

// passed is called by a holder before it releases.
func (b *baton) passed() {
	now := time.Now()
	b.at.Store(&now)
}

// taken is called by the next holder; negative for the first.
func (b *baton) taken() time.Duration {
	before := b.at.Load()
	if before == nil {
		return -1
	}
	return time.Since(*before)
}

func tenureContention(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := client.Dial(ctx, r.addr("tenure"))
	if err != nil {
		return nil, err
	}
	owned := claim("contend", 0)
	owned.Holder = "owner"
	owned.TTL = tenure.NoTTL
	l, err := c.Acquire(ctx, owned)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	claims := make([]tenure.Claim, callers)
	for i := range claims {
		claims[i] = claim("contend", i)
		claims[i].Resources = owned.Resources
	}
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			start := time.Now()
			_, err := c.Acquire(ctx, claims[i])
			took := time.Since(start)
			if !errors.Is(err, tenure.ErrHeld) {
				return 0, 0, fmt.Errorf("a held resource was not refused: %w", err)
			}
			return took, 1, nil
		},
		Note: growth(ctx, c),
		Close: func() error {
			return errors.Join(release(context.WithoutCancel(ctx), c, &l), c.Close())
		},
	}, nil
}
