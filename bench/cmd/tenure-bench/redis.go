package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tenurehq/tenure/bench/load"
)

// compareAndDelete is the release that Redis's documentation gives.
const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

// goRedis is a client with a connection for each caller, all of them open.
func goRedis(ctx context.Context, addr string, callers int) (*redis.Client, error) {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: callers})
	err := parallel(callers, func(int) error { return c.Ping(ctx).Err() })
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func redisCycles(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := goRedis(ctx, r.addr("redis"), callers)
	if err != nil {
		return nil, err
	}
	script := redis.NewScript(compareAndDelete)
	if err := script.Load(ctx, c).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	all := names("cycle", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			key, value := all.resources[i], all.holders[i]
			start := time.Now()
			if err := c.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); err != nil {
				return 0, 0, fmt.Errorf("set: %w", err)
			}
			n, err := script.EvalSha(ctx, c, []string{key}, value).Int()
			if err == nil && n != 1 {
				err = errors.New("the key was not there any more")
			}
			return time.Since(start), 1, err
		},
		Close: c.Close,
	}, nil
}

// redisRenewals are by as many clients, with one connection each, as there are
// callers.
func redisRenewals(server string) func(context.Context, *rig, int) (*load.Work, error) {
	const batch = 100
	return func(ctx context.Context, r *rig, callers int) (*load.Work, error) {
		clients := make([]*redis.Client, callers)
		for i := range clients {
			clients[i] = redis.NewClient(&redis.Options{Addr: r.addr(server), PoolSize: 1})
		}
		closing := func() error {
			var err error
			for _, c := range clients {
				err = errors.Join(err, c.Close())
			}
			return err
		}
		keys := make([]string, renewals)
		pipe := clients[0].Pipeline()
		for i := range keys {
			keys[i] = resource("renew", i)
			pipe.Set(ctx, keys[i], holder(i), time.Minute)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, errors.Join(err, closing())
		}
		next := rounds(renewals, batch, callers)
		return &load.Work{
			Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
				part := keys[next(i):][:batch]
				start := time.Now()
				pipe := clients[i].Pipeline()
				for _, key := range part {
					pipe.PExpire(ctx, key, time.Minute)
				}
				answers, err := pipe.Exec(ctx)
				took := time.Since(start)
				for _, a := range answers {
					if !a.(*redis.BoolCmd).Val() && err == nil {
						err = errors.New("a key was not there any more")
					}
				}
				return took, batch, err
			},
			Close: func() error {
				return errors.Join(clients[0].Del(context.WithoutCancel(ctx), keys...).Err(), closing())
			},
		}, nil
	}
}

func redisContention(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := goRedis(ctx, r.addr("redis"), callers)
	if err != nil {
		return nil, err
	}
	key := resource("contend", 0)
	if err := c.Set(ctx, key, "owner", 0).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	all := names("contend", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			start := time.Now()
			err := c.SetArgs(ctx, key, all.holders[i], redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
			took := time.Since(start)
			if !errors.Is(err, redis.Nil) {
				return 0, 0, fmt.Errorf("a key that is there was not refused: %w", err)
			}
			return took, 1, nil
		},
		Close: func() error {
			return errors.Join(c.Del(context.WithoutCancel(ctx), key).Err(), c.Close())
		},
	}, nil
}
