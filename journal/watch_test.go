package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/memlog"
)

// events collects what a watch shows until it has n of them.
func events(t *testing.T, e *Engine, f tenure.Filter, n int) []tenure.Event {
	t.Helper()
	var got []tenure.Event
	for ev, err := range e.Watch(context.Background(), f) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, ev); len(got) == n {
			break
		}
	}
	return got
}

// A watch resumed at every position gives exactly what follows, over batches
// and over a restart from a snapshot.
//
// proves: T9
func TestT9_AWatchResumesAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		small := func(c *Config) { c.SnapshotBytes = 4 << 10 }
		e := opened(t, log, small)
		start := tenure.Position{LSN: e.feed.headLSN()}
		const n = 60
		for i := range n / 2 {
			release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
			synctest.Wait()
		}
		all := events(t, e, tenure.Filter{From: start}, n+1)[1:]
		for i, ev := range all {
			if i > 0 && ev.Position.Compare(all[i-1].Position) <= 0 {
				t.Fatalf("event %d stands at %v, after %v", i, ev.Position, all[i-1].Position)
			}
			if want := map[bool]tenure.EventKind{true: tenure.EventGranted, false: tenure.EventReleased}[i%2 == 0]; ev.Kind != want {
				t.Fatalf("event %d is %v, want %v", i, ev.Kind, want)
			}
		}
		resume := func(e *Engine, from int) {
			t.Helper()
			got := events(t, e, tenure.Filter{From: all[from].Position}, n-from)
			if got[0].Kind != tenure.EventWatching || got[0].Position != all[from].Position {
				t.Fatalf("resumed with %+v", got[0])
			}
			for i, ev := range got[1:] {
				if ev.Position != all[from+1+i].Position || ev.Lease.ID != all[from+1+i].Lease.ID {
					t.Fatalf("resumed after %d: event %d is %v, want %v", from, i, ev.Position, all[from+1+i].Position)
				}
			}
		}
		for from := range n - 1 {
			resume(e, from)
		}
		stats, _ := e.Stats(context.Background())
		if stats.Snapshot == 0 {
			t.Fatal("no snapshot was taken")
		}
		e.Close()
		e = opened(t, log.Crash(false), small)
		defer e.Close()
		for from := range n - 1 {
			resume(e, from)
		}
	})
}

// A watcher that falls out of the window is told, with the position to go on
// from; nothing is buffered for it.
//
// proves: T12
func TestT12_ASlowWatcherIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New(), func(c *Config) { c.WatchWindow = 128 })
		defer e.Close()
		l := acquire(t, e, tenure.On("a/slow"))
		seen := 0
		for ev, err := range e.Watch(context.Background(), tenure.Filter{From: tenure.Position{LSN: l.LSN}}) {
			if err != nil {
				var gone *tenure.Error
				if !errors.As(err, &gone) || gone.Code != tenure.ErrCompacted || gone.LSN != e.feed.headLSN() {
					t.Errorf("got %v, want compacted with the position to go on from", err)
				}
				break
			}
			if ev.Kind == tenure.EventWatching {
				continue
			}
			if seen++; seen == 1 {
				for i := range 200 {
					release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
				}
			}
			if seen == 1 {
				continue
			}
			if seen > 70 {
				t.Fatal("events were buffered beyond the window")
			}
		}
		if n := len(e.feed.events); n > 128 {
			t.Errorf("the window holds %d events", n)
		}
	})
}

func TestAWatchEndsWithItsContextAndItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errDisk)
		defer cancel()
		last := error(nil)
		for _, err := range e.Watch(ctx, tenure.Filter{}) {
			last = err
		}
		if !errors.Is(last, errDisk) {
			t.Errorf("the watch ended with %v, want the context's cause", last)
		}
		closed := async(func() (last error) {
			for _, err := range e.Watch(context.Background(), tenure.Filter{}) {
				last = err
			}
			return last
		})
		synctest.Wait()
		e.Close()
		wantCode(t, <-closed, tenure.ErrUnavailable)
	})
}

func TestAWatchFromNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		defer e.Close()
		for _, from := range []tenure.LSN{1, e.feed.headLSN() + 1} {
			for _, err := range e.Watch(context.Background(), tenure.Filter{From: tenure.Position{LSN: from}}) {
				wantCode(t, err, tenure.ErrCompacted)
			}
		}
	})
}
