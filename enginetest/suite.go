package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
)

// Subject is an engine under test, on a store of its own that holds nothing
// yet. Whoever made it registers its end with Cleanup.
type Subject struct {
	Engine tenure.Engine

	// Peer is a second client of the same store, as independent of Engine as
	// can be: another engine, another connection. nil means Engine itself.
	Peer tenure.Engine

	// Restart crashes what keeps the leases and opens it again; the engines of
	// before are of no use any more. nil: it cannot.
	Restart func() tenure.Engine

	// Recreate loses the store and creates it anew in the same place. nil: it
	// cannot.
	Recreate func() tenure.Engine

	// Lose makes the answer of the next command that changes something get
	// lost on its way, after it was executed, or before. The engine may be
	// halted by it; Restart is called then. nil: it cannot.
	Lose func(executed bool)
}

// Open makes a subject for one case. Limits are those to run under; an engine
// that keeps no table of its own (of leases, of history, of waiters) has
// nothing to bound there, and does not claim History or Fair.
type Open func(t *testing.T, limits tenure.Limits) Subject

// Run runs the suite in real time; what takes time takes fractions of a second.
func Run(t *testing.T, open Open) {
	run(t, open, false)
}

// RunInBubble runs each case in a bubble of testing/synctest. Open is called
// inside it, and everything that the engine starts has to end with the case.
func RunInBubble(t *testing.T, open Open) {
	run(t, open, true)
}

// testCase is one numbered case. Its ID is never used again for another one.
type testCase struct {
	ID    string
	Name  string
	Says  string                 // given → when → then
	Needs tenure.Caps            // what the engine has to claim
	Wants wants                  // what the subject has to offer
	Set   func(l *tenure.Limits) // limits that differ from the default
	Run   func(p *probe)
}

// wants says what a case asks of its subject besides an engine.
type wants uint8

const (
	restarts wants = 1 << iota
	recreates
	loses
	exactTime  // a bubble: moments are exact
	latestOnly // an engine that does not claim EveryEvent
)

func cases() []testCase {
	var all []testCase
	for _, of := range [][]testCase{
		claimCases, fieldCases, lawCases, repeatCases, historyCases, tokenCases, timeCases, revokeCases,
		waitCases, readCases, watchCases,
	} {
		all = append(all, of...)
	}
	return all
}

func run(t *testing.T, open Open, bubble bool) {
	var offers *probe
	one(t, "what it claims and offers", bubble, func(t *testing.T) {
		offers = newProbe(t, open(t, tenure.DefaultLimits()), tenure.DefaultLimits(), bubble)
	})
	if t.Failed() {
		return
	}
	var left []string
	for _, c := range cases() {
		if lacking := c.lacking(offers); lacking != "" {
			left = append(left, fmt.Sprintf("%s %s: %s", c.ID, c.Name, lacking))
			continue
		}
		one(t, c.ID+" "+c.Name, bubble, func(t *testing.T) { c.play(t, open, bubble) })
	}
	if len(left) > 0 {
		t.Logf("left out, since this engine does not claim or offer it:\n\t%s", strings.Join(left, "\n\t"))
	}
}

func one(t *testing.T, name string, bubble bool, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if bubble {
			synctest.Test(t, f)
		} else {
			f(t)
		}
	})
}

// play runs the case on a fresh subject.
func (c *testCase) play(t *testing.T, open Open, bubble bool) {
	limits := tenure.DefaultLimits()
	if c.Set != nil {
		c.Set(&limits)
	}
	p := newProbe(t, open(t, limits), limits, bubble)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %s", c.ID, c.Says)
		}
	})
	c.Run(p)
}

// lacking names what the case needs and the subject does not have; "" if it
// has it all.
func (c *testCase) lacking(p *probe) string {
	var lacks *tenure.Error
	if errors.As(p.caps.Require(c.Needs), &lacks) {
		return "no " + lacks.Field
	}
	switch {
	case c.Wants&restarts != 0 && p.Subject.Restart == nil:
		return "no Restart"
	case c.Wants&recreates != 0 && p.Subject.Recreate == nil:
		return "no Recreate"
	case c.Wants&loses != 0 && p.Subject.Lose == nil:
		return "no Lose"
	case c.Wants&exactTime != 0 && !p.bubble:
		return "moments are not exact"
	case c.Wants&latestOnly != 0 && p.caps.EveryEvent:
		return "it tells every event"
	}
	return ""
}

// pace is how long things take in a case.
type pace struct {
	ttl, grace, reserve time.Duration
	slack               time.Duration // how late is still on time
	patience            time.Duration // after which something never comes
	limit               time.Duration // after which a case is hopeless
}

var (
	exact = pace{ttl: 10 * time.Second, grace: 2 * time.Second, reserve: 5 * time.Second, slack: 250 * time.Millisecond, patience: time.Hour, limit: 6 * time.Hour}
	brisk = pace{ttl: 300 * time.Millisecond, grace: 150 * time.Millisecond, reserve: 250 * time.Millisecond, slack: 15 * time.Second, patience: 30 * time.Second, limit: 2 * time.Minute}
)
