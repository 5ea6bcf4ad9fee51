package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/tenurehq/tenure/bench/load"
)

func newEtcd(r *rig) (*etcd.Client, error) {
	return etcd.New(etcd.Config{Endpoints: []string{"http://" + r.addr("etcd")}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// create puts a key that is not there, and reports false if it is.
func create(ctx context.Context, c *etcd.Client, key, value string) (bool, error) {
	answer, err := c.Txn(ctx).If(etcd.Compare(etcd.CreateRevision(key), "=", 0)).Then(etcd.OpPut(key, value)).Commit()
	if err != nil {
		return false, err
	}
	return answer.Succeeded, nil
}

func etcdCycles(_ context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := newEtcd(r)
	if err != nil {
		return nil, err
	}
	all := names("cycle", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			key := all.resources[i]
			start := time.Now()
			created, err := create(ctx, c, key, all.holders[i])
			if err == nil && !created {
				err = errors.New("the key was there")
			}
			if err == nil {
				_, err = c.Delete(ctx, key)
			}
			return time.Since(start), 1, err
		},
		Close: c.Close,
	}, nil
}

// etcdHandOver has a session for each waiter, as if they were processes of
// their own, on one connection.
func etcdHandOver(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := newEtcd(r)
	if err != nil {
		return nil, err
	}
	locks := make([]*concurrency.Mutex, callers)
	sessions := make([]*concurrency.Session, callers)
	if err := parallel(callers, func(i int) (err error) {
		if sessions[i], err = concurrency.NewSession(c, concurrency.WithTTL(60)); err == nil {
			locks[i] = concurrency.NewMutex(sessions[i], "/"+resource("pass", 0))
		}
		return err
	}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	var baton baton
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			if err := locks[i].Lock(ctx); err != nil {
				return 0, 0, err
			}
			took := baton.taken()
			baton.passed()
			return took, 1, locks[i].Unlock(ctx)
		},
		Close: func() error {
			err := parallel(callers, func(i int) error { return sessions[i].Close() })
			return errors.Join(err, c.Close())
		},
	}, nil
}

func etcdContention(ctx context.Context, r *rig, callers int) (*load.Work, error) {
	c, err := newEtcd(r)
	if err != nil {
		return nil, err
	}
	key := resource("contend", 0)
	if _, err := c.Put(ctx, key, "owner"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	all := names("contend", callers)
	return &load.Work{
		Turn: func(ctx context.Context, i int) (time.Duration, int, error) {
			start := time.Now()
			created, err := create(ctx, c, key, all.holders[i])
			took := time.Since(start)
			if err == nil && created {
				err = fmt.Errorf("the key %s was not there any more", key)
			}
			return took, 1, err
		},
		Close: func() error {
			_, err := c.Delete(context.WithoutCancel(ctx), key)
			return errors.Join(err, c.Close())
		},
	}, nil
}
