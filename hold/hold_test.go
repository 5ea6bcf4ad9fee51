package hold_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
	"github.com/tenurehq/tenure/internal/clock"
)

const ms = time.Millisecond

// claim lapses after 10 s of silence and leaves nothing to the grace.
var claim = tenure.Claim{Resources: []tenure.Resource{"orders/42"}, Holder: "a", TTL: 10 * s, Grace: tenure.NoGrace}

func acquire(t *testing.T, e *strict, c tenure.Claim, opts ...hold.Option) *hold.Hold {
	t.Helper()
	h, err := hold.Acquire(t.Context(), e, c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release() })
	return h
}

func stands(t *testing.T, h *hold.Hold) {
	t.Helper()
	if h.Err() != nil || h.Token() != h.Ref().Token || h.Remaining() == 0 || h.Context().Err() != nil {
		t.Fatalf("the hold does not stand: %v", h.Err())
	}
}

func isLost(t *testing.T, h *hold.Hold) *tenure.Error {
	t.Helper()
	var e *tenure.Error
	if !errors.As(h.Err(), &e) || e.Code != tenure.ErrLost {
		t.Fatalf("the hold is not lost: %v", h.Err())
	}
	select {
	case <-h.Done():
	default:
		t.Error("Done is open")
	}
	if !h.Token().IsZero() || h.Remaining() != 0 || h.Context().Err() == nil {
		t.Errorf("lost, but token %v, %v remain, context %v", h.Token(), h.Remaining(), h.Context().Err())
	}
	if e.Resource != "orders/42" || e.Holder != "a" || e.Lease.IsZero() || e.Why == "" {
		t.Errorf("the loss does not say who lost what and why: %#v", e)
	}
	return e
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAHoldIsKeptAliveWhileItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		h := acquire(t, e, claim)
		for range 100 {
			pass(3 * s)
			stands(t, h)
		}
		if n := e.count("renew"); n < 90 || n > 101 {
			t.Errorf("%d renewals in 300 s, want one every 3.3 s, or a little earlier", n)
		}
	})
}

func TestT14_BeliefEndsAMarginBeforeTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		e.does(func(call string, _ int) fault {
			switch call {
			case "acquire":
				return fault{slow: 300 * ms} // the answer's way does not count for the holder
			}
			return fault{refuse: errGone}
		})
		h := acquire(t, e, claim)
		if left := h.Remaining(); left > 8700*ms || left < 8690*ms {
			t.Fatalf("%v remain 300ms after the send, want 8.7s", left)
		}
		if at, ok := h.Deadline(); !ok || time.Until(at) > 8700*ms || time.Until(at) < 8690*ms {
			t.Errorf("deadline %v (%v)", at, ok)
		}
		pass(8680 * ms)
		stands(t, h)
		pass(20 * ms)
		lost := isLost(t, h)
		if !errors.Is(lost, tenure.ErrUnavailable) {
			t.Errorf("the loss does not say what the renewals met: %v", lost)
		}
		if e.last().State != tenure.StateActive {
			t.Error("authority was withdrawn before the belief ended")
		}
	})
}

func TestRenewalsThatFailForLessThanTheDeadlineDoNoHarm(t *testing.T) {
	for name, f := range map[string]fault{
		"unreachable":           {refuse: errGone},
		"unknown before effect": {refuse: errMaze},
		"unknown after effect":  {lose: errMaze},
		"halted":                {refuse: tenure.ErrHalted},
		"recovering":            {refuse: tenure.ErrRecovering},
		"full":                  {refuse: tenure.ErrFull},
		"denied":                {refuse: tenure.ErrDenied},
		"network":               {refuse: errors.New("connection reset by peer")},
		"hanging":               {late: time.Hour},
		"answers hanging":       {slow: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				h := acquire(t, e, claim)
				var broken atomic.Bool
				broken.Store(true)
				e.does(func(call string, _ int) fault {
					if call == "renew" && broken.Load() {
						return f
					}
					return fault{}
				})
				pass(8 * s)
				stands(t, h)
				broken.Store(false)
				for range 20 {
					pass(3 * s)
					stands(t, h)
				}
			})
		})
	}
}

func TestT14_RenewalsThatFailForLongerEndTheHold(t *testing.T) {
	for name, f := range map[string]fault{
		"unreachable":                   {refuse: errGone},
		"answers lost":                  {lose: errMaze}, // the engine keeps the lease, the holder cannot know
		"hanging":                       {late: time.Hour},
		"answers hanging":               {slow: time.Hour},
		"deaf to contexts":              {late: time.Hour, deaf: true},
		"answered when it was too late": {late: 8 * s, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(call string, _ int) fault {
					if call == "renew" {
						return f
					}
					return fault{}
				})
				h := acquire(t, e, claim)
				sent := time.Now()
				<-h.Done()
				if after := time.Since(sent); after < 8990*ms || after > 9*s {
					t.Errorf("ended after %v, want 9s", after)
				}
				isLost(t, h)
				e.does(func(string, int) fault { return fault{} })
				pass(2 * time.Hour) // whatever is still to be answered
				isLost(t, h)
			})
		})
	}
}

// Every renewal takes longer than a TTL to be answered, but takes effect at
// once: the engine never withdraws authority, and the belief ends all the same.
func TestT14_AnAnswerDelayedBeyondTheTTLDoesNotExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		h := acquire(t, e, claim)
		e.does(func(call string, _ int) fault { return fault{slow: 11 * s, deaf: true} })
		pass(9*s + ms)
		isLost(t, h)
		pass(20 * s)
		isLost(t, h)
	})
}

// proves: T5
func TestARefusalEndsTheHoldAtOnce(t *testing.T) {
	for _, code := range []tenure.Code{
		tenure.ErrStale, tenure.ErrHolderMismatch, tenure.ErrNotFound, tenure.ErrEnded, tenure.ErrRetired,
		tenure.ErrInvalidState, tenure.ErrHeld, tenure.ErrLost, tenure.ErrInvalid,
	} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(call string, _ int) fault {
					if call == "renew" {
						return fault{refuse: &tenure.Error{Code: code}}
					}
					return fault{}
				})
				h := acquire(t, e, claim)
				pass(3400 * ms)
				lost := isLost(t, h)
				if !errors.Is(lost.Cause, code) {
					t.Errorf("the loss does not say what the engine said: %v", lost)
				}
				pass(time.Minute)
				if n := e.count("renew"); n != 1 {
					t.Errorf("%d renewals were sent, want none after the refusal", n)
				}
				if err := h.Release(); !errors.Is(err, tenure.ErrLost) || e.count("release") != 0 {
					t.Errorf("release: %v, sent %d times; want the loss, and nothing sent", err, e.count("release"))
				}
			})
		})
	}
}

func TestRenewNeverAcquiresAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		h := acquire(t, e, claim)
		e.revoke()
		pass(time.Minute)
		isLost(t, h)
		if n := e.count("acquire"); n != 1 {
			t.Errorf("acquired %d times", n)
		}
	})
}

// A suspended machine: boot time goes on, the clock that drives timers does
// not. Whatever is asked first says that it is over.
func TestT14_AProcessThatWakesAfterTheDeadlineNeverSeesAValidHold(t *testing.T) {
	for name, over := range map[string]func(h *hold.Hold) bool{
		"Err":              func(h *hold.Hold) bool { return errors.Is(h.Err(), tenure.ErrLost) },
		"Token":            func(h *hold.Hold) bool { return h.Token().IsZero() },
		"Remaining":        func(h *hold.Hold) bool { return h.Remaining() == 0 },
		"Context.Err":      func(h *hold.Hold) bool { return h.Context().Err() != nil },
		"Context.Done":     func(h *hold.Hold) bool { return closed(h.Context().Done()) },
		"Done":             func(h *hold.Hold) bool { return closed(h.Done()) },
		"Cause":            func(h *hold.Hold) bool { return errors.Is(context.Cause(h.Context()), tenure.ErrLost) },
		"Token of context": func(h *hold.Hold) bool { return hold.Token(h.Context()).IsZero() },
		"new child": func(h *hold.Hold) bool {
			ctx, stop := context.WithCancel(h.Context())
			defer stop()
			return ctx.Err() != nil
		},
		"next renewal": func(h *hold.Hold) bool {
			pass(3400 * ms) // an old child's context ends by then
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				var boot clock.Manual
				h := acquire(t, e, claim, hold.WithClock(&boot))
				child, stop := context.WithCancel(h.Context())
				defer stop()
				boot.Advance(9*s - 1)
				stands(t, h)
				boot.Advance(1)
				if !over(h) {
					t.Error("the hold is still valid")
				}
				if !errors.Is(context.Cause(child), tenure.ErrLost) {
					t.Errorf("a derived context was told %v", context.Cause(child))
				}
				isLost(t, h)
				if n := e.count("renew"); n != 0 {
					t.Error("it was renewed after its end")
				}
			})
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheParentEndsTheWorkAndNotTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		parent, cancel := context.WithCancelCause(t.Context())
		h, err := hold.Acquire(parent, e, claim)
		if err != nil {
			t.Fatal(err)
		}
		shutdown := errors.New("shutting down")
		cancel(shutdown)
		if !errors.Is(h.Err(), shutdown) || !errors.Is(context.Cause(h.Context()), shutdown) {
			t.Errorf("the work was told %v", h.Err())
		}
		pass(time.Minute) // the work takes its time to stop
		if h.Token().IsZero() || e.last().State != tenure.StateActive {
			t.Error("the lease was lost while the work was stopping")
		}
		if err := h.Release(); err != nil || e.last().State != tenure.StateReleased {
			t.Errorf("release: %v, the lease is %v", err, e.last().State)
		}
		if !errors.Is(h.Err(), shutdown) {
			t.Errorf("the cause changed to %v", h.Err())
		}
	})
}

func TestNoTTLSurvivesSilenceAndHearsOfARevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		c := claim
		c.TTL = tenure.NoTTL
		h := acquire(t, e, c)
		e.does(func(call string, _ int) fault {
			if call == "renew" {
				return fault{refuse: errGone}
			}
			return fault{}
		})
		pass(24 * time.Hour)
		stands(t, h)
		if left := h.Remaining(); left != hold.Forever {
			t.Errorf("%v remain", left)
		}
		if at, ok := h.Deadline(); ok {
			t.Errorf("it has a deadline: %v", at)
		}
		e.does(func(string, int) fault { return fault{} })
		e.revoke()
		pass(6 * s)
		isLost(t, h)
	})
}

func TestOptionsMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		var log bytes.Buffer
		var renewed atomic.Int32
		h := acquire(t, e, claim,
			hold.WithMargin(4*s),
			hold.WithRand(func() float64 { return 0 }), // no renewal comes early
			hold.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			hold.OnRenew(func(h *hold.Hold) {
				renewed.Add(1)
				if left := h.Remaining(); left < 5900*ms {
					t.Errorf("%v remain after a renewal", left)
				}
			}),
		)
		if left := h.Remaining(); left > 6*s || left < 5990*ms {
			t.Errorf("%v remain with a margin of 4s, want 6s", left)
		}
		pass(2990 * ms)
		if n := e.count("renew"); n != 0 {
			t.Errorf("%d renewals within 2.99s: a renewal came early", n)
		}
		pass(20 * ms)
		if n := renewed.Load(); n != 1 {
			t.Errorf("told of %d renewals, want 1", n)
		}
		e.does(func(call string, _ int) fault { return fault{refuse: errGone} })
		pass(10 * s)
		isLost(t, h)
		for _, want := range []string{"renewal failed", "hold lost", "orders/42", "level=ERROR"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
		if n := renewed.Load(); n != 1 {
			t.Errorf("told of %d renewals after failures, want 1", n)
		}
	})
}

func TestManyHoldsDoNotBeatAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		at := map[time.Time]int{}
		e.does(func(call string, _ int) fault {
			if call == "renew" {
				at[time.Now()]++
			}
			return fault{}
		})
		for i := range 100 {
			c := claim
			c.Resources = []tenure.Resource{tenure.Resource("orders/" + string(rune('a'+i%26)) + string(rune('a'+i/26)))}
			acquire(t, e, c)
		}
		pass(3500 * ms)
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(at) < 50 {
			t.Errorf("100 holds renewed at %d different moments", len(at))
		}
	})
}
