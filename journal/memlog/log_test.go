package memlog_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/logtest"
	"github.com/tenurehq/tenure/journal/memlog"
)

var _ journal.Log = (*memlog.Log)(nil)

func TestLog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Subject {
		last := memlog.New()
		s := logtest.Subject{Log: last}
		s.Reopen = func() journal.Log {
			last = last.Crash(false)
			return last
		}
		return s
	})
}

func Example() {
	log := memlog.New()
	log.Fail(func(n int) (memlog.Moment, error) {
		if n == 2 {
			return memlog.After, errors.New("pulled the plug")
		}
		return 0, nil
	})
	h := logtest.History{Log: log}
	fmt.Println(h.Try(h.Next(1, "first")))
	fmt.Println(h.Try(h.Next(1, "second")))
	fmt.Println(errors.Is(h.Try(h.Next(1, "third")), tenure.ErrHalted))

	for _, inFlight := range []bool{false, true} {
		n := 0
		for range log.Crash(inFlight).Records(0) {
			n++
		}
		fmt.Println(n, "left")
	}
	// Output:
	// <nil>
	// tenure: halted: an append to the log in memory failed: pulled the plug
	// true
	// 1 left
	// 2 left
}

// What a crash leaves has every acknowledged record, the one on its way only
// when asked for, and goes on from there, apart from the log it was taken of.
//
// proves: T11
func TestT11_Crash(t *testing.T) {
	for _, when := range []memlog.Moment{memlog.Before, memlog.After} {
		for fail := 1; fail <= 4; fail++ {
			log := memlog.New()
			log.Fail(func(n int) (memlog.Moment, error) {
				if n == fail {
					return when, errors.New("fault")
				}
				return 0, nil
			})
			h := logtest.History{Log: log}
			for range fail - 1 {
				h.Commands(t, 2, "acknowledged")
			}
			r := h.Next(2, "lost")
			b := h.Encode(&r)
			if err := log.Append(r.Prev, b); err == nil {
				t.Fatal("no fault")
			}
			logtest.Equal(t, log, 0, h.Records)
			stored := h
			stored.Records = append(slices.Clone(h.Records), r)
			stored.Tip.Sum, stored.Tip.Last = r.Sum, r.Last
			if when == memlog.Before {
				stored = h
			}
			with, without := log.Crash(true), log.Crash(false)
			logtest.Equal(t, with, 0, stored.Records)
			logtest.Equal(t, without, 0, h.Records)
			stored.Log, h.Log = with, without
			stored.Commands(t, 1, "goes on")
			h.Commands(t, 1, "goes on")
			logtest.Equal(t, with, 0, stored.Records)
			logtest.Equal(t, without, 0, h.Records)
		}
	}
}
