package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Bounds of a link (T12).
const (
	maxCalls  = 16 << 10  // calls in flight; further callers are parked
	maxWaits  = 100_000   // claims that wait; further ones are refused
	maxWeight = 512 << 10 // one message of requests, in bytes, roughly: half of what a server takes
)

// Pauses between attempts to open the stream again; with jitter.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// link is the one stream that carries every call, opened again whenever it
// breaks. The run goroutine writes; another reads while a stream lasts.
type link struct {
	open    func(context.Context) (pb.LeaseService_CallClient, error)
	observe func(lsn uint64)

	ctx   context.Context // over when the link is closed
	stop  context.CancelFunc
	done  chan struct{} // run has returned
	slots chan struct{} // one for each call in flight, waits aside
	wake  chan struct{} // there is something to write

	mu      sync.Mutex
	live    map[uint64]*call // asked and not answered
	queue   []*call          // those of them to be written, in order
	cancels []uint64
	last    uint64 // the id given last
	waits   int
	orphans int           // live calls whose caller has gone, and which must be settled
	settled chan struct{} // closed when there are no orphans, if somebody asked
	up      bool          // a stream is open
	trouble error         // why there is none
	closed  bool
}

func newLink(leases pb.LeaseServiceClient, observe func(uint64)) *link {
	l := &link{
		open:    func(ctx context.Context) (pb.LeaseService_CallClient, error) { return leases.Call(ctx) },
		observe: observe,
		done:    make(chan struct{}),
		slots:   make(chan struct{}, maxCalls),
		wake:    make(chan struct{}, 1),
		live:    make(map[uint64]*call),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	go l.run()
	return l
}

// ask sends the call and waits for its answer, over as many streams as that
// takes. Its error is the server's, or says why there is no answer.
func (l *link) ask(ctx context.Context, c *call) (*pb.Answer, error) {
	if ctx.Err() != nil {
		return nil, unsent(ctx, "the context had ended before anything was asked")
	}
	if !c.wait {
		select {
		case l.slots <- struct{}{}:
		default:
			if err := l.park(ctx); err != nil {
				return nil, err
			}
		}
		defer func() { <-l.slots }()
	}
	if err := l.enqueue(c); err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		l.takeBack(c)
		answer, err := l.leave(ctx, c)
		var refused *tenure.Error
		if errors.As(err, &refused) && refused.Cause == nil {
			refused.Cause = context.Cause(ctx)
		}
		return answer, err
	}
}

// confirmation is how long a caller that left is kept for the server to say
// what became of its claim.
const confirmation = time.Second

// takeBack ends a wait under an operation that the caller brought, and waits a
// moment for the server to confirm it: a grant that raced it may have been
// answered to another caller under the same operation, who believes in it, so
// it is not ours to give back later.
func (l *link) takeBack(c *call) {
	l.mu.Lock()
	waits := l.live[c.id] == c && c.sent && c.wait && c.shared && l.up
	if waits {
		l.cancels = append(l.cancels, c.id)
		l.poke()
	}
	l.mu.Unlock()
	if !waits {
		return
	}
	patience := time.NewTimer(confirmation)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
	}
}

// park waits until fewer calls are in flight.
func (l *link) park(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unsent(ctx, fmt.Sprintf("%d calls were in flight, as many as there may be", maxCalls))
	case <-l.ctx.Done():
		return errClosed()
	}
}

func (l *link) enqueue(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed()
	}
	if c.wait && l.waits >= maxWaits {
		return &tenure.Error{Code: tenure.ErrFull, Field: "waiters", Why: fmt.Sprintf("%d claims of this client wait, as many as there may be", maxWaits)}
	}
	if c.wait {
		l.waits++
	}
	l.last++
	c.id = l.last
	c.done = make(chan struct{})
	l.live[c.id] = c
	l.queue = append(l.queue, c)
	l.poke()
	return nil
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// leave is for a caller whose context ended. The answer may have come first.
func (l *link) leave(ctx context.Context, c *call) (*pb.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.live[c.id] != c:
		return c.answer, c.err
	case !c.sent:
		l.forget(c)
		return nil, unsent(ctx, "the context ended before it could be sent"+l.because())
	case c.wait && l.up && !c.shared:
		// The server ends the wait; whatever it answers is settled without the
		// caller, also over a further stream.
		c.orphan = true
		l.orphans++
		l.cancels = append(l.cancels, c.id)
		l.poke()
		return nil, &tenure.Error{Code: tenure.ErrHeld, Cause: context.Cause(ctx), Why: "the wait was ended"}
	case c.wait && l.up:
		l.cancels = append(l.cancels, c.id) // once more: the stream may have been another then
		l.poke()
	}
	l.forget(c)
	return nil, &tenure.Error{Code: tenure.ErrUnknownOutcome, Cause: context.Cause(ctx), Why: "the context ended before the answer" + l.because() + ": repeat the same call to settle it"}
}

// because says what is wrong with the connection, if anything.
func (l *link) because() string {
	if l.up || l.trouble == nil {
		return ""
	}
	return fmt.Sprintf(" (there is no connection: %v)", l.trouble)
}

// forget takes a call out; the caller holds mu.
func (l *link) forget(c *call) {
	delete(l.live, c.id)
	if c.wait {
		l.waits--
	}
	if c.orphan {
		l.orphans--
		l.checkSettled()
	}
}

func (l *link) checkSettled() {
	if l.orphans == 0 && l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
}

// run keeps a stream open until the link is closed.
func (l *link) run() {
	defer close(l.done)
	pause := firstPause
	for l.ctx.Err() == nil {
		lasted, err := l.carry()
		l.broken(err)
		if lasted {
			pause = firstPause
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestPause)
	}
	l.fail(func(c *call) error {
		if c.sent {
			return &tenure.Error{Code: tenure.ErrUnknownOutcome, Why: "the client was closed before the answer: repeat the same call to settle it"}
		}
		return errClosed()
	})
}

// carry opens a stream and writes to it until it breaks. Lasted says that the
// server answered something.
func (l *link) carry() (lasted bool, err error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	stream, err := l.open(ctx)
	if err != nil {
		return false, err
	}
	l.opened()
	ended := make(chan error, 1)
	go func() {
		err := l.read(stream, &lasted)
		cancel() // a writer that is blocked has nothing to wait for
		ended <- err
	}()
	for {
		m := l.take(time.Now())
		if m != nil {
			if stream.Send(m) != nil {
				err = <-ended // the reader knows why
				return lasted, err
			}
			continue
		}
		select {
		case <-l.wake:
		case err = <-ended:
			return lasted, err
		}
	}
}

func (l *link) opened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
}

// take makes a message of what has gathered; nil when there is nothing.
func (l *link) take(now time.Time) *pb.CallRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &pb.CallRequest{Cancels: l.cancels}
	l.cancels = nil
	weight := 0
	for len(l.queue) > 0 {
		c := l.queue[0]
		if l.live[c.id] != c { // its caller has gone
			l.queue = l.queue[1:]
			continue
		}
		if weight += c.weight; weight > maxWeight && len(m.Requests) > 0 {
			break
		}
		l.queue = l.queue[1:]
		m.Requests = append(m.Requests, c.prepare(now))
	}
	if len(m.Requests) == 0 && len(m.Cancels) == 0 {
		return nil
	}
	return m
}

// read delivers answers until the stream ends.
func (l *link) read(stream pb.LeaseService_CallClient, lasted *bool) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		*lasted = true
		for _, a := range m.GetAnswers() {
			l.deliver(a)
		}
	}
}

// deliver gives an answer to its caller.
func (l *link) deliver(a *pb.Answer) {
	l.observe(lsnOf(a))
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.live[a.GetId()]
	if c == nil {
		return // its caller has gone
	}
	if c.orphan {
		l.giveBack(a)
	}
	l.forget(c)
	c.answer = a
	if e := a.GetError(); e != nil {
		c.answer, c.err = nil, wire.ToError(e)
	}
	close(c.done)
}

// giveBack releases a grant that raced the end of its wait.
func (l *link) giveBack(a *pb.Answer) {
	lease := a.GetLease().GetLease()
	if lease.GetToken() == "" || len(lease.GetResources()) == 0 {
		return
	}
	l.last++
	c := newCall(&pb.Request{Call: &pb.Request_Release{Release: &pb.ReleaseRequest{
		Token: lease.GetToken(), Resource: lease.GetResources()[0], Holder: lease.GetHolder(),
		Result: &pb.Result{Outcome: tenure.OutcomeOK.String(), Detail: "the claimant had gone"},
	}}})
	c.id, c.orphan, c.done = l.last, true, make(chan struct{})
	l.orphans++
	l.live[c.id] = c
	l.queue = append(l.queue, c)
	l.poke()
}

// broken makes everything that was not answered wait for the next stream.
func (l *link) broken(err error) {
	if !errors.Is(err, io.EOF) && !wire.Cut(err) {
		e, _ := wire.FromStatus(err)
		l.fail(func(c *call) error { return refusedStream(c, e) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.trouble = false, err
	l.cancels = nil // a wait ends with its stream
	l.queue = l.queue[:0]
	for _, c := range l.live {
		l.queue = append(l.queue, c)
	}
	slices.SortFunc(l.queue, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
}

// refusedStream is what a call gets when the server would not have the stream.
func refusedStream(c *call, e *tenure.Error) error {
	if !c.sent || e.Code == tenure.ErrDenied && c.sends == 1 {
		return e
	}
	return &tenure.Error{Code: tenure.ErrUnknownOutcome, Why: "the server ended the stream: repeat the same call to settle it", Cause: e}
}

// fail answers every live call with an error.
func (l *link) fail(with func(*call) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.live {
		c.err = with(c)
		l.forget(c)
		close(c.done)
	}
	l.queue = nil
}

// close ends the link. While a stream is open, orphans are settled first, in
// bounded time.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	settled := make(chan struct{})
	if l.orphans > 0 && l.up {
		l.settled = settled
	} else {
		close(settled)
	}
	l.mu.Unlock()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	case <-l.done:
	}
	l.stop()
	<-l.done
}

func unsent(ctx context.Context, why string) error {
	return &tenure.Error{Code: tenure.ErrUnavailable, Cause: context.Cause(ctx), Why: why}
}

func errClosed() error {
	return &tenure.Error{Code: tenure.ErrUnavailable, Why: "the client is closed"}
}
