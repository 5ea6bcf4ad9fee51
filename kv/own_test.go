package kv_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/kv"
)

// slowAck writes at once, and answers one write late.
type slowAck struct {
	kv.Store
	next           atomic.Bool
	landed, answer chan struct{}
}

func (s *slowAck) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	got, err := s.Store.Update(ctx, key, value, rev)
	if err == nil && s.next.CompareAndSwap(true, false) {
		close(s.landed)
		<-s.answer
	}
	return got, err
}

// A renewal that is answered yes was written after it was sent: another one's
// bytes, from the same base, are not its own.
//
// proves: T14
func TestT14_ARenewalIsItsOwnWrite(t *testing.T) {
	mem := kv.Memory()
	s := &slowAck{Store: mem, landed: make(chan struct{}), answer: make(chan struct{})}
	eng, err := kv.New(s, kv.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	grown := tenure.On("a/b")
	grown.TTL, grown.Grace = 100*time.Millisecond, tenure.NoGrace // a young bucket is watched that long
	l, err := eng.Acquire(t.Context(), grown)
	if err != nil {
		t.Fatal(err)
	}
	s.next.Store(true)
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = eng.Renew(t.Context(), []tenure.Ref{l.Ref})
	}()
	<-s.landed
	before, _ := mem.Get(t.Context(), "a/b")
	each, err := eng.Renew(t.Context(), []tenure.Ref{l.Ref})
	after, _ := mem.Get(t.Context(), "a/b")
	if err == nil && each[0] == nil && before.Revision == after.Revision {
		t.Error("a renewal was answered yes, and nothing was written after it was sent")
	}
	close(s.answer)
	<-first
}

// A waiter is woken by a release of its own process, whose sight of the key is
// current before the watch tells of it.
func TestAWaiterIsWokenByItsOwnProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, err := kv.New(kv.MemoryAt(time.Now), kv.Config{Clock: clock.Monotonic(), Poll: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		l, err := eng.Acquire(t.Context(), tenure.Claim{Resources: tenure.On("a/b").Resources, Holder: "ann", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time, 1)
		go func() {
			_, _ = eng.Acquire(t.Context(), tenure.Claim{Resources: l.Resources, Holder: "bob", TTL: time.Hour, Wait: tenure.WaitForever})
			got <- time.Now()
		}()
		synctest.Wait()
		time.Sleep(90 * time.Second)
		synctest.Wait()
		start := time.Now()
		if _, err := eng.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: "ann"}); err != nil {
			t.Fatal(err)
		}
		if took := (<-got).Sub(start); took > time.Second {
			t.Errorf("handed over after %v", took)
		}
	})
}

// Tokens rise over a deleted key, also for a claimant whose wall clock is
// behind: the store's own is asked.
//
// proves: T7
func TestT7_TokensRiseOverADeletedKeyForASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := kv.MemoryAt(time.Now)
		process := func(wall func() time.Time) *kv.Engine {
			eng, err := kv.New(mem, kv.Config{Clock: clock.Monotonic(), Wall: wall})
			if err != nil {
				t.Fatal(err)
			}
			return eng
		}
		claim := tenure.Claim{Resources: tenure.On("a/b").Resources, Holder: "h", TTL: time.Second}
		old, err := process(time.Now).Acquire(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		mem.Delete("a/b")
		next, err := process(func() time.Time { return time.Now().Add(-time.Minute) }).Acquire(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		if next.Token.Compare(old.Token) <= 0 {
			t.Errorf("%v follows %v", next.Token, old.Token)
		}
	})
}

// A reservation is refused at once to who does not wait, however long its
// window.
func TestAReservationIsNotWatchedForItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := kv.MemoryAt(time.Now)
		var engines [2]*kv.Engine
		for i := range engines {
			eng, err := kv.New(mem, kv.Config{Clock: clock.Monotonic()})
			if err != nil {
				t.Fatal(err)
			}
			engines[i] = eng
		}
		claim := tenure.Claim{Resources: tenure.On("a/b").Resources, Holder: "h", TTL: time.Second, Reserve: time.Hour}
		if _, err := engines[0].Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := engines[1].Acquire(t.Context(), tenure.Claim{Resources: claim.Resources, Holder: "other", TTL: time.Second})
		if tenure.CodeOf(err) != tenure.ErrHeld || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
