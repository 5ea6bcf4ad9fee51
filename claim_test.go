package tenure

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestClaimResolvesItsDefaultsOnce(t *testing.T) {
	got := On("default/x").Resolve()
	if got.TTL != DefaultTTL || got.Grace != DefaultTTL/10 || got.Holder != DefaultHolder() {
		t.Errorf("defaults: %+v", got)
	}
	if again := got.Resolve(); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("a resolved claim changed: %+v, then %+v", got, again)
	}
	for _, c := range []struct{ ttl, grace, wantTTL, wantGrace time.Duration }{
		{500 * time.Millisecond, 0, 500 * time.Millisecond, MinDefaultGrace},
		{NoTTL, 0, NoTTL, NoGrace},
		{NoTTL, time.Second, NoTTL, time.Second},
		{time.Second, NoGrace, time.Second, NoGrace},
		{time.Second + 1, 1, 1001 * time.Millisecond, time.Millisecond}, // rounded up, never down
	} {
		r := Claim{TTL: c.ttl, Grace: c.grace}.Resolve()
		if r.TTL != c.wantTTL || r.Grace != c.wantGrace {
			t.Errorf("ttl %v grace %v resolve to %v and %v, want %v and %v", c.ttl, c.grace, r.TTL, r.Grace, c.wantTTL, c.wantGrace)
		}
	}
}

// proves: T12
func TestClaimIsCheckedAtEveryLimit(t *testing.T) {
	l := DefaultLimits()
	names := make([]string, l.Bundle+1)
	for i := range names {
		names[i] = fmt.Sprintf("ns/k%d", i)
	}
	for name, c := range map[string]struct {
		change func(*Claim)
		field  string // "" = accepted
	}{
		"one resource":     {func(*Claim) {}, ""},
		"no resource":      {func(c *Claim) { c.Resources = nil }, "resources"},
		"twice":            {func(c *Claim) { c.Resources = []Resource{"a/b", "a/c", "a/b"} }, "resources"},
		"malformed second": {func(c *Claim) { c.Resources = []Resource{"a/b", "c"} }, "resource"},
		"bundle at":        {func(c *Claim) { c.Resources = On(names[:l.Bundle]...).Resources }, ""},
		"bundle above":     {func(c *Claim) { c.Resources = On(names...).Resources }, "resources"},
		"meta at":          {func(c *Claim) { c.Meta = bytes.Repeat([]byte("m"), MaxMetaBytes) }, ""},
		"meta above":       {func(c *Claim) { c.Meta = bytes.Repeat([]byte("m"), MaxMetaBytes+1) }, "meta"},
		"holder":           {func(c *Claim) { c.Holder = "a\nb" }, "holder"},
		"ttl below":        {func(c *Claim) { c.TTL = l.MinTTL - time.Millisecond }, "ttl"},
		"ttl at least":     {func(c *Claim) { c.TTL = l.MinTTL }, ""},
		"ttl at most":      {func(c *Claim) { c.TTL = l.MaxTTL }, ""},
		"ttl above":        {func(c *Claim) { c.TTL = l.MaxTTL + time.Millisecond }, "ttl"},
		"ttl negative":     {func(c *Claim) { c.TTL = -2 }, "ttl"},
		"no ttl":           {func(c *Claim) { c.TTL = NoTTL }, ""},
		"grace at":         {func(c *Claim) { c.Grace = l.MaxGrace }, ""},
		"grace above":      {func(c *Claim) { c.Grace = l.MaxGrace + time.Millisecond }, "grace"},
		"grace negative":   {func(c *Claim) { c.Grace = -2 }, "grace"},
		"reserve below":    {func(c *Claim) { c.Reserve = l.MinReserve - time.Millisecond }, "reserve"},
		"reserve at least": {func(c *Claim) { c.Reserve = l.MinReserve }, ""},
		"reserve at most":  {func(c *Claim) { c.Reserve = l.MaxReserve }, ""},
		"reserve above":    {func(c *Claim) { c.Reserve = l.MaxReserve + time.Millisecond }, "reserve"},
		"reserve negative": {func(c *Claim) { c.Reserve = -time.Second }, "reserve"},
	} {
		claim := On("default/x")
		c.change(&claim)
		err := claim.Resolve().Validate(l)
		var e *Error
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && (!errors.As(err, &e) || e.Field != c.field):
			t.Errorf("%s: got %v, want an error that names %s", name, err, c.field)
		}
	}
}

func TestLimitsContradictNoOther(t *testing.T) {
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*Limits){
		"limits.leases":               func(l *Limits) { l.Leases = 0 },
		"limits.bundle":               func(l *Limits) { l.Bundle = 0 },
		"limits.history":              func(l *Limits) { l.History = -1 },
		"limits.min_ttl":              func(l *Limits) { l.MinTTL = l.MaxTTL + 1 },
		"limits.max_grace":            func(l *Limits) { l.MaxGrace = -1 },
		"limits.min_reserve":          func(l *Limits) { l.MinReserve = l.MaxReserve + 1 },
		"limits.waiters_per_resource": func(l *Limits) { l.WaitersPerResource = l.Waiters + 1 },
	} {
		l := DefaultLimits()
		change(&l)
		var e *Error
		if err := l.Validate(); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestCommandsNameWhatIsMissing(t *testing.T) {
	ref := Ref{Token: Token{Lease: LeaseID{LSN: 7}, Epoch: 1}, Resource: "a/b"}
	long := string(bytes.Repeat([]byte("r"), MaxReasonBytes+1))
	for name, c := range map[string]struct {
		command Command
		field   string
	}{
		"activate":             {Activate{Ref: ref, Holder: "h"}, ""},
		"no token":             {Activate{Holder: "h"}, "token"},
		"no holder":            {Release{Ref: ref}, "holder"},
		"release":              {Release{Ref: ref, Holder: "h", Result: Result{Outcome: OutcomeFailed, Detail: "line\nline"}}, ""},
		"release lapsed":       {Release{Ref: ref, Holder: "h", Result: Result{Outcome: OutcomeLapsed}}, "result"},
		"detail above":         {Release{Ref: ref, Holder: "h", Result: Result{Detail: long}}, "detail"},
		"detail at":            {Release{Ref: ref, Holder: "h", Result: Result{Detail: long[1:]}}, ""},
		"revoke":               {Revoke{Lease: ref.Token.Lease, Reason: "x"}, ""},
		"revoke nothing":       {Revoke{Reason: "x"}, "lease"},
		"reason above":         {Revoke{Lease: ref.Token.Lease, Reason: long}, "reason"},
		"reason not utf-8":     {Revoke{Lease: ref.Token.Lease, Reason: "\xff"}, "reason"},
		"reclaim bad resource": {Reclaim{Lease: ref.Token.Lease, Resource: "x"}, "resource"},
	} {
		err := c.command.Validate()
		var e *Error
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &e) || e.Field != c.field) {
			t.Errorf("%s: got %v, want %q", name, err, c.field)
		}
	}
}

func TestCapsName(t *testing.T) {
	if err := (Caps{JudgesLate: true}).Require(Caps{}); err != nil {
		t.Error(err)
	}
	var e *Error
	err := Caps{Reserve: true}.Require(Caps{Reserve: true, Bundles: true})
	if !errors.As(err, &e) || e.Code != ErrUnsupported || e.Field == "" || e.Why == "" {
		t.Errorf("%v does not name what is lacking and where it is to be had", err)
	}
}

func TestErrorsAreToldApartByCode(t *testing.T) {
	cause := errors.New("disk on fire")
	err := fmt.Errorf("wrapped: %w", &Error{Code: ErrUnknownOutcome, Resource: "a/b", Cause: cause, Why: "repeat"})
	if !errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrHeld) || !errors.Is(err, cause) || CodeOf(err) != ErrUnknownOutcome {
		t.Errorf("%v", err)
	}
	for _, c := range Codes() {
		if back, ok := ParseCode(c.String()); !ok || back != c {
			t.Errorf("%d is named %q, which reads as %v", c, c, back)
		}
		if CodeOf(c) != c {
			t.Errorf("%v is not its own code", c)
		}
	}
	for s := StateReserved; s <= StateRevoked; s++ {
		if back, ok := ParseState(s.String()); !ok || back != s {
			t.Errorf("state %v", s)
		}
	}
	for o := OutcomeNone; o <= OutcomeRevoked; o++ {
		if back, ok := ParseOutcome(o.String()); !ok || back != o {
			t.Errorf("outcome %q", o)
		}
	}
	for e := EndingUnknown; e <= EndingNever; e++ {
		if back, ok := ParseEnding(e.String()); !ok || back != e {
			t.Errorf("ending %v", e)
		}
	}
	for k := EventWatching; k <= EventExpired; k++ {
		if back, ok := ParseEventKind(k.String()); !ok || back != k {
			t.Errorf("event %v", k)
		}
	}
	if _, ok := ParseState(""); ok {
		t.Error("no state is named by nothing")
	}
}
