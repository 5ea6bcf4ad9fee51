package hold_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

var errWork = errors.New("the card was declined")

func TestDoReleasesAfterTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want tenure.Result
	}{
		"that succeeded": {nil, tenure.Result{Outcome: tenure.OutcomeOK}},
		"that failed":    {errWork, tenure.Result{Outcome: tenure.OutcomeFailed, Detail: errWork.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				var ctx context.Context
				err := hold.Do(t.Context(), e, claim, func(work context.Context) error {
					ctx = work
					pass(time.Minute)
					if work.Err() != nil || e.count("release") != 0 || hold.Token(work) != e.last().Token {
						t.Errorf("while the work ran: %v, %d releases, token %v", work.Err(), e.count("release"), hold.Token(work))
					}
					return c.err
				})
				if !errors.Is(err, c.err) {
					t.Errorf("Do returned %v", err)
				}
				if got := e.last(); got.State != tenure.StateReleased || got.Result != c.want {
					t.Errorf("the lease is %v %+v, want released %+v", got.State, got.Result, c.want)
				}
				if cause := context.Cause(ctx); !errors.Is(cause, hold.ErrReleased) || !hold.Token(ctx).IsZero() {
					t.Errorf("afterwards the context ended with %v, token %v", cause, hold.Token(ctx))
				}
			})
		})
	}
}

func TestDoDoesNotRunTheWorkWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		acquire(t, e, claim)
		err := hold.Do(t.Context(), e, claim, func(context.Context) error {
			t.Error("the work ran")
			return nil
		})
		if !errors.Is(err, tenure.ErrHeld) {
			t.Errorf("%v, want held", err)
		}
	})
}

// The work does not look at its context. Nothing may be released while it
// runs, though its belief is over, and its success is not reported as one.
func TestT14_NothingIsReleasedBeforeTheWorkReturned(t *testing.T) {
	for name, result := range map[string]error{"succeeds late": nil, "fails late": errWork} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(call string, _ int) fault {
					if call == "renew" {
						return fault{refuse: errGone}
					}
					return fault{}
				})
				err := hold.Do(t.Context(), e, claim, func(ctx context.Context) error {
					pass(9500 * ms)
					if !errors.Is(context.Cause(ctx), tenure.ErrLost) {
						t.Errorf("half a second before the lapse the work was told %v", context.Cause(ctx))
					}
					if e.count("release") != 0 || e.last().State != tenure.StateActive {
						t.Errorf("released %d times while the work runs, the lease is %v", e.count("release"), e.last().State)
					}
					return result
				})
				if !errors.Is(err, tenure.ErrLost) || result != nil && !errors.Is(err, result) {
					t.Errorf("Do returned %v, want the loss and %v", err, result)
				}
				if state := e.last().State; state != tenure.StateReleased {
					t.Errorf("the lease is %v after the work returned before it lapsed, want released", state)
				}
			})
		})
	}
}

func TestAWorkThatPanicsIsReleasedAsFailedAndPanicsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
			if got := e.last(); got.State != tenure.StateReleased || got.Result.Outcome != tenure.OutcomeFailed || got.Result.Detail == "" {
				t.Errorf("the lease is %v %+v", got.State, got.Result)
			}
		}()
		_ = hold.Do(t.Context(), e, claim, func(context.Context) error { panic("boom") })
	})
}

func TestAWorkThatEndsItsGoroutineIsReleasedAsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = hold.Do(t.Context(), e, claim, func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		if got := e.last(); got.Result.Outcome != tenure.OutcomeFailed {
			t.Errorf("the lease is %v %+v", got.State, got.Result)
		}
	})
}

func TestReleaseIsDetachedAndRepeatedWhileItsOutcomeIsNotKnown(t *testing.T) {
	for name, f := range map[string]fault{"lost before": {refuse: errMaze}, "lost after": {lose: errMaze}, "unreachable": {refuse: errGone}, "hanging": {late: time.Hour}, "answer hanging": {slow: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(call string, n int) fault {
					if call == "release" && n == 1 {
						return f
					}
					return fault{}
				})
				ctx, cancel := context.WithCancel(t.Context())
				h, err := hold.Acquire(ctx, e, claim)
				if err != nil {
					t.Fatal(err)
				}
				cancel()
				if err := h.Release(); err != nil {
					t.Errorf("release: %v", err)
				}
				if state := e.last().State; state != tenure.StateReleased || e.count("release") != 2 {
					t.Errorf("the lease is %v after %d releases, want released after 2", state, e.count("release"))
				}
				pass(time.Minute)
				if n := e.count("renew"); n != 0 {
					t.Errorf("%d renewals after the release", n)
				}
			})
		})
	}
}

func TestReleaseIsBoundedInTime(t *testing.T) {
	for ttl, most := range map[time.Duration]time.Duration{2 * s: 2 * s, time.Hour: 10 * s, tenure.NoTTL: 10 * s} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				c := claim
				c.TTL = ttl
				h := acquire(t, e, c)
				e.does(func(string, int) fault { return fault{refuse: errGone} })
				start := time.Now()
				if err := h.Release(); !errors.Is(err, tenure.ErrUnavailable) {
					t.Errorf("%v, want what kept it from releasing", err)
				}
				if took := time.Since(start); took > most || took < most/2 {
					t.Errorf("tried for %v, want about %v", took, most)
				}
				if !errors.Is(h.Err(), hold.ErrReleased) || !h.Token().IsZero() {
					t.Errorf("the hold is over with %v", h.Err())
				}
			})
		})
	}
}

func TestReleaseAfterALossIsNotTriedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		h := acquire(t, e, claim)
		e.does(func(string, int) fault { return fault{refuse: errGone} })
		<-h.Done()
		start := time.Now()
		if err := h.Release(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("%v, want the loss", err)
		}
		if took := time.Since(start); took > s || e.count("release") == 0 {
			t.Errorf("tried for %v, %d times; want at most the margin of 1s", took, e.count("release"))
		}
	})
}

func TestASecondReleaseIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		h := acquire(t, e, claim)
		e.does(func(string, int) fault { return fault{late: s} })
		second := make(chan error)
		go func() { second <- h.Fail(errWork) }()
		synctest.Wait()
		if err := errors.Join(h.Release(), <-second, h.Release()); err != nil {
			t.Error(err)
		}
		if got := e.last(); e.count("release") != 1 || got.Result.Outcome != tenure.OutcomeFailed {
			t.Errorf("%d releases were sent, the lease ended %+v", e.count("release"), got.Result)
		}
	})
}

// The lease was revoked, and no renewal came between that and the end of the
// work: the release is the first to hear of it.
//
// proves: T5
func TestALossThatOnlyTheReleaseHearsOfIsALoss(t *testing.T) {
	for _, code := range []tenure.Code{tenure.ErrStale, tenure.ErrEnded, tenure.ErrNotFound, tenure.ErrRetired} {
		for name, result := range map[string]error{"succeeds": nil, "fails": errWork} {
			t.Run(code.String()+", the work "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newStrict()
					e.does(func(call string, _ int) fault {
						if call == "release" {
							return fault{refuse: &tenure.Error{Code: code}}
						}
						return fault{}
					})
					err := hold.Do(t.Context(), e, claim, func(context.Context) error { return result })
					if !errors.Is(err, tenure.ErrLost) || !errors.Is(err, code) || result != nil && !errors.Is(err, result) {
						t.Errorf("Do returned %v, want a loss that is %v, and %v", err, code, result)
					}
				})
			})
		}
	}
}

// proves: T5
func TestAReleaseThatIsRefusedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		err := hold.Do(t.Context(), e, claim, func(context.Context) error {
			e.revoke()
			return nil
		})
		if !errors.Is(err, tenure.ErrStale) || e.count("release") != 1 {
			t.Errorf("%v after %d releases, want stale after one", err, e.count("release"))
		}
	})
}

func TestTheDetailOfAFailureIsWhatAnEngineAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"long":    strings.Repeat("ü", tenure.MaxReasonBytes),
		"binary":  "a\x00b\xff\xfec",
		"empty":   "",
		"longest": strings.Repeat("x", tenure.MaxReasonBytes),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				h := acquire(t, e, claim)
				if err := h.Fail(errors.New(text)); err != nil {
					t.Fatal(err)
				}
				got := e.last().Result
				if got.Outcome != tenure.OutcomeFailed || len(text) > 0 && got.Detail == "" {
					t.Errorf("%+v", got)
				}
				if name == "longest" && got.Detail != text {
					t.Error("a detail that fits was changed")
				}
			})
		})
	}
}
