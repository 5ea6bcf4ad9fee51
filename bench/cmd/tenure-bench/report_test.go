package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure/bench/load"
)

func result(measure string, callers int, subject string, perSec float64, p50 time.Duration) figure {
	return figure{Measure: measure, Callers: callers, Subject: subject, Durability: "some", Result: load.Result{
		Callers: callers, Seconds: 1, Count: int64(perSec), PerSec: perSec, P50: p50, P99: 2 * p50,
	}}
}

// Each column is the median of its own, and a bar is judged by medians: what a
// single round did better does not count.
func TestConclude(t *testing.T) {
	plan := choose(measures(), regexp.MustCompile(`^cycles/1/(tenure|etcd)`))
	r := report{Machine: machine{Cores: 2}, Results: []figure{
		result("cycles", 1, "tenure", 100, 10), result("cycles", 1, "etcd", 10, 15),
		result("cycles", 1, "tenure", 300, 90), result("cycles", 1, "etcd", 30, 100),
		result("cycles", 1, "tenure", 200, 50), result("cycles", 1, "etcd", 20, 120),
	}}
	r.conclude(plan)
	if own, _ := r.median("cycles", 1, "tenure"); own.PerSec != 200 || own.P50 != 50 || own.P99 != 100 {
		t.Errorf("median %v/s, p50 %v, p99 %v", own.PerSec, own.P50, own.P99)
	}
	if len(r.Bars) != 1 || !r.Bars[0].Met || r.Bars[0].Value != 0.5 {
		t.Errorf("bars: %+v", r.Bars)
	}
	var text strings.Builder
	r.print(&text, plan)
	for _, want := range []string{"| 1 | tenure | 200 |", "10.00 ×", "≤ 0.50 ×"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, &text)
		}
	}
}

// A rate is to be at least, a time at most what is wanted.
func TestBarsMissed(t *testing.T) {
	slow := report{Medians: []figure{
		result("contend", contenders, "tenure", 299_999, 1),
		result("cycles", 1, "tenure", 100, 51), result("cycles", 1, "etcd", 10, 100),
	}}
	judged := 0
	for _, b := range bars {
		v, measured := b.judge(&slow)
		if !measured {
			continue
		}
		judged++
		if v.Met {
			t.Errorf("%s: met by %s", v.Bar, v.Reached)
		}
	}
	if judged != 2 {
		t.Errorf("%d bars were judged", judged)
	}
}

// Every bar names figures that are measured.
func TestBarsAreMeasured(t *testing.T) {
	all := report{}
	for _, m := range choose(measures(), regexp.MustCompile("")) {
		for _, c := range m.chosen {
			all.Medians = append(all.Medians, result(m.name, c.callers, c.subject.name, 1, 1))
		}
	}
	for _, b := range bars {
		if _, measured := b.judge(&all); !measured {
			t.Errorf("%s is about what is not measured", b.name)
		}
	}
}

// Callers share the renewals: everything is renewed once before anything is
// renewed again.
func TestRounds(t *testing.T) {
	const n, batch, callers = 1000, 100, 5
	next := rounds(n, batch, callers)
	for round := range 3 {
		seen := map[int]bool{}
		for range n / batch / callers {
			for i := range callers {
				seen[next(i)] = true
			}
		}
		if len(seen) != n/batch {
			t.Errorf("round %d: %d of %d batches", round, len(seen), n/batch)
		}
	}
}

// Names have the length that is documented, and are well formed.
func TestNames(t *testing.T) {
	for _, use := range []string{"cycle", "renew", "pass", "contend"} {
		c := claim(use, 12345)
		if err := c.Resources[0].Validate(); err != nil || len(c.Resources[0]) != 32 || len(c.Holder) != 16 {
			t.Errorf("%s by %s: %v", c.Resources[0], c.Holder, err)
		}
	}
}

// What others took from a row is said at the top.
func TestDisturbed(t *testing.T) {
	for _, others := range []float64{0.1, 0.3} { // of the 2 s that two cores have
		f := result("cycles", 1, "tenure", 100, 1)
		f.CPU.Others = others
		r := report{Machine: machine{Cores: 2}, Medians: []figure{f}}
		var text strings.Builder
		r.print(&text, nil)
		if said := strings.Contains(text.String(), "not quiet"); said != (others > 0.2) {
			t.Errorf("%v s by others: said %v", others, said)
		}
	}
}
