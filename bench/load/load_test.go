package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Four callers with turns of 10 ms do 400 in a second; what they did before it,
// and the turn that ends after it, does not count.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Work{Turn: func(_ context.Context, i int) (time.Duration, int, error) {
			const d = 10 * time.Millisecond
			time.Sleep(d + time.Duration(i)) // a little later each, so that nobody ends on the boundary
			return d, 3, nil
		}}
		r, err := Run(t.Context(), w, 4, 105*time.Millisecond, time.Second, 0)
		if err != nil {
			t.Fatal(err)
		}
		if r.Count != 4*100*3 || r.PerSec != 1200 || r.Max != 10*time.Millisecond {
			t.Errorf("%d counted, %v/s, at most %v", r.Count, r.PerSec, r.Max)
		}
		if off := r.P50 - 10*time.Millisecond; off.Abs() > 100*time.Microsecond {
			t.Errorf("p50 %v", r.P50)
		}
	})
}

// One failed turn is a failed measurement.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("refused")
		turns := 0
		w := &Work{Turn: func(_ context.Context, i int) (time.Duration, int, error) {
			time.Sleep(time.Millisecond)
			if turns++; i == 0 && turns > 20 {
				return 0, 0, failure
			}
			return 0, 1, nil
		}}
		if _, err := Run(t.Context(), w, 1, 0, time.Second, 0); !errors.Is(err, failure) {
			t.Errorf("the error is %v", err)
		}
	})
}
