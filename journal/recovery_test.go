package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/memlog"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/kernel"
)

// cycle acquires and releases a few leases, and leaves one of them.
func cycle(t *testing.T, e *Engine, n int) (kept tenure.Lease) {
	t.Helper()
	for i := range n {
		l := acquire(t, e, tenure.On(fmt.Sprintf("cycle/%d", i%7)))
		if i == n-1 {
			return l
		}
		release(t, e, l)
	}
	return kept
}

// A snapshot equals the live state, recovery from it equals recovery from the
// beginning, two are kept, and what only older ones needed is forgotten.
//
// proves: T8
func TestT8_SnapshotsProveTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		small := func(c *Config) { c.SnapshotBytes = 4 << 10 }
		e := opened(t, log, small)
		for range 8 {
			kept := cycle(t, e, 40)
			synctest.Wait() // a snapshot that is due is taken
			release(t, e, kept)
		}
		want, err := e.Stats(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if want.Snapshot == 0 {
			t.Fatal("no snapshot was taken")
		}
		e.Close()

		snaps, err := log.Snapshots()
		if err != nil || len(snaps) != 2 {
			t.Fatalf("%d snapshots are kept (%v), want 2", len(snaps), err)
		}
		for rec, err := range log.Records(0) {
			if err != nil {
				t.Fatal(err)
			}
			if rec.Last < snaps[1] {
				t.Errorf("the record of LSN %d is kept, the older snapshot stands at %d", rec.First, snaps[1])
			}
			break
		}
		again := opened(t, log.Crash(false), small)
		defer again.Close()
		got, err := again.Stats(context.Background())
		if err != nil || got.Digest != want.Digest || got.Ended != want.Ended {
			t.Errorf("recovered %+v (%v), was %+v", got, err, want)
		}
		if o := again.Opened(); o.Snapshot != snaps[0] || !o.Sealed || o.Created {
			t.Errorf("opened as %+v", o)
		}
	})
}

// A fold that differs from the live state halts the engine: nothing is saved
// and nothing more is acknowledged.
//
// proves: T8
func TestT8_DivergenceHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		e := opened(t, log)
		defer e.Close()
		cycle(t, e, 3)
		e.snapshots.run(cut{lsn: e.feed.headLSN(), sum: record.Sum{1}, digest: kernel.Digest{}})
		_, err := e.Acquire(context.Background(), tenure.On("a/b"))
		wantCode(t, err, tenure.ErrHalted)
		if kept, _ := log.Snapshots(); len(kept) != 0 {
			t.Errorf("a snapshot of a state that differs was saved: %v", kept)
		}
		e.Close()
		for rec := range log.Records(0) {
			if rec.Kind == record.KindSeal {
				t.Error("an engine at odds with its history sealed it")
			}
		}
	})
}

// A snapshot that does not verify is passed over for the one before it, and
// said so; with none left, the records have to reach back to the beginning.
func TestAnUnreadableSnapshotIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		small := func(c *Config) { c.SnapshotBytes = 2 << 10 }
		e := opened(t, log, small)
		for range 6 {
			release(t, e, cycle(t, e, 40))
			synctest.Wait()
		}
		want, _ := e.Stats(context.Background())
		e.Close()
		log = log.Crash(false)
		snaps, _ := log.Snapshots()
		spoil := func(at tenure.LSN) {
			if err := log.SaveSnapshot(at, func(w io.Writer) error { _, err := w.Write([]byte("something else")); return err }); err != nil {
				t.Fatal(err)
			}
		}
		spoil(snaps[0])
		again := opened(t, log, small)
		got, _ := again.Stats(context.Background())
		if got.Digest != want.Digest || len(again.Opened().Bad) != 1 {
			t.Errorf("recovered %s with %d bad snapshots, want %s with 1", got.Digest, len(again.Opened().Bad), want.Digest)
		}
		again.Close()
		log = log.Crash(false)
		snaps, _ = log.Snapshots()
		for _, at := range snaps {
			spoil(at)
		}
		if e, err := OpenLog(log, "", Config{}); err == nil {
			e.Close()
			t.Error("it opened with no snapshot, and no records from the beginning")
		}
	})
}

// An open makes the LSN jump: tokens rise over an older copy, and a
// watcher that saw what was lost is told.
//
// proves: T7, T11
func TestT7_AnOlderCopyJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		log := memlog.New()
		e := opened(t, log)
		before := acquire(t, e, tenure.On("a/b"))
		e.Close()
		crashed := log.Crash(false) // sealed: as good as a copy of the directory
		e = opened(t, log.Crash(false))
		lost := acquire(t, e, tenure.On("a/c"))
		e.Close()

		time.Sleep(time.Second) // the wall clock of the bubble goes on
		again, err := OpenLog(crashed, "", Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if o := again.Opened(); o.First <= lost.LSN {
			t.Errorf("opened as %+v", o)
		}
		next := acquire(t, again, tenure.On("a/c"))
		if next.Token.Compare(lost.Token) <= 0 {
			t.Errorf("%v was granted after %v was lost", next.Token, lost.Token)
		}
		if l, err := again.Lookup(ctx, tenure.Query{ID: before.ID}); err != nil || l.State != tenure.StateActive {
			t.Errorf("the grant before the crash: %+v (%v)", l, err)
		}
		for _, err := range again.Watch(ctx, tenure.Filter{From: tenure.Position{LSN: lost.LSN}}) {
			var gone *tenure.Error
			if !errors.As(err, &gone) || gone.Code != tenure.ErrCompacted || gone.LSN != next.LSN {
				t.Errorf("a watch from the lost event: %v, want compacted with %d", err, next.LSN)
			}
			break
		}
	})
}

// A new store begins at the wall clock's microseconds, so that tokens rise
// over a store that was deleted.
//
// proves: T7
func TestT7_ANewStoreBeginsAboveTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		old := acquire(t, e, tenure.On("a/b"))
		e.Close()
		time.Sleep(time.Millisecond)
		e = opened(t, memlog.New())
		defer e.Close()
		if l := acquire(t, e, tenure.On("a/b")); l.Token.Compare(old.Token) <= 0 || l.Prior != tenure.EndingNever {
			t.Errorf("%v follows %v, prior %v", l.Token, old.Token, l.Prior)
		}
	})
}

// Limits are part of the history: a replay judges as the live engine did.
//
// proves: T8, T12
func TestT8_LimitsAreOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		e := opened(t, log)
		acquire(t, e, tenure.Claim{Resources: tenure.On("a/1", "a/2", "a/3").Resources, TTL: time.Hour})
		e.Close()
		tight := func(c *Config) {
			c.Limits = tenure.DefaultLimits()
			c.Limits.Bundle, c.Limits.MaxTTL, c.Limits.Leases = 2, time.Minute, 1
		}
		e = opened(t, log.Crash(false), tight)
		_, err := e.Acquire(context.Background(), tenure.On("b/1"))
		wantCode(t, err, tenure.ErrFull)
		_, err = e.Acquire(context.Background(), tenure.On("a/7", "a/8", "a/9"))
		wantCode(t, err, tenure.ErrInvalid)
		want, _ := e.Stats(context.Background())
		e.Close()
		e = opened(t, log.Crash(false), tight)
		defer e.Close()
		if got, _ := e.Stats(context.Background()); got.Digest != want.Digest || got.Live != 1 {
			t.Errorf("reopened as %+v, was %+v", got, want)
		}
	})
}

// After an open every live lease has its full TTL again, a revoking one its
// full TTL and grace.
//
// proves: T6, T14
func TestT6_AnOpenGivesEverybodyTheirTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		log := memlog.New()
		e := opened(t, log)
		claim := tenure.Claim{TTL: 10 * time.Second, Grace: 2 * time.Second}
		claim.Resources = tenure.On("a/active").Resources
		active := acquire(t, e, claim)
		claim.Resources = tenure.On("a/revoked").Resources
		revoked := acquire(t, e, claim)
		if _, err := e.Do(ctx, tenure.Revoke{Lease: revoked.ID, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		e.Close()
		e = opened(t, log.Crash(false))
		defer e.Close()
		state := func(l tenure.Lease) tenure.State {
			now, err := e.Lookup(ctx, tenure.Query{ID: l.ID})
			if err != nil {
				t.Fatal(err)
			}
			return now.State
		}
		time.Sleep(9900 * time.Millisecond)
		if a, r := state(active), state(revoked); a != tenure.StateActive || r != tenure.StateRevoking {
			t.Errorf("9.9 s after the open: %v and %v", a, r)
		}
		time.Sleep(1900 * time.Millisecond)
		if a, r := state(active), state(revoked); a != tenure.StateRevoking || r != tenure.StateRevoking {
			t.Errorf("11.8 s after the open: %v and %v", a, r)
		}
		time.Sleep(time.Second)
		if a, r := state(active), state(revoked); a != tenure.StateRevoked || r != tenure.StateRevoked {
			t.Errorf("12.8 s after the open: %v and %v", a, r)
		}
	})
}

// Real files: what was granted, its token and its events survive, verify finds
// nothing wrong, dump shows it, and a flipped bit is found and named.
func TestADirectoryIsVerifiedAndDumped(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{SnapshotBytes: 8 << 10}
	e, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		release(t, e, cycle(t, e, 40))
	}
	kept := cycle(t, e, 2)
	want, _ := e.Stats(context.Background())
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(dir, nil)
	if err != nil || v.Digest != want.Digest || v.To != want.LSN || !v.Sealed || v.Live != 1 || v.Commands == 0 {
		t.Fatalf("verified %+v (%v), want %+v", v, err, want)
	}
	var lines []Dumped
	if err := Dump(dir, func(d Dumped) error { lines = append(lines, d); return nil }); err != nil {
		t.Fatal(err)
	}
	last := lines[len(lines)-1]
	if last.Kind != record.KindSeal.String() || last.LSN != want.LSN+1 {
		t.Errorf("the dump ends with %+v", last)
	}
	e, err = Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := e.Lookup(context.Background(), tenure.Query{ID: kept.ID}); err != nil || l.Token != kept.Token {
		t.Errorf("%+v (%v) after the reopen", l, err)
	}
	e.Close()

	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Size() > 2048 && !strings.Contains(name, "snap") {
			b, _ := os.ReadFile(name)
			b[len(b)/2] ^= 1
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := Verify(dir, nil); err == nil {
		t.Error("verify did not find the flipped bits")
	}
	if e, err := Open(dir, cfg); err == nil {
		e.Close()
		t.Error("a journal with a flipped bit opened")
	}
}
