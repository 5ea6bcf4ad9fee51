package journal

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// jump is a gap of the LSN: nothing was ever committed between from and to.
type jump struct{ from, to tenure.LSN }

// feed is the window of durable events that watchers read, each at its own
// pace. It buffers nothing for a watcher: one that falls out of the window is
// told so.
type feed struct {
	mu     sync.RWMutex
	window int
	events []effect // in order of LSN; the oldest at first
	first  int
	floor  tenure.LSN // every event after it is in the window
	head   tenure.LSN // every event up to it is published
	jumps  []jump
	moved  chan struct{} // closed when head moves or the feed fails
	err    error
}

func newFeed(window int) *feed {
	return &feed{window: window, moved: make(chan struct{})}
}

func (f *feed) headLSN() tenure.LSN {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.head
}

func (f *feed) failure() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.err
}

// publish makes a turn's events visible; they are durable.
func (f *feed) publish(effects []effect, head tenure.LSN) {
	if head == f.head { // only the sequencer moves it
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range effects {
		f.add(x)
	}
	f.head = head
	close(f.moved)
	f.moved = make(chan struct{})
}

// add appends one event, over the oldest when the window is full.
func (f *feed) add(x effect) {
	if len(f.events) < f.window {
		f.events = append(f.events, x)
		return
	}
	f.floor = max(f.floor, f.events[f.first].at.LSN)
	f.events[f.first] = x
	f.first = (f.first + 1) % f.window
}

// leap notes a gap of the LSN up to (not including) to.
func (f *feed) leap(to tenure.LSN) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jumps = append(f.jumps, jump{from: f.head, to: to})
	if len(f.jumps) > maxJumps {
		f.jumps = f.jumps[1:]
		f.floor = max(f.floor, f.jumps[0].from)
	}
	f.head = to - 1
}

func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// after copies events behind pos into buf. Without any, it returns what to
// wait for.
func (f *feed) after(pos tenure.LSN, buf []effect) ([]effect, <-chan struct{}, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.err != nil {
		return nil, nil, f.err
	}
	if err := f.compacted(pos); err != nil {
		return nil, nil, err
	}
	n := len(f.events)
	at := func(i int) *effect { return &f.events[(f.first+i)%n] }
	low, high := 0, n // the first event behind pos
	for low < high {
		if mid := (low + high) / 2; at(mid).at.LSN <= pos {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for ; low < n && len(buf) < cap(buf); low++ {
		buf = append(buf, *at(low))
	}
	return buf, f.moved, nil
}

// compacted says that what follows pos is not known any more, or never was.
func (f *feed) compacted(pos tenure.LSN) error {
	gone := func(why string) error {
		return &tenure.Error{Code: tenure.ErrCompacted, LSN: f.head, Why: why + fmt.Sprintf(": list again, then watch from %d", f.head)}
	}
	if pos < f.floor {
		return gone(fmt.Sprintf("events up to %d are no longer kept, the watch asked for those after %d", f.floor, pos))
	}
	if pos > f.head {
		return gone(fmt.Sprintf("position %d has not been reached here: it is not from this history", pos))
	}
	for _, j := range f.jumps {
		if pos > j.from && pos < j.to-1 {
			return gone(fmt.Sprintf("position %d lies in the jump from %d to %d: what was seen there was not kept", pos, j.from, j.to))
		}
	}
	return nil
}

// Watch yields every event after f.From, or from now on, in order and each
// once. A watcher that falls behind the window gets ErrCompacted, with the
// position to go on from.
func (e *Engine) Watch(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Event, error] {
	return func(yield func(tenure.Event, error) bool) {
		if err := f.Validate(); err != nil {
			yield(tenure.Event{}, err)
			return
		}
		if head := e.feed.headLSN(); f.MinLSN > head {
			yield(tenure.Event{}, behind(f.MinLSN, head))
			return
		}
		from := f.From
		if from.IsZero() {
			from = tenure.Position{LSN: e.feed.headLSN()}
		}
		if _, _, err := e.feed.after(from.LSN, nil); err != nil {
			yield(tenure.Event{}, err)
			return
		}
		if !yield(tenure.Event{Kind: tenure.EventWatching, Position: from, At: e.cfg.Wall()}, nil) {
			return
		}
		e.metrics.watching(1)
		defer e.metrics.watching(-1)
		e.follow(ctx, f, from.LSN, yield)
	}
}

// follow yields what comes after pos until somebody stops.
func (e *Engine) follow(ctx context.Context, f tenure.Filter, pos tenure.LSN, yield func(tenure.Event, error) bool) {
	buf := make([]effect, 0, 64)
	for {
		events, moved, err := e.feed.after(pos, buf[:0])
		if err != nil {
			yield(tenure.Event{}, err)
			return
		}
		for i := range events {
			x := &events[i]
			pos = x.at.LSN
			if l := x.lease.Public(pos, false); f.Selects(&l) && !yield(x.public(l), nil) {
				return
			}
		}
		if len(events) > 0 {
			e.metrics.watched(e.feed.headLSN() - pos)
			if ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			yield(tenure.Event{}, context.Cause(ctx))
			return
		}
	}
}

func (x *effect) public(l tenure.Lease) tenure.Event {
	return tenure.Event{Position: tenure.Position{LSN: x.at.LSN}, Kind: x.event, At: time.UnixMilli(x.at.Wall), Lease: l}
}
