package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Watch yields what becomes of leases. When the connection breaks it goes on
// after the last event that it yielded; the server says ErrCompacted if that
// is no longer possible.
func (c *Client) Watch(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Event, error] {
	return func(yield func(tenure.Event, error) bool) {
		if err := f.Validate(); err != nil {
			yield(tenure.Event{}, err)
			return
		}
		w := &watch{filter: f, yield: yield, observe: c.observed}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.closing, func() { cancel(errClosed()) })()
		for pause := firstPause; ; {
			more, err := w.follow(ctx, pb.NewLeaseServiceClient(c.side))
			if !more {
				return
			}
			if w.moved {
				pause = firstPause
			}
			if ctx.Err() == nil && (err == nil || errors.Is(err, io.EOF) || wire.Cut(err)) {
				rest(ctx, pause/2+rand.N(pause))
				pause = min(2*pause, longestPause)
				continue
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if e, _ := wire.FromStatus(err); e != nil {
				err = e
			}
			yield(tenure.Event{}, err)
			return
		}
	}
}

// watch is one watch over as many streams as it takes.
type watch struct {
	filter  tenure.Filter // From moves with the events
	yield   func(tenure.Event, error) bool
	observe func(uint64)
	begun   bool // the caller knows that the watch stands
	moved   bool // the stream at hand has given an event
}

// follow yields the events of one stream. More is false when the caller has
// had enough, or has been told the error.
func (w *watch) follow(ctx context.Context, leases pb.LeaseServiceClient) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.moved = false
	stream, err := leases.Watch(ctx, wire.FromWatch(w.filter))
	if err != nil {
		return true, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return true, err
		}
		ev, err := wire.ToEvent(m)
		if err != nil {
			w.yield(tenure.Event{}, unread(garbled(err)))
			return false, nil
		}
		w.observe(m.GetLsn())
		w.moved = true
		w.filter.From = ev.Position
		if ev.Kind == tenure.EventWatching && w.begun {
			continue
		}
		w.begun = true
		if !w.yield(ev, nil) {
			return false, nil
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
