package hold

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tenurehq/tenure"
)

// Forever is what remains of a belief that no silence ends ([tenure.NoTTL]).
const Forever time.Duration = math.MaxInt64

// Deadline is the arithmetic of belief: until when a holder may act as the
// owner. It is told what was sent and what was answered, and reads no clock
// itself. It is not safe for concurrent use.
//
// Belief lasts until the moment the answered request was first sent, plus the
// TTL, minus the margin. Answers are matched to requests by id, so that a late
// answer never counts for a later request. What has ended stays ended.
type Deadline struct {
	ttl, margin time.Duration
	inFlight    []request
	newest      uint64 // the highest id ever sent
	begun, over bool
	from        Instant // the send that the belief counts from
}

// Instant is one moment, read from two clocks: Boot also counts the time for
// which the machine was suspended, Mono is Go's monotonic clock. Readings are
// comparable within one process only.
type Instant struct {
	Boot, Mono time.Duration
}

// since is the time that passed, by the clock on which more did.
func (i Instant) since(from Instant) time.Duration {
	return max(i.Boot-from.Boot, i.Mono-from.Mono)
}

type request struct {
	id uint64
	at Instant
}

// maxInFlight bounds what a caller that never hears an answer can pile up; an
// answer to a request older than that does not count.
const maxInFlight = 64

// DefaultMargin is the margin for a TTL where none is configured: a tenth of
// it, at least 50 ms; none for [tenure.NoTTL].
func DefaultMargin(ttl time.Duration) time.Duration {
	if ttl == tenure.NoTTL {
		return 0
	}
	return max(ttl/10, 50*time.Millisecond)
}

// NewDeadline returns a belief that has not begun. The TTL is positive or
// [tenure.NoTTL], and larger than the margin, which is not negative; otherwise
// the error is a [*tenure.Error] with code [tenure.ErrInvalid].
func NewDeadline(ttl, margin time.Duration) (*Deadline, error) {
	switch {
	case margin < 0:
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "margin", Why: fmt.Sprintf("%v is negative: a belief must not outlive the TTL", margin)}
	case ttl == tenure.NoTTL:
	case ttl <= 0:
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "ttl", Why: fmt.Sprintf("%v is not a TTL: a positive duration, or no TTL at all", ttl)}
	case ttl <= margin:
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "margin", Why: fmt.Sprintf("a TTL of %v leaves no time to work before the margin of %v: raise the TTL or lower the margin", ttl, margin)}
	}
	return &Deadline{ttl: ttl, margin: margin}, nil
}

// Sent notes that the request id is about to be sent; call it before sending.
// Ids increase. An id that was noted before is a repeat and changes nothing:
// the first send counts.
func (d *Deadline) Sent(id uint64, at Instant) {
	if id <= d.newest {
		return
	}
	d.newest = id
	if len(d.inFlight) == maxInFlight {
		d.inFlight = slices.Delete(d.inFlight, 0, 1)
	}
	d.inFlight = append(d.inFlight, request{id: id, at: at})
}

// Answered notes that the engine said yes to the request id, and heard it at
// now. It reports whether the holder may believe. An answer to a request that
// is not in flight, or that comes when the belief is over, changes nothing. The
// replay of a grant is no answer in this sense: it says what became of an
// earlier operation, and proves no recent sign of life.
func (d *Deadline) Answered(id uint64, now Instant) bool {
	d.settle(now)
	i := slices.IndexFunc(d.inFlight, func(r request) bool { return r.id == id })
	if i < 0 {
		return d.begun && !d.over
	}
	sent := d.inFlight[i].at
	d.inFlight = slices.Delete(d.inFlight, i, i+1)
	switch {
	case d.over:
		return false
	case d.begun && d.left(sent, now) <= d.left(d.from, now):
		return true // an answer overtaken by that to a later request
	case d.left(sent, now) <= 0:
		return false // it came too late to begin with
	}
	d.begun, d.from = true, sent
	return true
}

// Dropped notes that no answer to the request id is expected any more, or that
// it was no; one that comes all the same does not count.
func (d *Deadline) Dropped(id uint64) {
	d.inFlight = slices.DeleteFunc(d.inFlight, func(r request) bool { return r.id == id })
}

// Remaining is how long the holder may still believe: by the clock on which
// less is left, 0 before the belief has begun and when it is over, and
// [Forever] without a TTL.
func (d *Deadline) Remaining(now Instant) time.Duration {
	d.settle(now)
	if !d.begun || d.over {
		return 0
	}
	return d.left(d.from, now)
}

// settle makes the end final once it has been seen.
func (d *Deadline) settle(now Instant) {
	if d.begun && d.left(d.from, now) <= 0 {
		d.over = true
	}
}

func (d *Deadline) left(from, now Instant) time.Duration {
	if d.ttl == tenure.NoTTL {
		return Forever
	}
	return d.ttl - d.margin - now.since(from)
}
