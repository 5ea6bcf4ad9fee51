package hold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

// proves: T1
func TestMutexKeepsOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		// Two processes with one mutex each, and two goroutines in each of them.
		inside, most, rounds := 0, 0, 0
		done := make(chan error)
		for range 2 {
			mu := hold.NewMutex(e, claim)
			for range 2 {
				go func() {
					done <- func() error {
						for range 5 {
							ctx, err := mu.Lock(t.Context())
							if err != nil {
								return err
							}
							inside, rounds = inside+1, rounds+1
							most = max(most, inside)
							pass(12 * s)
							inside--
							if err := errors.Join(ctx.Err(), mu.Unlock()); err != nil {
								return err
							}
						}
						return nil
					}()
				}()
			}
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most != 1 || rounds != 20 {
			t.Errorf("%d were inside at once, in %d rounds; want 1 in 20", most, rounds)
		}
	})
}

func TestTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		mine, theirs := hold.NewMutex(e, claim), hold.NewMutex(e, claim)
		if _, err := mine.TryLock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, mu := range map[string]*hold.Mutex{"this process": mine, "another": theirs} {
			if _, err := mu.TryLock(t.Context()); !errors.Is(err, tenure.ErrHeld) {
				t.Errorf("locked in %s: %v, want held", name, err)
			}
		}
		if err := mine.Unlock(); err != nil {
			t.Fatal(err)
		}
		if _, err := theirs.TryLock(t.Context()); err != nil {
			t.Errorf("after the unlock: %v", err)
		}
		if err := theirs.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestALockEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		mine, theirs := hold.NewMutex(e, claim), hold.NewMutex(e, claim)
		if _, err := mine.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, mu := range map[string]*hold.Mutex{"this process": mine, "another": theirs} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := mu.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("locked in %s: %v, want the context's end", name, err)
			}
			cancel()
		}
		if err := mine.Unlock(); err != nil {
			t.Error(err)
		}
		for name, mu := range map[string]*hold.Mutex{"this process": mine, "another": theirs} {
			if _, err := mu.Lock(t.Context()); err != nil {
				t.Errorf("%s cannot lock any more: %v", name, err)
			}
			if err := mu.Unlock(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestUnlockOfWhatIsNotLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mu := hold.NewMutex(newStrict(), claim)
		if err := mu.Unlock(); !errors.Is(err, tenure.ErrInvalidState) {
			t.Errorf("never locked: %v", err)
		}
		if _, err := mu.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := mu.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := mu.Unlock(); !errors.Is(err, tenure.ErrInvalidState) {
			t.Errorf("unlocked twice: %v", err)
		}
	})
}

func TestUnlockTellsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		c := claim
		c.Op = tenure.NewOp(0) // not the mutex's operation: every Lock has its own
		mu := hold.NewMutex(e, c)
		ctx, err := mu.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e.revoke()
		<-ctx.Done()
		if err := mu.Unlock(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("%v, want the loss", err)
		}
		e.mu.Lock()
		e.rows[0].lease.State = tenure.StateRevoked // reclaimed by an operator
		e.mu.Unlock()
		if _, err := mu.Lock(t.Context()); err != nil {
			t.Errorf("it cannot be locked again: %v", err)
		}
		if err := mu.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
