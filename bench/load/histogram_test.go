package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Quantiles are those of the sorted durations, to within 1 %.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 100_000 {
		d := time.Duration(random.ExpFloat64() * float64(time.Millisecond))
		if random.IntN(100) == 0 {
			d *= 1000
		}
		h.note(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.9999} {
		want, got := all[int(q*float64(len(all)))], h.at(q)
		if diff := (got - want).Abs(); float64(diff) > 0.01*float64(want)+1 {
			t.Errorf("at %v: %v, want %v", q, got, want)
		}
	}
}

// The extremes have buckets.
func TestExtremes(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 255, 256, 257, time.Hour, 1<<63 - 1} {
		var h histogram
		h.note(d)
		if got := h.at(0.5); d >= 0 && d < 17*time.Minute && float64((got-d).Abs()) > 0.01*float64(d) {
			t.Errorf("%v was counted as %v", d, got)
		}
	}
}
