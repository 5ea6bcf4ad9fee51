package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// packed is one stream that carries many calls. Its reader starts each call;
// its writer sends whatever answers have gathered while the last message was
// on its way, so batches form by themselves and nothing waits for a timer.
type packed struct {
	leases *leases
	ctx    context.Context // the stream's; over when the client has gone
	slots  chan struct{}   // calls that do not wait, until their answer was sent
	wake   chan struct{}   // answers are ready, or a call has ended without one
	ended  chan error      // why the reader stopped

	mu       sync.Mutex
	answers  []*pb.Answer
	owed     int                           // answers among them whose slot is free once they are sent
	waits    map[uint64]context.CancelFunc // calls that wait, by id
	inFlight int
	closed   bool // no further calls are started
}

// Call serves a packed stream until the client has closed it, has gone, or the
// server drains. It returns when every call that it started has ended.
func (s *leases) Call(stream pb.LeaseService_CallServer) error {
	p := &packed{
		leases: s,
		ctx:    stream.Context(),
		slots:  make(chan struct{}, s.cfg.MaxCalls),
		wake:   make(chan struct{}, 1),
		ended:  make(chan error, 1),
		waits:  make(map[uint64]context.CancelFunc),
	}
	go func() { p.ended <- p.read(stream) }()
	return p.write(stream)
}

// read starts the calls of each message. It ends with the stream, which ends
// at the latest when Call returns.
func (p *packed) read(stream pb.LeaseService_CallServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, r := range m.GetRequests() {
			if !p.start(r) {
				return nil
			}
		}
		p.cancel(m.GetCancels())
	}
}

// start runs one call on its own, or reports that no more are taken. A stream
// with as many calls in flight as it may have is not read further.
func (p *packed) start(r *pb.Request) bool {
	ctx, end := p.ctx, context.CancelFunc(nil)
	if a := r.GetAcquire(); a.GetWaitMs() > 0 || a.GetWaitForever() {
		ctx, end = context.WithCancel(p.ctx)
	} else {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return false
		}
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		if end != nil {
			end()
		}
		return false
	}
	if _, twice := p.waits[r.GetId()]; twice || len(p.waits) >= 2*p.leases.cfg.MaxWaits {
		p.mu.Unlock()
		if end != nil {
			end()
		}
		return false // an id that is in use, or more waits than anybody may have: no client of this API
	}
	p.inFlight++
	if end != nil {
		p.waits[r.GetId()] = end
	}
	p.mu.Unlock()
	go p.run(ctx, r, end)
	return true
}

// run makes one call and hands its answer to the writer.
func (p *packed) run(ctx context.Context, r *pb.Request, end context.CancelFunc) {
	answer, err := p.leases.dispatch(ctx, r)
	if err != nil {
		answer.Result = &pb.Answer_Error{Error: wire.FromError(err)}
	}
	if end != nil {
		end()
	}
	// A wait that the drain ended is not answered: the stream is cut, and the
	// client goes on waiting at whichever server comes back.
	cut := end != nil && err != nil && p.leases.draining.Err() != nil
	p.mu.Lock()
	p.inFlight--
	if end != nil {
		delete(p.waits, r.GetId())
	}
	if !cut {
		p.answers = append(p.answers, answer)
	}
	if end == nil {
		p.owed++
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *packed) cancel(ids []uint64) {
	if len(ids) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if end := p.waits[id]; end != nil {
			end()
		}
	}
}

// write sends answers until the stream is over and nothing is in flight.
func (p *packed) write(stream pb.LeaseService_CallServer) error {
	var cause error
	ended, gone, draining := p.ended, p.ctx.Done(), p.leases.draining.Done()
	for {
		answers, owed, idle := p.take()
		for len(answers) > 0 && p.ctx.Err() == nil {
			n := fits(answers)
			if err := stream.Send(&pb.CallResponse{Answers: answers[:n]}); err != nil {
				break // the context says so, too
			}
			answers = answers[n:]
		}
		for range owed { // only now: a client that does not read its answers is not read either
			<-p.slots
		}
		if idle {
			return cause
		}
		select {
		case <-p.wake:
		case err := <-ended: // half closed, or broken
			ended = nil
			if cause == nil && !errors.Is(err, io.EOF) && p.ctx.Err() == nil {
				cause = err
			}
			p.close()
		case <-gone:
			gone = nil
			p.close()
		case <-draining:
			draining = nil
			cause = cutShort{}
			p.close()
		}
	}
}

// take returns the answers that are ready, and whether there will be no more.
func (p *packed) take() (answers []*pb.Answer, owed int, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answers, owed = p.answers, p.owed
	p.answers, p.owed = nil, 0
	return answers, owed, p.closed && p.inFlight == 0
}

func (p *packed) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// maxAnswersWeight bounds one message of answers, in bytes, roughly.
const maxAnswersWeight = 512 << 10

// fits is how many of the answers go into one message: at least one.
func fits(answers []*pb.Answer) int {
	weight := 0
	for i, a := range answers {
		weight += weigh(a)
		if weight > maxAnswersWeight && i > 0 {
			return i
		}
	}
	return len(answers)
}

// weigh is an upper bound of what an answer takes, cheaper than its size.
func weigh(a *pb.Answer) int {
	const fixed = 1 << 10 // everything without a length of its own, and an error's texts
	switch {
	case a.GetRenew() != nil:
		return fixed + 64*len(a.GetRenew().GetAnswers())
	case a.GetList() != nil:
		return maxPageWeight
	}
	weight := fixed + len(a.GetLease().GetLease().GetMeta()) + len(a.GetLease().GetLease().GetResult().GetDetail())
	for _, r := range a.GetLease().GetLease().GetResources() {
		weight += len(r) + 4
	}
	return weight
}

// dispatch makes the call that a request carries. The answer is never nil.
func (s *leases) dispatch(ctx context.Context, r *pb.Request) (*pb.Answer, error) {
	a := &pb.Answer{Id: r.GetId()}
	if a.Id == 0 {
		return a, &tenure.Error{Code: tenure.ErrInvalid, Field: "id", Why: "every request in a stream has an id of its own, not 0"}
	}
	var lease *pb.LeaseResponse
	var err error
	method := ""
	switch c := r.GetCall().(type) {
	case *pb.Request_Acquire:
		method = "Acquire"
		lease, err = s.Acquire(ctx, c.Acquire)
	case *pb.Request_Activate:
		method = "Activate"
		lease, err = s.Activate(ctx, c.Activate)
	case *pb.Request_Release:
		method = "Release"
		lease, err = s.Release(ctx, c.Release)
	case *pb.Request_Revoke:
		method = "Revoke"
		lease, err = s.Revoke(ctx, c.Revoke)
	case *pb.Request_Reclaim:
		method = "Reclaim"
		lease, err = s.Reclaim(ctx, c.Reclaim)
	case *pb.Request_Get:
		method = "Get"
		lease, err = s.Get(ctx, c.Get)
	case *pb.Request_Renew:
		method = "Renew"
		var renewed *pb.RenewResponse
		renewed, err = s.Renew(ctx, c.Renew)
		a.Result = &pb.Answer_Renew{Renew: renewed}
	case *pb.Request_List:
		method = "List"
		var page *pb.ListResponse
		page, err = s.List(ctx, c.List)
		a.Result = &pb.Answer_List{List: page}
	default:
		err = &tenure.Error{Code: tenure.ErrInvalid, Field: "call", Why: "the request carries no call that this server knows"}
	}
	if lease != nil {
		a.Result = &pb.Answer_Lease{Lease: lease}
	}
	s.metrics.answered(method, err)
	return a, err
}
