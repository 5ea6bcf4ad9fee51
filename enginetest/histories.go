package enginetest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenurehq/tenure"
)

// Histories plays random histories on the engine and on the law in package
// kernel: the same commands, and then the same answers, the same state, the
// same events. It needs no capability; what the engine does not claim does not
// come up, or is compared by what every engine must answer. A history that
// disagrees is made as short as possible, and printed with how to replay it.
//
// Outside of a bubble no time decides anything: leases have no TTL.
func Histories(t *testing.T, open Open) {
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt, false)
		n++
		var wrong error
		if !t.Run(fmt.Sprintf("history-%d", n), func(t *testing.T) { wrong = h.play(t, open, false) }) {
			rt.Fatal("the subject failed")
		}
		h.judge(rt, wrong)
	})
}

// HistoriesInBubble is Histories in a bubble of testing/synctest, where
// histories let time pass, too: TTLs, graces and reservations run out.
func HistoriesInBubble(t *testing.T, open Open) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt, true)
		var wrong error
		synctest.Test(t, func(t *testing.T) { wrong = h.play(t, open, true) })
		h.judge(rt, wrong)
	})
}

// history is what is done, by names that mean the same on every engine.
type history struct {
	timed bool // leases have TTLs and time passes; otherwise history is short
	steps []step
}

// step is one thing to do. Which of its fields count depends on what.
type step struct {
	what    string
	holder  tenure.Holder
	keys    []string
	lease   int  // counted back from the last one that was granted
	current bool // with the epoch as it stands, instead of that of the grant
	other   bool // by somebody else, or for another claim
	reserve bool
	pass    time.Duration
}

// String is a step as a reader of a failure wants it.
func (s step) String() string {
	switch s.what {
	case "claim", "look":
		return fmt.Sprintf("%s %v by %s reserve=%v", s.what, s.keys, s.holder, s.reserve)
	case "pass":
		return fmt.Sprintf("pass %v", s.pass)
	case "restart":
		return s.what
	}
	return fmt.Sprintf("%s lease -%d current=%v other=%v", s.what, s.lease, s.current, s.other)
}

const (
	historyLeases = 4 // live at once
	historyKept   = 3 // ended
	historyBundle = 3
)

// limits are those under which a history is played: tight, so that they are
// reached.
func (h *history) limits() tenure.Limits {
	l := tenure.DefaultLimits()
	l.Leases, l.Bundle = historyLeases, historyBundle
	if !h.timed {
		l.History = historyKept
	}
	return l
}

func drawHistory(rt *rapid.T, bubble bool) *history {
	h := &history{timed: bubble && rapid.Bool().Draw(rt, "timed")}
	kinds := []string{"claim", "claim", "claim", "claim", "repeat", "release", "release", "activate", "revoke", "reclaim", "renew", "look"}
	if h.timed {
		kinds = append(kinds, "pass", "pass", "pass")
	} else {
		kinds = append(kinds, "restart")
	}
	h.steps = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
		s := step{what: rapid.SampledFrom(kinds).Draw(rt, "what")}
		switch s.what {
		case "claim", "look":
			s.holder = rapid.SampledFrom([]tenure.Holder{"ann", "bob"}).Draw(rt, "holder")
			s.keys = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, historyBundle+1, rapid.ID[string]).Draw(rt, "keys")
			s.reserve = rapid.IntRange(0, 3).Draw(rt, "reserve") == 0
		case "pass":
			s.pass = rapid.SampledFrom([]time.Duration{exact.ttl / 3, exact.ttl / 2, exact.ttl, exact.grace, 3 * exact.ttl}).Draw(rt, "pass")
		default:
			s.lease = rapid.IntRange(0, 9).Draw(rt, "lease")
			s.current = rapid.IntRange(0, 4).Draw(rt, "current") == 0
			s.other = rapid.IntRange(0, 4).Draw(rt, "other") == 0
		}
		return s
	}), 1, 80).Draw(rt, "steps")
	return h
}

// judge fails with what happened up to the disagreement.
func (h *history) judge(rt *rapid.T, wrong error) {
	if wrong == nil {
		return
	}
	for i, s := range h.steps {
		rt.Logf("%3d %v", i+1, s)
	}
	rt.Fatalf("timed=%v: %v", h.timed, wrong)
}

// play makes the history happen, and returns the first disagreement.
func (h *history) play(t *testing.T, open Open, bubble bool) error {
	limits := h.limits()
	p := newProbe(t, open(t, limits), limits, bubble)
	m := newModel(p, h.timed)
	for i, s := range h.steps {
		if err := m.step(s); err != nil {
			return fmt.Errorf("step %d, %v: %w", i+1, s, err)
		}
	}
	return m.compare()
}
