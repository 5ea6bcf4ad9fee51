package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv/natstest"
	"github.com/tenurehq/tenure/kv"
)

func TestConformanceMemory(t *testing.T) {
	enginetest.RunInBubble(t, func(t *testing.T, l tenure.Limits) enginetest.Subject {
		memory := kv.Memory()
		store := &faulty{Store: memory}
		open := func() tenure.Engine {
			store.outage(none)
			return engineOn(t, store, kv.Config{Limits: l, Poll: time.Hour}) // only the watch wakes
		}
		return enginetest.Subject{Engine: open(), Peer: open(), Restart: open, Recreate: func() tenure.Engine {
			memory.Recreate()
			return open()
		}, Lose: func(executed bool) {
			store.fail(map[bool]fault{true: darkAfter, false: darkBefore}[executed])
		}}
	})
}

func engineOn(t *testing.T, store kv.Store, c kv.Config) *kv.Engine {
	t.Helper()
	c.Clock = clock.Monotonic()
	e, err := kv.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// aged lets a bucket that was created for a test be old: otherwise every first
// claim in it watches for TTL + grace whether an earlier bucket had a holder.
type aged struct{ kv.Store }

func (a aged) Bucket(ctx context.Context) (kv.Bucket, error) {
	b, err := a.Store.Bucket(ctx)
	b.Now = b.Now.Add(1000 * time.Hour)
	return b, err
}

func TestConformanceNATS(t *testing.T) {
	server := natstest.Start(t)
	enginetest.Run(t, func(t *testing.T, l tenure.Limits) enginetest.Subject {
		bucket := bucketFor(t)
		initBucket(t, server, bucket)
		store := &faulty{Store: aged{openBucket(t, server, bucket)}}
		open := func() tenure.Engine { return engineOn(t, aged{openBucket(t, server, bucket)}, kv.Config{Limits: l}) }
		return enginetest.Subject{Engine: engineOn(t, store, kv.Config{Limits: l}), Peer: open(), Restart: func() tenure.Engine {
			server.Restart()
			return open()
		}, Recreate: func() tenure.Engine {
			if err := connect(t, server).DeleteKeyValue(t.Context(), bucket); err != nil {
				t.Fatal(err)
			}
			initBucket(t, server, bucket)
			return open()
		}, Lose: func(executed bool) {
			store.fail(map[bool]fault{true: lostAfter, false: lostBefore}[executed])
		}}
	})
}
