package client_test

import (
	"crypto/rand"
	"net"
	"sync"
	"testing"

	"github.com/tenurehq/tenure"
)

// road is a TCP proxy between client and server, on which a test can let
// answers disappear, cut every connection, and let nobody through.
type road struct {
	listener net.Listener
	to       string

	mu       sync.Mutex
	closed   bool
	swallows bool // what the server says is lost
	refuses  bool // new connections are cut at once
	loses    loss // the next thing said is lost, with all connections
	conns    map[net.Conn]struct{}
	carrying sync.WaitGroup
}

type loss uint8

const (
	lossNone loss = iota
	lossRequest
	lossAnswer
)

func newRoad(t testing.TB, to string) *road {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{listener: l, to: to, conns: make(map[net.Conn]struct{})}
	r.carrying.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.cut()
		r.carrying.Wait()
	})
	return r
}

func (r *road) address() string { return r.listener.Addr().String() }

func (r *road) accept() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		refused := r.refuses || r.closed
		r.mu.Unlock()
		to, err := net.Dial("tcp", r.to)
		if refused || err != nil {
			_ = from.Close()
			if err == nil {
				_ = to.Close()
			}
			continue
		}
		r.mu.Lock()
		r.conns[from], r.conns[to] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.carrying.Go(func() { r.carry(to, from, false) })
		r.carrying.Go(func() { r.carry(from, to, true) })
	}
}

func (r *road) carry(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		lost := r.gone(answers)
		if n > 0 && !lost {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// gone reports whether what was just said is lost.
func (r *road) gone(answer bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer && r.loses == lossAnswer || !answer && r.loses == lossRequest {
		r.loses = lossNone
		r.cutLocked()
		return true
	}
	return answer && r.swallows
}

// loseNext cuts every connection when the next thing is said by the server,
// after a call was executed, or by the client, before.
func (r *road) loseNext(executed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loses = lossRequest
	if executed {
		r.loses = lossAnswer
	}
}

// swallow makes answers disappear from now on, or no longer.
func (r *road) swallow(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallows = on
}

// refuse lets nobody through from now on, or no longer.
func (r *road) refuse(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = on
}

// cut ends every connection.
func (r *road) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutLocked()
}

func (r *road) cutLocked() {
	for c := range r.conns {
		_ = c.Close()
		delete(r.conns, c)
	}
}

// history follows an engine without any network between.
type history struct {
	t      testing.TB
	engine tenure.Engine
	seen   chan tenure.Event
}

func follow(t testing.TB, engine tenure.Engine) *history {
	t.Helper()
	h := &history{t, engine, make(chan tenure.Event, 1000)}
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		for ev, err := range engine.Watch(ctx, tenure.Filter{}) {
			if err != nil {
				return
			}
			h.seen <- ev
		}
	}()
	t.Cleanup(func() { <-done })
	h.next(tenure.EventWatching)
	return h
}

func (h *history) next(kind tenure.EventKind) tenure.Event {
	h.t.Helper()
	ev := <-h.seen
	if ev.Kind != kind {
		h.t.Fatalf("event %v of %+v, want %v", ev.Kind, ev.Lease, kind)
	}
	return ev
}

// nothing fails the test if anything has happened since the last event.
func (h *history) nothing() {
	h.t.Helper()
	mark, err := h.engine.Acquire(h.t.Context(), on("mark/"+rand.Text(), "mark"))
	if err != nil {
		h.t.Fatal(err)
	}
	if ev := h.next(tenure.EventGranted); ev.Lease.ID != mark.ID {
		h.t.Fatalf("unexpected: granted %+v", ev.Lease)
	}
}
