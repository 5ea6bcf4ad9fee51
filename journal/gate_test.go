package journal

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal/memlog"
	"github.com/tenurehq/tenure/journal/record"
)

// gate is a log whose appends can be held up, to look at an engine while a
// record is in flight.
type gate struct {
	Log
	mu      sync.Mutex
	closed  chan struct{} // while set, appends wait for it
	entered chan struct{} // one signal for each append that waits
	appends int
}

func newGate(log Log) *gate { return &gate{Log: log, entered: make(chan struct{}, 16)} }

// shut holds up every append from now on, until the returned function is
// called.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.closed = c
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.closed = nil
		g.mu.Unlock()
		close(c)
	})
}

func (g *gate) Append(prev record.Sum, rec []byte) error {
	g.mu.Lock()
	c := g.closed
	g.appends++
	g.mu.Unlock()
	if c != nil {
		g.entered <- struct{}{}
		<-c
	}
	return g.Log.Append(prev, rec)
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.appends
}

// opened is an engine over log in the time of the test's bubble.
func opened(t *testing.T, log Log, change ...func(*Config)) *Engine {
	t.Helper()
	cfg := Config{Clock: clock.Monotonic()}
	for _, c := range change {
		c(&cfg)
	}
	e, err := OpenLog(log, "", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func acquire(t *testing.T, e tenure.Engine, c tenure.Claim) tenure.Lease {
	t.Helper()
	l, err := e.Acquire(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, e tenure.Engine, l tenure.Lease) {
	t.Helper()
	if _, err := e.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder}); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code tenure.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("got %v, want %v", err, code)
	}
}

// async runs f and returns a channel that gives its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

var errDisk = errors.New("the disk gave up")

// broken makes the log's next append fail, before or after it is stored.
func broken(log *memlog.Log, when memlog.Moment) {
	log.Fail(func(int) (memlog.Moment, error) { return when, errDisk })
}
