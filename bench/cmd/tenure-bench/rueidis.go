package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/tenurehq/tenure/bench/load"
)

// newRueidis is a client as it comes, which packs concurrent commands; only its
// cache of replies, which nobody asks for here, is off.
func newRueidis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
}

func rueidisCycles(_ context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := newRueidis(r.addr("redis"))
	if err != nil {
		return nil, err
	}
	script := rueidis.NewLuaScript(compareAndDelete)
	all := names("cycle", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			key, value := all.resources[i], all.holders[i]
			start := time.Now()
			set := c.B().Set().Key(key).Value(value).Nx().PxMilliseconds(ttl.Milliseconds()).Build()
			if err := c.Do(ctx, set).Error(); err != nil {
				return 0, 0, fmt.Errorf("set: %w", err)
			}
			n, err := script.Exec(ctx, c, []string{key}, []string{value}).AsInt64()
			if err == nil && n != 1 {
				err = errors.New("the key was not there any more")
			}
			return time.Since(start), 1, err
		},
		Close: closeRueidis(c),
	}, nil
}

func rueidisContention(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := newRueidis(r.addr("redis"))
	if err != nil {
		return nil, err
	}
	key := resource("contend", 0)
	if err := c.Do(ctx, c.B().Set().Key(key).Value("owner").Build()).Error(); err != nil {
		c.Close()
		return nil, err
	}
	all := names("contend", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			start := time.Now()
			set := c.B().Set().Key(key).Value(all.holders[i]).Nx().PxMilliseconds(ttl.Milliseconds()).Build()
			err := c.Do(ctx, set).Error()
			took := time.Since(start)
			if !rueidis.IsRedisNil(err) {
				return 0, 0, fmt.Errorf("a key that is there was not refused: %w", err)
			}
			return took, 1, nil
		},
		Close: func() error {
			err := c.Do(context.WithoutCancel(ctx), c.B().Del().Key(key).Build()).Error()
			c.Close()
			return err
		},
	}, nil
}

func closeRueidis(c rueidis.Client) func() error {
	return func() error {
		c.Close()
		return nil
	}
}
