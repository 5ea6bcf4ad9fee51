package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal/memlog"
)

// The widest lease that limits permit does not keep snapshots from being taken.
func TestTheWidestLeaseFitsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		lim := tenure.DefaultLimits()
		lim.Bundle = 128
		e := opened(t, memlog.New(), func(c *Config) {
			c.Limits = lim
			c.SnapshotBytes = 4 << 10
			c.Logger = slog.New(slog.NewTextHandler(&buf, nil))
		})
		c := tenure.Claim{}
		for j := range 128 {
			c.Resources = append(c.Resources, longName(0, j))
		}
		release(t, e, acquire(t, e, c))
		synctest.Wait()
		for i := range 1000 {
			release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
		}
		synctest.Wait()
		st, _ := e.Stats(context.Background())
		if st.Snapshot == 0 {
			t.Errorf("no snapshot in 1000 leases: %s", buf.String()[:600])
		}
	})
}

// A seal stands behind the jump of its open, also when nothing changed.
func TestACleanStopIsSealedWhateverTheClock(t *testing.T) {
	log := memlog.New()
	e := opened(t, log)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	log = log.Crash(false)
	e, err := OpenLog(log, "", Config{Clock: &steppingClock{step: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("a clean stop: %v", err)
	}
	e = opened(t, log.Crash(false))
	if !e.Opened().Sealed {
		t.Error("not sealed")
	}
}

// Jumps that are no longer kept one by one stay closed to watchers.
func TestAPositionInAnOldJumpStaysCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		small := func(c *Config) { c.WatchWindow = 4 }
		e := opened(t, log, small)
		release(t, e, acquire(t, e, tenure.On("a/1")))
		release(t, e, acquire(t, e, tenure.On("a/2")))
		inside := e.LSN() + 5 // in the first jump
		for range 70 {
			e.Close()
			time.Sleep(time.Second)
			log = log.Crash(false)
			e = opened(t, log, small)
		}
		ask := func() error {
			for _, err := range e.Watch(context.Background(), tenure.Filter{From: tenure.Position{LSN: inside}}) {
				return err
			}
			return nil
		}
		wantCode(t, ask(), tenure.ErrCompacted)
		acquire(t, e, tenure.On("a/3"))
		wantCode(t, ask(), tenure.ErrCompacted)
	})
}

// Renewals are answered from memory, whatever else is in the call.
//
// proves: T14
func TestT14_ADeadRefDoesNotHoldUpTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		live := acquire(t, e, tenure.On("a/live"))
		dead := acquire(t, e, tenure.On("a/dead"))
		release(t, e, dead)
		open := g.shut()
		go e.Acquire(context.Background(), tenure.On("a/x"))
		<-g.entered
		got := async(func() error { _, err := e.Renew(context.Background(), []tenure.Ref{live.Ref, dead.Ref}); return err })
		synctest.Wait()
		select {
		case <-got:
		default:
			t.Error("Renew waits for the disk")
		}
		open()
	})
}

// proves: T6
func TestT6_AReclaimBehindALateLapseWaitsForTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		l := acquire(t, e, tenure.Claim{Resources: tenure.On("a/b").Resources, TTL: time.Second, Grace: time.Second})
		open := g.shut()
		go e.Acquire(context.Background(), tenure.On("a/x"))
		<-g.entered
		time.Sleep(10 * time.Second)
		got := async(func() error { _, err := e.Do(context.Background(), tenure.Reclaim{Lease: l.ID}); return err })
		synctest.Wait()
		open()
		err := <-got
		x, _ := e.Lookup(context.Background(), tenure.Query{ID: l.ID})
		if err == nil {
			t.Errorf("reclaimed in the record of the lapse, without its grace: %v", x.State)
		}
	})
}

// What the new snapshot was folded from is kept, not what does not verify.
func TestAnUnreadableSnapshotDoesNotCountAsOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &rotLog{Log: memlog.New()}
		e := opened(t, log, func(c *Config) { c.SnapshotBytes = 4 << 10 })
		write := func() {
			for i := range 40 {
				release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
				synctest.Wait()
			}
		}
		for {
			write()
			if k, _ := log.Snapshots(); len(k) == 2 {
				break
			}
		}
		k, _ := log.Snapshots()
		log.rot = k[0]
		good := k[1]
		for {
			write()
			if k2, _ := log.Snapshots(); k2[0] != k[0] {
				if k2[1] == log.rot {
					t.Errorf("the good snapshot %v was removed, the rotten %v kept as one of two", good, log.rot)
				}
				break
			}
		}
	})
}

// Stats name the newest snapshot, also one that an earlier process took.
func TestStatsKnowTheSnapshotAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		e := opened(t, log, func(c *Config) { c.SnapshotBytes = 4 << 10 })
		for i := range 60 {
			release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
			synctest.Wait()
		}
		e.Close()
		e = opened(t, log.Crash(false))
		k, _ := e.log.Snapshots()
		st, _ := e.Stats(context.Background())
		if st.Snapshot != k[0] {
			t.Errorf("stats say %d, kept %v", st.Snapshot, k)
		}
	})
}

// proves: T13
func TestT13_AWatchCanDemandAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for ev, err := range e.Watch(ctx, tenure.Filter{MinLSN: e.LSN() + 1000}) {
			if err == nil {
				t.Errorf("watching from %v, although %d was demanded", ev.Position, e.LSN()+1000)
			}
			break
		}
	})
}

// The vocabulary has four commands; a pointer to one is another type.
func TestACommandBehindAPointerIsRefused(t *testing.T) {
	e := opened(t, memlog.New())
	defer func() {
		if v := recover(); v != nil {
			t.Error("panic:", v)
		}
	}()
	l := acquire(t, e, tenure.On("a/b"))
	_, err := e.Do(context.Background(), &tenure.Release{Ref: l.Ref, Holder: l.Holder})
	wantCode(t, err, tenure.ErrInvalid)
}

// A duration that no field of the law can hold is quoted as it was asked.
func TestDurationsAreQuotedAsAsked(t *testing.T) {
	e := opened(t, memlog.New())
	for _, ttl := range []time.Duration{-5, 60 * 24 * time.Hour} {
		_, err := e.Acquire(context.Background(), tenure.Claim{Resources: tenure.On("a/b").Resources, TTL: ttl})
		if !errors.Is(err, tenure.ErrInvalid) || !strings.Contains(err.Error(), ttl.String()) {
			t.Errorf("ttl %v: %v", ttl, err)
		}
	}
}

// Verify says which snapshot does not verify.
func TestVerifyNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir, Config{SnapshotBytes: 2 << 10})
	if err != nil {
		t.Fatal(err)
	}
	kept := func() []string {
		var s []string
		es, _ := os.ReadDir(dir)
		for _, x := range es {
			if strings.HasPrefix(x.Name(), "snap-") && !strings.Contains(x.Name(), ".tmp") {
				s = append(s, x.Name())
			}
		}
		return s
	}
	for i := 0; len(kept()) < 2; i++ {
		release(t, e, acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i))))
	}
	e.Close()
	k := kept()
	name := dir + "/" + k[len(k)-1]
	b, _ := os.ReadFile(name)
	b[len(b)/2] ^= 1
	os.WriteFile(name, b, 0o600)
	_, err = Verify(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "snapshot at LSN") {
		t.Errorf("verify says: %v", err)
	}
}

// A log that lost acknowledged records at its end does not open beside a
// snapshot that has them.
//
// proves: T11
func TestASnapshotAheadOfTheLogIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		small := func(c *Config) { c.SnapshotBytes = 1 }
		e := opened(t, log, small)
		acquire(t, e, tenure.On("a/1"))
		old := log.Crash(false)
		for i := range 60 {
			acquire(t, e, tenure.On(fmt.Sprintf("b/%d", i)))
			synctest.Wait()
		}
		e.Close()
		k, _ := log.Snapshots()
		r, _ := log.OpenSnapshot(k[0])
		old.SaveSnapshot(k[0], copyFrom(r))
		_, err := OpenLog(old, "", Config{})
		if err == nil || !strings.Contains(err.Error(), "ahead of the records") {
			t.Errorf("opened with %v", err)
		}
	})
}

// A lease that was granted and revoked in the same turn is told apart from one
// without a TTL.
func TestAReclaimIsToldWhyItIsTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		open := g.shut()
		go e.Acquire(context.Background(), tenure.On("a/plug"))
		<-g.entered
		id := tenure.LeaseID{LSN: e.LSN() + 2}
		go e.Acquire(context.Background(), tenure.On("a/b"))
		synctest.Wait()
		go e.Do(context.Background(), tenure.Revoke{Lease: id})
		synctest.Wait()
		got := async(func() error { _, err := e.Do(context.Background(), tenure.Reclaim{Lease: id}); return err })
		synctest.Wait()
		open()
		var early *tenure.Error
		if err := <-got; !errors.As(err, &early) || early.Code != tenure.ErrInvalidState || early.Free == 0 {
			t.Errorf("%v does not say how long it is too early", err)
		}
	})
}

// An append fails, before or after it was stored, at every point of opens and
// runs with changing limits and small snapshots: nothing acknowledged is lost,
// and every open that can be made is.
//
// proves: T11, T8
func TestCrashesAtEveryAppend(t *testing.T) {
	for n := 1; n < 60; n += 1 + n%3 {
		for _, when := range []memlog.Moment{memlog.Before, memlog.After} {
			synctest.Test(t, func(t *testing.T) {
				c := &crashing{t: t, failing: n, when: when, log: memlog.New(), acked: map[tenure.LeaseID]tenure.State{}}
				c.arm()
				for round := range 8 {
					c.run(round)
					time.Sleep(time.Second)
					c.log = c.log.Crash(when == memlog.After)
					c.arm()
				}
				e, err := OpenLog(c.log.Crash(true), "", Config{})
				if err != nil {
					t.Fatalf("append %d: %v", n, err)
				}
				e.Close()
			})
		}
	}
}

// crashing is a store one of whose appends fails, and what it acknowledged.
type crashing struct {
	t       *testing.T
	failing int // counted over all opens
	when    memlog.Moment
	log     *memlog.Log
	appends int
	acked   map[tenure.LeaseID]tenure.State
}

func (c *crashing) arm() {
	before := c.appends
	c.log.Fail(func(i int) (memlog.Moment, error) {
		if before+i == c.failing {
			return c.when, errDisk
		}
		c.appends = max(c.appends, before+i)
		return 0, nil
	})
}

// run opens, looks for everything that was acknowledged, and adds to it.
func (c *crashing) run(round int) {
	limits := tenure.DefaultLimits()
	limits.History = 10 + round%2
	e, err := OpenLog(c.log, "", Config{SnapshotBytes: 700, Limits: limits, Clock: clock.Monotonic()})
	if err != nil {
		return // its own append failed; the next open is another
	}
	defer e.Close()
	for id, state := range c.acked {
		c.find(e, id, state)
	}
	for i := range 8 {
		l, err := e.Acquire(context.Background(), tenure.On(fmt.Sprintf("a/%d-%d", round, i)))
		if err != nil {
			continue
		}
		c.acked[l.ID] = tenure.StateActive
		if i%2 == 0 {
			_, err = e.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder})
		}
		if i%2 == 0 && err == nil {
			c.acked[l.ID] = tenure.StateReleased
		}
		synctest.Wait()
	}
}

// find wants what was acknowledged, or what an unacknowledged release made of
// it, or what retired it.
func (c *crashing) find(e *Engine, id tenure.LeaseID, acked tenure.State) {
	l, err := e.Lookup(context.Background(), tenure.Query{ID: id})
	released := acked == tenure.StateReleased
	switch {
	case errors.Is(err, tenure.ErrHalted), released && errors.Is(err, tenure.ErrRetired):
	case err != nil:
		c.t.Fatalf("append %d: %v: %v", c.failing, id, err)
	case l.State != acked && (released || l.State != tenure.StateReleased):
		c.t.Fatalf("append %d: %v is %v, acknowledged was %v", c.failing, id, l.State, acked)
	}
}

// Close, twice at once, among waiters, watchers, the reaper and snapshots, with
// and without a halt: it returns, and everybody is answered.
func TestCloseInTheMiddleOfEverything(t *testing.T) {
	for n := range 40 {
		synctest.Test(t, func(t *testing.T) {
			log := memlog.New()
			e, err := OpenLog(log, "", Config{SnapshotBytes: 300})
			if err != nil {
				t.Fatal(err)
			}
			if n%2 == 1 {
				log.Fail(func(i int) (memlog.Moment, error) {
					if i > n {
						return memlog.After, errDisk
					}
					return 0, nil
				})
			}
			for i := range 30 {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
					defer cancel()
					l, err := e.Acquire(ctx, tenure.Claim{Resources: tenure.On(fmt.Sprintf("a/%d", i%3)).Resources, TTL: 100 * time.Millisecond, Grace: tenure.NoGrace, Wait: tenure.WaitForever})
					if err == nil && i%2 == 0 {
						time.Sleep(time.Millisecond)
						e.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder})
					}
				}()
				go func() {
					for _, err := range e.Watch(context.Background(), tenure.Filter{}) {
						if err != nil {
							return
						}
					}
				}()
			}
			time.Sleep(time.Duration(n) * 3 * time.Millisecond)
			go e.Close()
			e.Close()
			time.Sleep(time.Second)
		})
	}
}

// An idle engine keeps nothing of what it answered.
func TestAnsweredRequestsAreLetGo(t *testing.T) {
	g := newGate(memlog.New())
	e := opened(t, g)
	for i := range 100 {
		acquire(t, e, tenure.On(fmt.Sprintf("a/%d", i)))
	}
	open := g.shut()
	go e.Acquire(context.Background(), tenure.On("a/x"))
	<-g.entered
	var ws []weak.Pointer[request]
	for range 1000 {
		r := newRequest(askPage)
		ws = append(ws, weak.Make(r))
		e.inbox.put(r, false)
	}
	open()
	for range 10 {
		e.Stats(context.Background())
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, w := range ws {
		if r := w.Value(); r != nil && len(r.page.leases) > 0 {
			kept++
		}
	}
	if kept > 20 {
		t.Errorf("%d of 1000 answered requests are still reachable", kept)
	}
}

// A reservation whose record took its time says what is left of it.
func TestAReservationIsToldWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		open := g.shut()
		got := make(chan tenure.Lease, 1)
		go func() {
			c := tenure.On("a/b")
			c.Reserve = time.Second
			l, _ := e.Acquire(context.Background(), c)
			got <- l
		}()
		<-g.entered
		time.Sleep(5 * time.Second)
		open()
		l := <-got
		_, err := e.Do(context.Background(), tenure.Activate{Ref: l.Ref, Holder: l.Holder})
		if err != nil && l.ExpiresIn > 0 {
			t.Errorf("granted with %v to go; activate: %v", l.ExpiresIn, err)
		}
	})
}

func TestHaltedIsNotClosed(t *testing.T) {
	e := opened(t, memlog.New())
	e.Close()
	if err := e.Halted(); err != nil {
		t.Errorf("a clean Close counts as %v", err)
	}
}

// steppingClock goes on with every reading.
type steppingClock struct {
	mu   sync.Mutex
	now  time.Duration
	step time.Duration
}

func (c *steppingClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += c.step
	return c.now
}

// rotLog has one snapshot that does not read back.
type rotLog struct {
	*memlog.Log
	rot tenure.LSN
}

func (r *rotLog) OpenSnapshot(at tenure.LSN) (io.ReadCloser, error) {
	if at == r.rot {
		return io.NopCloser(strings.NewReader("rotten")), nil
	}
	return r.Log.OpenSnapshot(at)
}

func copyFrom(r io.Reader) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.Copy(w, r); return err }
}
