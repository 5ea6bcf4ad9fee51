package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// fakeStream is one stream as its server sees it: what the link sent, and what is to
// be answered.
type fakeStream struct {
	grpc.ClientStream
	ctx     context.Context
	sent    chan *pb.CallRequest
	answers chan *pb.CallResponse
	broken  chan error
}

func (w *fakeStream) Send(m *pb.CallRequest) error {
	select {
	case w.sent <- proto.Clone(m).(*pb.CallRequest):
		return nil
	case <-w.ctx.Done():
		return io.EOF
	}
}

func (w *fakeStream) Recv() (*pb.CallResponse, error) {
	select {
	case m := <-w.answers:
		return m, nil
	case err := <-w.broken:
		return nil, err
	case <-w.ctx.Done():
		return nil, status.FromContextError(w.ctx.Err()).Err()
	}
}

func (w *fakeStream) answer(answers ...*pb.Answer) { w.answers <- &pb.CallResponse{Answers: answers} }

// exchange is where a link under test gets its streams from.
type exchange struct {
	pb.LeaseServiceClient
	streams chan *fakeStream // one for each stream that was opened
	refuses error
	opened  int
	room    int // messages that a stream takes before a writer has to wait
}

func newExchange() *exchange { return &exchange{streams: make(chan *fakeStream, 100), room: 100} }

func (x *exchange) Call(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.CallRequest, pb.CallResponse], error) {
	x.opened++
	if x.refuses != nil {
		return nil, x.refuses
	}
	w := &fakeStream{ctx: ctx, sent: make(chan *pb.CallRequest, x.room), answers: make(chan *pb.CallResponse), broken: make(chan error)}
	x.streams <- w
	return w, nil
}

func get(resource string) *call {
	return newCall(&pb.Request{Call: &pb.Request_Get{Get: &pb.GetRequest{Resource: resource}}})
}

func leaseAnswer(id uint64) *pb.Answer {
	return &pb.Answer{Id: id, Result: &pb.Answer_Lease{Lease: &pb.LeaseResponse{Lsn: 1}}}
}

var errCut = status.Error(codes.Unavailable, "cut")

// What gathers while a message is on its way goes out as one message, and no
// message is larger than a server takes.
func TestLinkPacksWhatHasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		x.room = 0
		l := newLink(x, func(uint64) {})
		defer l.close()
		w := <-x.streams
		const callers = 40
		for range callers {
			go func() { _, _ = l.ask(t.Context(), get("a/1")) }()
			synctest.Wait() // the first is on its way, the others gather
		}
		first := <-w.sent
		second := <-w.sent
		if len(first.Requests) != 1 || len(second.Requests) != callers-1 {
			t.Fatalf("messages of %d and %d requests", len(first.Requests), len(second.Requests))
		}
		for _, r := range append(first.Requests, second.Requests...) {
			w.answer(leaseAnswer(r.Id))
		}
		synctest.Wait()
		for range 12 {
			m := &pb.AcquireRequest{Meta: make([]byte, 100<<10)}
			go func() { _, _ = l.ask(t.Context(), newClaim(m, time.Time{})) }()
		}
		synctest.Wait()
		messages := 0
		for n := 0; n < 12; messages++ {
			m := <-w.sent
			if size := proto.Size(m); size > maxWeight {
				t.Fatalf("a message of %d bytes", size)
			}
			n += len(m.Requests)
			for _, r := range m.Requests {
				w.answer(leaseAnswer(r.Id))
			}
		}
		if messages < 3 {
			t.Fatalf("1.2 MB in %d messages", messages)
		}
		synctest.Wait()
	})
}

// proves: T12
func TestLinkBoundsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		l := newLink(x, func(uint64) {})
		defer l.close()
		l.slots = make(chan struct{}, 1)
		w := <-x.streams
		answered := make(chan error, 2)
		go func() {
			_, err := l.ask(t.Context(), get("a/1"))
			answered <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.ask(ctx, get("a/2")); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call too many, until its context ended: %v", err)
		}
		go func() {
			_, err := l.ask(t.Context(), get("a/3"))
			answered <- err
		}()
		synctest.Wait()
		if len(w.sent) != 1 {
			t.Fatalf("%d messages were sent", len(w.sent))
		}
		for range 2 {
			w.answer(leaseAnswer((<-w.sent).Requests[0].Id))
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
		}
		l.mu.Lock()
		l.waits = maxWaits
		l.mu.Unlock()
		if _, err := l.ask(t.Context(), newClaim(&pb.AcquireRequest{WaitMs: 1}, time.Time{})); !errors.Is(err, tenure.ErrFull) {
			t.Fatalf("a wait too many: %v", err)
		}
	})
}

// A repeat waits only for what is left of its wait.
func TestLinkShrinksWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		l := newLink(x, func(uint64) {})
		defer l.close()
		w := <-x.streams
		asked := newClaim(&pb.AcquireRequest{WaitMs: 60_000}, time.Now().Add(time.Minute))
		done := make(chan error, 1)
		go func() {
			_, err := l.ask(t.Context(), asked)
			done <- err
		}()
		if ms := (<-w.sent).Requests[0].GetAcquire().GetWaitMs(); ms != 60_000 {
			t.Fatalf("it waits for %d ms at first", ms)
		}
		<-time.After(20 * time.Second)
		w.broken <- errCut
		w = <-x.streams
		r := (<-w.sent).Requests[0]
		if ms := r.GetAcquire().GetWaitMs(); ms > 40_000 || ms < 39_000 {
			t.Fatalf("after 20 s it waits for %d ms", ms)
		}
		<-time.After(time.Minute)
		w.broken <- errCut
		w = <-x.streams
		if r = (<-w.sent).Requests[0]; r.GetAcquire().GetWaitMs() != 0 {
			t.Fatalf("after its time it waits for %d ms", r.GetAcquire().GetWaitMs())
		}
		w.answer(leaseAnswer(r.Id))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A wait that its caller has left is ended at the server. If the stream breaks
// before that is confirmed, the repeat does not wait, and a grant is given back.
func TestLinkSettlesWhatCallersLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		l := newLink(x, func(uint64) {})
		w := <-x.streams
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := l.ask(ctx, newClaim(&pb.AcquireRequest{WaitForever: true}, time.Time{}))
			left <- err
		}()
		id := (<-w.sent).Requests[0].Id
		cancel()
		if err := <-left; !errors.Is(err, tenure.ErrHeld) {
			t.Fatal(err)
		}
		if m := <-w.sent; len(m.Cancels) != 1 || m.Cancels[0] != id {
			t.Fatalf("sent %v", m)
		}
		w.broken <- errCut
		w = <-x.streams
		r := (<-w.sent).Requests[0]
		if a := r.GetAcquire(); r.Id != id || a.GetWaitForever() || a.GetWaitMs() != 0 {
			t.Fatalf("repeated as %v", r)
		}
		grant := leaseAnswer(id)
		grant.GetLease().Lease = &pb.Lease{Token: "0-5.1", Holder: "me", Resources: []string{"a/1"}}
		w.answer(grant)
		w.broken <- errCut // the release is lost once
		w = <-x.streams
		r = (<-w.sent).Requests[0]
		if r.GetRelease().GetToken() != "0-5.1" {
			t.Fatalf("sent %v", r)
		}
		closed := make(chan struct{})
		go func() {
			l.close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed before the grant was given back")
		default:
		}
		w.answer(leaseAnswer(r.Id))
		<-closed
	})
}

// The link tries again with growing pauses, and says what is wrong to whoever
// cannot wait.
func TestLinkBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		x.refuses = status.Error(codes.Unavailable, "the cable is out")
		l := newLink(x, func(uint64) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.ask(ctx, get("a/1"))
		if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "the cable is out") {
			t.Fatalf("%v", err)
		}
		// Pauses are 1/2 to 3/2 of 50 ms, doubling to 2 s.
		if x.opened < 15 || x.opened > 70 {
			t.Fatalf("%d attempts in a minute", x.opened)
		}
		l.close()
		if _, err := l.ask(t.Context(), get("a/1")); !errors.Is(err, tenure.ErrUnavailable) {
			t.Fatal(err)
		}
	})
}

// A server that will not have the stream is believed: nobody waits for it.
func TestLinkBelievesARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		l := newLink(x, func(uint64) {})
		defer l.close()
		w := <-x.streams
		done := make(chan error, 2)
		go func() {
			_, err := l.ask(t.Context(), get("a/1"))
			done <- err
		}()
		<-w.sent
		w.broken <- status.Error(codes.Unauthenticated, "who are you")
		if err := <-done; !errors.Is(err, tenure.ErrDenied) {
			t.Fatalf("%v", err)
		}
		w = <-x.streams
		go func() {
			_, err := l.ask(t.Context(), get("a/1"))
			done <- err
		}()
		<-w.sent
		w.broken <- status.Error(codes.ResourceExhausted, "too large")
		if err := <-done; !errors.Is(err, tenure.ErrUnknownOutcome) || !errors.Is(err, tenure.ErrFull) {
			t.Fatalf("%v", err)
		}
	})
}

// Under an operation that its caller brought, others may have been answered the
// same grant, and believe in it: what a caller left is not given back, and its
// outcome is not known.
//
// proves: T14
func TestT14_LinkKeepsWhatOthersMayShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExchange()
		l := newLink(x, func(uint64) {})
		defer l.close()
		w := <-x.streams
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		asked := newClaim(&pb.AcquireRequest{WaitForever: true}, time.Time{})
		asked.shared = true
		go func() {
			_, err := l.ask(ctx, asked)
			left <- err
		}()
		id := (<-w.sent).Requests[0].Id
		cancel()
		if m := <-w.sent; len(m.Cancels) != 1 || m.Cancels[0] != id || len(m.Requests) != 0 {
			t.Fatalf("sent %v", m)
		}
		if err := <-left; !errors.Is(err, tenure.ErrUnknownOutcome) { // nobody confirmed it in time
			t.Fatal(err)
		}
		grant := leaseAnswer(id)
		grant.GetLease().Lease = &pb.Lease{Token: "0-5.1", Holder: "me", Resources: []string{"a/1"}}
		w.answer(grant)
		synctest.Wait()
		select {
		case m := <-w.sent: // the cancel once more, perhaps
			if len(m.Requests) != 0 {
				t.Fatalf("after the grant it sent %v", m)
			}
		default:
		}
	})
}
