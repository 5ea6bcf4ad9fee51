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
	kind  requestKind
	wait  bool // a claim that may wait
	drawn bool // its operation is the engine's own, and fresh

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

// A request has one fate, and who comes first decides it. A caller that leaves
// while its claim stands in line was granted nothing, and never will be. Once
// the sequencer is deciding, a caller that leaves cannot know; the sequencer
// releases what it granted to nobody.
const (
	fateOpen     uint32 = iota // not looked at yet
	fateInLine                 // a claim that waits
	fateDeciding               // a claim that may wait is being granted
	fateAnswered
	fateGone
)

// parting is what the caller's leaving interrupted: a fate before fateGone.
type parting = uint32

func newRequest(kind requestKind) *request {
	return &request{kind: kind, done: make(chan struct{}, 1)}
}

// answer hands the result to the caller; it reports false if the caller had
// gone before.
func (r *request) answer() bool {
	if r.fate.Swap(fateAnswered) == fateGone {
		r.fate.Store(fateGone)
		return false
	}
	r.done <- struct{}{}
	return true
}

// standInLine is called when a claim begins to wait.
func (r *request) standInLine() { r.fate.CompareAndSwap(fateOpen, fateInLine) }

// decide is called before a claim that may wait is granted; it reports false
// if its caller has left.
func (r *request) decide() bool {
	return r.fate.CompareAndSwap(fateInLine, fateDeciding) || r.fate.CompareAndSwap(fateOpen, fateDeciding)
}

// leave is called by the caller that will not wait for the answer any longer.
// It returns what that interrupted; fateAnswered means that the answer is there.
func (r *request) leave() parting {
	for {
		was := r.fate.Load()
		if was == fateAnswered || r.fate.CompareAndSwap(was, fateGone) {
			return was
		}
	}
}

// first is the resource that an answer is about; a claim that was not judged
// yet may name none.
func (r *request) first() tenure.Resource {
	if len(r.cmd.Resources) == 0 {
		return ""
	}
	return r.cmd.Resources[0]
}

// page is one turn's part of a listing.
type page struct {
	leases []tenure.Lease
	next   tenure.LSN // continue after this
	more   bool
}
