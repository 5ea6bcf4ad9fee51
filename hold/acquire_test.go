package hold_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

func TestAcquireRefusesWhatItCannotKeep(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tenure.Claim)
		opts   []hold.Option
		field  string
	}{
		"reservation":     {change: func(c *tenure.Claim) { c.Reserve = s }, field: "reserve"},
		"negative window": {change: func(c *tenure.Claim) { c.Reserve = -s }, field: "reserve"},
		"negative TTL":    {change: func(c *tenure.Claim) { c.TTL = -5 * s }, field: "ttl"},
		"TTL of a margin": {change: func(c *tenure.Claim) { c.TTL = 50 * ms }, field: "margin"},
		"huge margin":     {opts: []hold.Option{hold.WithMargin(10 * s)}, field: "margin"},
		"negative margin": {opts: []hold.Option{hold.WithMargin(-1)}, field: "margin"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newStrict()
			claim := claim
			if c.change != nil {
				c.change(&claim)
			}
			_, err := hold.Acquire(t.Context(), e, claim, c.opts...)
			var refusal *tenure.Error
			if !errors.As(err, &refusal) || refusal.Code != tenure.ErrInvalid || refusal.Field != c.field {
				t.Errorf("%v, want a refusal of %s", err, c.field)
			}
			if e.count("acquire") != 0 {
				t.Error("the engine was asked")
			}
		})
	}
}

func TestAcquirePassesADefiniteRefusalOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		acquire(t, e, claim)
		if _, err := hold.Acquire(t.Context(), e, claim); !errors.Is(err, tenure.ErrHeld) {
			t.Errorf("%v, want held", err)
		}
		e.does(func(string, int) fault { return fault{refuse: errGone} })
		if _, err := hold.Acquire(t.Context(), e, claim); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("%v, want unavailable", err)
		}
		if n := e.count("acquire"); n != 3 {
			t.Errorf("%d claims were sent, want 3", n)
		}
	})
}

// proves: T10, T11
func TestAnUnknownOutcomeIsSettledByTheSameOperation(t *testing.T) {
	for name, given := range map[string]tenure.Op{"the engine's": {}, "the caller's": tenure.NewOp(1)} {
		for effect, f := range map[string]fault{"after": {lose: errMaze}, "before": {refuse: errMaze}} {
			t.Run(name+" operation, lost "+effect+" the effect", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newStrict()
					e.does(func(call string, n int) fault {
						switch {
						case call == "acquire" && n == 1:
							return f
						case call == "acquire" && n == 2:
							return fault{refuse: errGone} // nothing was done now: what was done before is still open
						}
						return fault{}
					})
					c := claim
					c.Op = given
					h := acquire(t, e, c)
					stands(t, h)
					if len(e.rows) != 1 || e.count("acquire") != 3 {
						t.Errorf("%d leases from %d claims, want 1 from 3", len(e.rows), e.count("acquire"))
					}
				})
			})
		}
	}
}

func TestAnUnknownOutcomeThatStaysUnknownIsReportedWithItsOperation(t *testing.T) {
	for name, patience := range map[string]time.Duration{"until a TTL has passed": time.Hour, "until the context ends": 2 * s} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(call string, n int) fault { return fault{lose: errMaze} })
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				start := time.Now()
				_, err := hold.Acquire(ctx, e, claim)
				var unknown *tenure.Error
				if !errors.As(err, &unknown) || unknown.Code != tenure.ErrUnknownOutcome || unknown.Op != e.rows[0].op {
					t.Fatalf("%v, want an unknown outcome that names the operation", err)
				}
				if took := time.Since(start); took > min(patience, 11*s) {
					t.Errorf("took %v", took)
				}
				if patience < 10*s && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v does not say that the context ended", err)
				}
			})
		})
	}
}

func TestAnUnknownOutcomeSaysWhatElseCanBeDone(t *testing.T) {
	for name, c := range map[string]struct {
		claim tenure.Claim
		want  string
	}{
		"with a TTL":       {claim, "let it lapse"},
		"without a TTL":    {tenure.Claim{Resources: claim.Resources, TTL: tenure.NoTTL}, "revoke and reclaim it"},
		"without anything": {tenure.Claim{}, "let it lapse"}, // an engine that never judged it
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(string, int) fault { return fault{refuse: errMaze} })
				_, err := hold.Acquire(t.Context(), e, c.claim)
				if !errors.Is(err, tenure.ErrUnknownOutcome) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v does not say %q", err, c.want)
				}
			})
		})
	}
}

// An engine whose claim is given up says that nothing was granted, or that it
// does not know. Neither is asked again, since nobody is there to use a grant.
func TestAClaimWhoseContextEndsIsNotSettledBeyondIt(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		want   tenure.Code
	}{
		"nothing was granted": {&tenure.Error{Code: tenure.ErrHeld, Cause: context.DeadlineExceeded}, tenure.ErrHeld},
		"being decided":       {&tenure.Error{Code: tenure.ErrUnknownOutcome, Cause: context.DeadlineExceeded}, tenure.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newStrict()
				e.does(func(string, int) fault { return fault{late: 2 * s, deaf: true, refuse: c.answer} })
				ctx, cancel := context.WithTimeout(t.Context(), 2*s)
				defer cancel()
				waits := claim
				waits.Wait = tenure.WaitForever
				start := time.Now()
				_, err := hold.Acquire(ctx, e, waits)
				if tenure.CodeOf(err) != c.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want %v and the context's end", err, c.want)
				}
				var unknown *tenure.Error
				if errors.As(err, &unknown); c.want == tenure.ErrUnknownOutcome && unknown.Op.IsZero() {
					t.Errorf("%v does not name the operation", err)
				}
				if took, n := time.Since(start), e.count("acquire"); took != 2*s || n != 1 {
					t.Errorf("%d claims in %v, want 1 in 2s", n, took)
				}
			})
		})
	}
}

// The first claim is executed and its answer lost; it is answered, as a replay,
// when most of the TTL is over. A replay taken for a heartbeat would believe in
// a lease that another is about to be granted.
func TestT14_AReplayIsNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		op := tenure.NewOp(1)
		c := claim
		c.Op = op
		if _, err := e.Acquire(t.Context(), c); err != nil { // this process, before it was started again
			t.Fatal(err)
		}
		pass(9500 * ms)
		e.does(func(call string, n int) fault {
			if call == "renew" {
				return fault{late: 100 * ms}
			}
			return fault{}
		})
		h := acquire(t, e, c)
		if n := e.count("renew"); n != 1 {
			t.Fatalf("%d renewals before the hold was believed, want 1", n)
		}
		if left := h.Remaining(); left > 8900*ms || left < 8890*ms {
			t.Errorf("%v remain 100ms after the send of the renewal", left)
		}
		pass(time.Minute)
		stands(t, h)
	})
}

func TestT14_AReplayThatCannotBeRenewedIsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		c := claim
		c.Op = tenure.NewOp(1)
		if _, err := e.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		e.does(func(call string, n int) fault {
			if call == "renew" {
				return fault{refuse: errGone}
			}
			return fault{}
		})
		_, err := hold.Acquire(t.Context(), e, c)
		if !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("%v, want what the renewals met", err)
		}
		if e.count("release") != 0 {
			t.Error("released a lease under whose operation others may work")
		}
	})
}

func TestAnOperationWhoseTenureIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		c := claim
		c.Op = tenure.NewOp(1)
		acquire(t, e, c).Release()
		_, err := hold.Acquire(t.Context(), e, c)
		if !errors.Is(err, tenure.ErrEnded) {
			t.Errorf("the caller's own: %v, want ended", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		e.does(func(call string, n int) fault {
			if call == "acquire" && n == 1 {
				return fault{slow: 11 * s, deaf: true, lose: errMaze} // granted, and lapsed before anybody hears
			}
			return fault{}
		})
		h := acquire(t, e, claim)
		stands(t, h)
		if len(e.rows) != 2 {
			t.Errorf("the engine's own: %d leases, want a second one by a fresh operation", len(e.rows))
		}
	})
}

func TestAnEngineThatIsTooSlowForTheTTLIsNotAskedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		e.does(func(call string, n int) fault { return fault{slow: 11 * s, deaf: true} })
		_, err := hold.Acquire(t.Context(), e, claim)
		if !errors.Is(err, tenure.ErrStale) && !errors.Is(err, tenure.ErrNotFound) {
			t.Errorf("%v, want what became of the lease", err)
		}
		if n := e.count("acquire"); n > 3 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestT14_AClaimThatWaitedIsRenewedBeforeItIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		first := acquire(t, e, claim)
		time.AfterFunc(8*s, func() { first.Release() })
		e.does(func(call string, n int) fault {
			if call == "renew" {
				return fault{slow: 200 * ms}
			}
			return fault{}
		})
		c := claim
		c.Wait = tenure.WaitForever
		h := acquire(t, e, c)
		stands(t, h)
		if left := h.Remaining(); left > 8800*ms || left < 8790*ms {
			t.Errorf("%v remain after the wait, want 8.8s: counted from the send of the renewal", left)
		}
	})
}

func TestAWaitIsNotProlongedByRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		acquire(t, e, claim)
		e.does(func(call string, n int) fault {
			if call == "acquire" && n == 2 {
				return fault{late: 3 * s, refuse: errMaze}
			}
			return fault{}
		})
		c := claim
		c.Wait = 5 * s
		start := time.Now()
		if _, err := hold.Acquire(t.Context(), e, c); !errors.Is(err, tenure.ErrHeld) {
			t.Errorf("%v, want held", err)
		}
		if took := time.Since(start); took > 5100*ms || took < 4900*ms {
			t.Errorf("waited %v of 5s", took)
		}
	})
}

func TestAGrantThatIsNotWantedAnyMoreIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newStrict()
		e.does(func(call string, n int) fault {
			if call == "acquire" {
				return fault{slow: s, deaf: true}
			}
			return fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*ms)
		defer cancel()
		_, err := hold.Acquire(ctx, e, claim)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's end", err)
		}
		if state := e.last().State; state != tenure.StateReleased {
			t.Errorf("the lease is %v", state)
		}
	})
}
