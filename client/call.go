package client

import (
	"math"
	"time"

	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// call is one request and what becomes of it. Fields below done belong to the
// link's lock, and to the caller once done is closed.
type call struct {
	id      uint64
	request *pb.Request
	weight  int
	wait    bool
	until   time.Time // when the wait is over; zero = never
	shared  bool      // a claim under an operation that its caller brought: others may have its lease, too

	done   chan struct{}
	sent   bool // it may have reached the server
	sends  int
	orphan bool // its caller has gone: a grant is given back
	answer *pb.Answer
	err    error
}

func newCall(r *pb.Request) *call { return &call{request: r, weight: weigh(r)} }

// newClaim is a call that may wait until the given moment.
func newClaim(m *pb.AcquireRequest, until time.Time) *call {
	c := newCall(&pb.Request{Call: &pb.Request_Acquire{Acquire: m}})
	c.wait = m.GetWaitMs() > 0 || m.GetWaitForever()
	c.until = until
	return c
}

// prepare makes the request ready to be written, once more perhaps: what is
// left of a wait shrinks, and for a caller that has gone nothing waits.
func (c *call) prepare(now time.Time) *pb.Request {
	c.request.Id = c.id
	c.sent = true
	c.sends++
	a := c.request.GetAcquire()
	if a == nil || !c.wait {
		return c.request
	}
	switch {
	case c.orphan:
		a.WaitForever, a.WaitMs = false, 0
	case c.sends > 1 && !a.GetWaitForever():
		a.WaitMs = uint32(min(max(c.until.Sub(now).Milliseconds(), 0), math.MaxUint32))
	}
	return c.request
}

// weigh is an upper bound of what a request takes in a message, cheaper than
// its size.
func weigh(r *pb.Request) int {
	const fixed = 1 << 10 // everything of bounded length: tokens, one resource, a holder
	weight := fixed + len(r.GetAcquire().GetMeta()) + len(r.GetRelease().GetResult().GetDetail()) + len(r.GetRevoke().GetReason())
	for _, resource := range r.GetAcquire().GetResources() {
		weight += len(resource) + 4
	}
	for _, ref := range r.GetRenew().GetRefs() {
		weight += weighRef(ref)
	}
	return weight
}

func weighRef(ref *pb.Ref) int { return len(ref.GetToken()) + len(ref.GetResource()) + 8 }

// lsnOf is the position in an answer.
func lsnOf(a *pb.Answer) uint64 {
	return max(a.GetLease().GetLsn(), a.GetRenew().GetLsn(), a.GetList().GetLsn(), a.GetError().GetLsn())
}
