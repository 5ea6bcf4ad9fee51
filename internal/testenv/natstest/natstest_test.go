package natstest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure/internal/testenv/natstest"
)

func TestRestartKeepsStoreAndPort(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := natstest.Start(t)
	before := s.URL()
	if _, err := bucket(ctx, t, s).PutString(ctx, "name", "kept"); err != nil {
		t.Fatal(err)
	}

	s.Stop()
	if c, err := nats.Connect(s.URL()); err == nil {
		c.Close()
		t.Fatal("a stopped server answers")
	}
	s.Stop()
	s.Restart()

	if s.URL() != before {
		t.Errorf("the address became %s, was %s", s.URL(), before)
	}
	entry, err := bucket(ctx, t, s).Get(ctx, "name")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(entry.Value()); got != "kept" {
		t.Errorf("the value became %q", got)
	}
}

func TestEdit(t *testing.T) {
	dir := t.TempDir()
	s := natstest.Start(t, func(o *server.Options) { o.StoreDir = dir })
	bucket(t.Context(), t, s)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Errorf("nothing in the store that the edit named: %v, %v", entries, err)
	}
}

func bucket(ctx context.Context, t *testing.T, s *natstest.Server) jetstream.KeyValue {
	t.Helper()
	c, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "leases"})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}
