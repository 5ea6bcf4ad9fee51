package hold_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

func ExampleDeadline() {
	at := func(s int) hold.Instant {
		return hold.Instant{Boot: time.Duration(s) * time.Second, Mono: time.Duration(s) * time.Second}
	}
	d, err := hold.NewDeadline(10*time.Second, hold.DefaultMargin(10*time.Second))
	if err != nil {
		panic(err)
	}
	d.Sent(1, at(0))
	d.Sent(1, at(2)) // no answer: repeated
	d.Answered(1, at(3))
	fmt.Println(d.Remaining(at(3)))
	// Output: 6s
}

func at(d time.Duration) hold.Instant { return hold.Instant{Boot: d, Mono: d} }

func belief(t *testing.T, ttl, margin time.Duration) *hold.Deadline {
	t.Helper()
	d, err := hold.NewDeadline(ttl, margin)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func remains(t *testing.T, d *hold.Deadline, now hold.Instant, want time.Duration) {
	t.Helper()
	if got := d.Remaining(now); got != want {
		t.Errorf("remaining at %v: %v, want %v", now, got, want)
	}
}

const s = time.Second

func TestT14_BeliefCountsFromTheFirstSend(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	remains(t, d, at(0), 0)
	d.Sent(1, at(0))
	remains(t, d, at(1*s), 0) // sent is not answered
	d.Sent(1, at(3*s))        // a repeat
	if !d.Answered(1, at(4*s)) {
		t.Fatal("an answer in time does not count")
	}
	remains(t, d, at(4*s), 5*s)
	remains(t, d, at(9*s-1), 1)
	remains(t, d, at(9*s), 0)
}

func TestT14_ARepeatAfterItsAnswerDoesNotExtend(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	d.Answered(1, at(1*s))
	d.Sent(1, at(5*s))
	d.Answered(1, at(6*s))
	remains(t, d, at(6*s), 3*s)
}

func TestT14_AnAnswerCountsForItsOwnRequestOnly(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	d.Answered(1, at(0))
	d.Sent(2, at(3*s))
	d.Sent(3, at(6*s))
	d.Answered(2, at(7*s)) // late: counts from 3 s, not from 6 s
	remains(t, d, at(7*s), 5*s)
	d.Answered(99, at(7*s)) // never sent
	remains(t, d, at(7*s), 5*s)
	d.Answered(3, at(7*s))
	remains(t, d, at(7*s), 8*s)
}

func TestAnAnswerOvertakenByALaterOneTakesNothingBack(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	d.Sent(2, at(3*s))
	d.Answered(2, at(4*s))
	if !d.Answered(1, at(5*s)) {
		t.Error("the belief is said to be over")
	}
	remains(t, d, at(5*s), 7*s)
}

func TestADroppedRequestIsNotAnsweredAnyMore(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	d.Answered(1, at(0))
	d.Sent(2, at(3*s))
	d.Dropped(2)
	d.Answered(2, at(4*s))
	remains(t, d, at(4*s), 5*s)
}

func TestT14_AnAnswerBeyondTheDeadlineDoesNotRevive(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	if d.Answered(1, at(9*s)) {
		t.Error("an answer that came after a TTL began a belief")
	}
	d = belief(t, 10*s, 1*s)
	d.Sent(1, at(0))
	d.Answered(1, at(1*s))
	d.Sent(2, at(8*s))
	if d.Answered(2, at(9*s)) {
		t.Error("a belief that was over went on")
	}
	d.Sent(3, at(10*s))
	d.Answered(3, at(10*s))
	remains(t, d, at(10*s), 0)
}

// Either clock may be the one that goes on: boot time in suspend on Linux, the
// monotonic clock where there is no other.
func TestT14_TheSmallerRemainingTimeOfBothClocks(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	d.Sent(1, hold.Instant{Boot: 100 * s, Mono: 7 * s})
	d.Answered(1, hold.Instant{Boot: 100 * s, Mono: 7 * s})
	remains(t, d, hold.Instant{Boot: 105 * s, Mono: 8 * s}, 4*s)
	remains(t, d, hold.Instant{Boot: 106 * s, Mono: 14 * s}, 2*s)
	remains(t, d, hold.Instant{Boot: 109 * s, Mono: 14 * s}, 0)
}

func TestNoTTLNeverEnds(t *testing.T) {
	d := belief(t, tenure.NoTTL, 0)
	remains(t, d, at(0), 0) // not granted yet
	d.Sent(1, at(0))
	d.Answered(1, at(1000*time.Hour))
	remains(t, d, at(250*365*24*time.Hour), hold.Forever)
}

func TestWhatIsInFlightIsBounded(t *testing.T) {
	d := belief(t, 10*s, 1*s)
	for id := range uint64(100) {
		d.Sent(id+1, at(0))
	}
	if d.Answered(1, at(1*s)) {
		t.Error("an answer to the oldest of 100 requests counts")
	}
	if !d.Answered(100, at(1*s)) {
		t.Error("an answer to the newest of 100 requests does not count")
	}
}

func TestDefaultMargin(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 50 * time.Millisecond,
		500 * time.Millisecond: 50 * time.Millisecond,
		15 * s:                 1500 * time.Millisecond,
		tenure.NoTTL:           0,
	} {
		if got := hold.DefaultMargin(ttl); got != want {
			t.Errorf("margin of %v: %v, want %v", ttl, got, want)
		}
	}
}

func TestATTLMustExceedItsMargin(t *testing.T) {
	for _, c := range []struct {
		ttl, margin time.Duration
		field       string
	}{
		{1 * s, 1 * s, "margin"},
		{1 * s, 2 * s, "margin"},
		{1 * s, -1, "margin"},
		{tenure.NoTTL, -1, "margin"},
		{0, 0, "ttl"},
		{-2, 0, "ttl"},
		{1 * s, 1*s - 1, ""},
		{1 * s, 0, ""},
	} {
		_, err := hold.NewDeadline(c.ttl, c.margin)
		var e *tenure.Error
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &e) || e.Code != tenure.ErrInvalid || e.Field != c.field) {
			t.Errorf("ttl %v margin %v: %v, want a refusal of %q", c.ttl, c.margin, err, c.field)
		}
	}
}
