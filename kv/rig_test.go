package kv_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure/internal/testenv/natstest"
	"github.com/tenurehq/tenure/kv"
)

// connect is a connection of its own, as another process would have.
func connect(t *testing.T, s *natstest.Server) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// bucketFor is a bucket's name for one test.
func bucketFor(t *testing.T) string {
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return fmt.Sprintf("test-%x", h.Sum64())
}

func initBucket(t *testing.T, s *natstest.Server, bucket string) {
	t.Helper()
	if err := kv.InitNATS(t.Context(), connect(t, s), bucket, kv.NATSOptions{}); err != nil {
		t.Fatal(err)
	}
}

func openBucket(t *testing.T, s *natstest.Server, bucket string) kv.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	store, err := kv.NATSStore(ctx, connect(t, s), bucket, kv.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
