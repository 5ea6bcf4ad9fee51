package enginetest_test

import (
	"context"
	"net"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

// A client of a live server on a socket, over a journal on disk, all by the
// clocks of production. The numbered cases run on it in its own room.
//
// proves: T8
func TestHistoriesOfAClient(t *testing.T) {
	enginetest.Histories(t, live)
}

func live(t *testing.T, limits tenure.Limits) enginetest.Subject {
	h := &house{t: t, limits: limits, dir: t.TempDir()}
	h.start("127.0.0.1:0")
	t.Cleanup(h.stop)
	again := func(dir string) tenure.Engine {
		h.stop()
		h.dir = dir
		h.start(h.address)
		return dial(t, h.address)
	}
	return enginetest.Subject{
		Engine:  dial(t, h.address),
		Restart: func() tenure.Engine { return again(crashed(t, h.dir)) },
	}
}

func dial(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// house is a server and its engine.
type house struct {
	t       *testing.T
	limits  tenure.Limits
	dir     string
	address string
	end     context.CancelFunc
	engine  *journal.Engine
	done    chan error
}

func (h *house) start(address string) {
	h.t.Helper()
	engine, err := journal.Open(h.dir, journal.Config{Limits: h.limits})
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	h.engine, h.address, h.end, h.done = engine, l.Addr().String(), end, make(chan error, 1)
	go func(done chan error) { done <- server.New(engine, server.Config{}).Serve(ctx, l) }(h.done)
}

func (h *house) stop() {
	if h.engine == nil {
		return
	}
	h.end()
	if err := <-h.done; err != nil {
		h.t.Errorf("serve: %v", err)
	}
	shut(h.t, h.engine)
	h.engine = nil
}
