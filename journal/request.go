package journal

import (
	"sync/atomic"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/liveness"
	"github.com/tenurehq/tenure/kernel"
)

// requestKind says what the sequencer is asked to do.
type requestKind uint8

const (
	askClaim   requestKind = iota // cmd, wait
	askCommand                    // cmd
	askPropose                    // proposal: the reaper's
	askLookup                     // query
	askPage                       // filter, after
	askStats                      // stats
	askGiveUp                     // target: its wait is over or its caller has gone
)

// request is one question to the sequencer and, once done is signalled, its
// answer.
type request struct {
	kind requestKind
	wait bool

	cmd      kernel.Command
	proposal liveness.Proposal
	query    tenure.Query
	filter   tenure.Filter
	after    tenure.LSN
	target   *request

	arrived time.Duration // when a claim began to wait, by the engine's clock
	waiter  *waiter       // while the claim waits; the sequencer's
	changed bool          // the outcome depends on an undurable step; the sequencer's
	granted bool          // a claim that may wait was granted; the sequencer's

	fate  atomic.Uint32 // see settle
	done  chan struct{}
	lease tenure.Lease
	page  page
	stats Stats
	took  bool // a proposal changed something
	err   error
}

// effect is what an executed command means for the volatile side, applied only
// once the record is durable.
type effect struct {
	at    kernel.At
	event tenure.EventKind
	lease kernel.Lease
}

// A waiting claim's fate is decided once: by the sequencer that answers it, or
// by the caller that goes away. Whoever loses acts on it: a caller that finds
// itself answered takes the answer, a sequencer that finds the caller gone
// releases the grant.
const (
	fateOpen uint32 = iota
	fateAnswered
	fateGone
)

func newRequest(kind requestKind) *request {
	return &request{kind: kind, done: make(chan struct{}, 1)}
}

// answer hands the result to the caller; it reports false if the caller had
// gone before.
func (r *request) answer() bool {
	if !r.fate.CompareAndSwap(fateOpen, fateAnswered) {
		return false
	}
	r.done <- struct{}{}
	return true
}

// leave is called by the caller that will not wait for the answer any longer;
// it reports false if the answer is already there.
func (r *request) leave() bool { return r.fate.CompareAndSwap(fateOpen, fateGone) }

// page is one turn's part of a listing.
type page struct {
	leases []tenure.Lease
	next   tenure.LSN // continue after this
	more   bool
}
