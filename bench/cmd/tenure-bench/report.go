package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenurehq/tenure/bench/load"
)

// report is everything that was found.
type report struct {
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"servers"`
	Rounds   int               `json:"rounds"`
	Duration string            `json:"duration"`
	Results  []figure          `json:"results"` // every round
	Medians  []figure          `json:"medians"` // each field's own
	Bars     []verdict         `json:"bars"`
}

// figure is one subject's result in one round.
type figure struct {
	Measure    string `json:"measure"`
	Callers    int    `json:"callers"`
	Subject    string `json:"subject"`
	Durability string `json:"durability"`
	Round      int    `json:"round,omitempty"`
	load.Result
}

// conclude computes the medians and judges them.
func (r *report) conclude(plan []measure) {
	for _, m := range plan {
		for _, c := range m.chosen {
			r.Medians = append(r.Medians, median(r.of(m.name, c)))
		}
	}
	for _, b := range bars {
		if v, measured := b.judge(r); measured {
			r.Bars = append(r.Bars, v)
		}
	}
}

func (r *report) of(measure string, c cell) []figure {
	var found []figure
	for _, f := range r.Results {
		if f.Measure == measure && f.Callers == c.callers && f.Subject == c.subject.name {
			found = append(found, f)
		}
	}
	return found
}

// median takes each field's; of an even number, the lower.
func median(rounds []figure) figure {
	m := rounds[0]
	m.Round = 0
	m.Count = middle(rounds, func(f figure) int64 { return f.Count })
	m.PerSec = middle(rounds, func(f figure) float64 { return f.PerSec })
	m.P50 = middle(rounds, func(f figure) time.Duration { return f.P50 })
	m.P99 = middle(rounds, func(f figure) time.Duration { return f.P99 })
	m.Max = middle(rounds, func(f figure) time.Duration { return f.Max })
	m.CPU.Callers = middle(rounds, func(f figure) float64 { return f.CPU.Callers })
	m.CPU.Server = middle(rounds, func(f figure) float64 { return f.CPU.Server })
	m.CPU.Others = middle(rounds, func(f figure) float64 { return f.CPU.Others })
	m.CPU.Stolen = middle(rounds, func(f figure) float64 { return f.CPU.Stolen })
	return m
}

func middle[T int64 | float64 | time.Duration](rounds []figure, of func(figure) T) T {
	all := make([]T, len(rounds))
	for i, f := range rounds {
		all[i] = of(f)
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// print writes Markdown.
func (r *report) print(w io.Writer, plan []measure) {
	fmt.Fprintf(w, "%s\n\n%s.\n", r.Machine.When, &r.Machine)
	if r.Machine.Load >= quiet || slices.ContainsFunc(r.Medians, func(f figure) bool { return r.others(f) > disturbed }) {
		fmt.Fprintf(w, "\n**The machine was not quiet: these figures are not to be quoted.**\n")
	}
	fmt.Fprintln(w)
	if r.Machine.Commit != "" {
		fmt.Fprintf(w, "- tenure: commit %s\n", r.Machine.Commit)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(w, "- %s: %s\n", name, r.Versions[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Machine.Modules)) {
		fmt.Fprintf(w, "- %s %s\n", name, r.Machine.Modules[name])
	}
	fmt.Fprintf(w, "\nMedians of %d rounds of %s.\n", r.Rounds, r.Duration)
	for _, m := range plan {
		r.printMeasure(w, m)
	}
	if len(r.Bars) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### Bars\n\n| bar | wanted | reached | |\n|---|---|---|---|\n")
	for _, b := range r.Bars {
		said := "missed"
		if b.Met {
			said = "met"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.Bar, b.Wanted, b.Reached, said)
	}
}

// disturbed is the share of the machine above which others are taken to have
// had a part in a figure.
const disturbed = 0.1

// others is the share of the machine that was not available to the measured.
func (r *report) others(f figure) float64 {
	return (f.CPU.Others + f.CPU.Stolen) / f.Seconds / float64(r.Machine.Cores)
}

func (r *report) printMeasure(w io.Writer, m measure) {
	fmt.Fprintf(w, "\n### %s\n\n", m.title)
	fmt.Fprintf(w, "| callers | subject | %s/s | p50 of a %s | p99 | CPU per %s: callers + server | others' CPU | Tenure is | durability |\n",
		m.unit, m.turn, strings.TrimSuffix(m.unit, "s"))
	fmt.Fprintln(w, "|---:|---|---:|---:|---:|---:|---:|---:|---|")
	var notes []string
	for _, f := range r.Medians {
		if f.Measure != m.name {
			continue
		}
		ratio := ""
		if own, found := r.median(m.name, f.Callers, m.subjects[0].name); found && f.Subject != own.Subject {
			ratio = fmt.Sprintf("%.2f ×", own.PerSec/f.PerSec)
		}
		each := func(cpu float64) string { return fmt.Sprintf("%.1f", cpu*1e6/float64(f.Count)) }
		fmt.Fprintf(w, "| %d | %s | %s | %v | %v | %s + %s µs | %.0f %% | %s | %s |\n",
			f.Callers, f.Subject, thousands(f.PerSec), short(f.P50), short(f.P99), each(f.CPU.Callers), each(f.CPU.Server),
			100*r.others(f), ratio, f.Durability)
		if f.Note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s.", f.Subject, f.Note))
		}
	}
	for _, n := range notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
}

func (r *report) median(measure string, callers int, subject string) (figure, bool) {
	i := slices.IndexFunc(r.Medians, func(f figure) bool {
		return f.Measure == measure && f.Callers == callers && f.Subject == subject
	})
	if i < 0 {
		return figure{}, false
	}
	return r.Medians[i], true
}

func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short leaves three digits or so.
func short(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond)
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
