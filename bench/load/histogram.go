package load

import (
	"math/bits"
	"time"
)

// histogram counts durations, each to within 1 %, up to 18 minutes.
type histogram struct {
	counts [(40 - fine) << fine]uint32
}

// fine is the logarithm of how many steps an octave has.
const fine = 7

func (h *histogram) note(d time.Duration) { h.counts[bucket(d)]++ }

func (h *histogram) add(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// at is the duration that a share q of the counted ones do not exceed.
func (h *histogram) at(q float64) time.Duration {
	total := uint64(0)
	for _, n := range h.counts {
		total += uint64(n)
	}
	rank, seen := uint64(q*float64(total)), uint64(0)
	for i, n := range h.counts {
		seen += uint64(n)
		if seen > rank {
			return middle(i)
		}
	}
	return 0
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-fine-1, 0)
	return min(shift<<fine+int(v>>shift), len(histogram{}.counts)-1)
}

// middle of what falls into a bucket.
func middle(i int) time.Duration {
	if i < 2<<fine {
		return time.Duration(i)
	}
	shift := i>>fine - 1
	low := uint64(i-shift<<fine) << shift
	return time.Duration(low + 1<<shift/2)
}
