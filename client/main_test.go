package client_test

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve puts an engine on a loopback port until the test ends, or stop is
// called, which drains it.
func serve(t testing.TB, engine tenure.Engine, cfg server.Config) (address string, stop func()) {
	t.Helper()
	return serveAt(t, engine, cfg, "127.0.0.1:0")
}

func serveAt(t testing.TB, engine tenure.Engine, cfg server.Config, at string) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.New(engine, cfg).Serve(ctx, l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// memory is a real engine that lasts as long as the test.
func memory(t testing.TB) *journal.Engine {
	t.Helper()
	e := journal.Memory()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func dial(t testing.TB, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// on is a claim of one resource by one holder.
func on(resource, holder string) tenure.Claim {
	c := tenure.On(resource)
	c.Holder = tenure.Holder(holder)
	return c
}
