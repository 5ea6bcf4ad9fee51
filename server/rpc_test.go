package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // a process in which something else registered it
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
	"github.com/tenurehq/tenure/server"
)

func TestRPCErrorsCarryTheirFields(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	c := rpc(t, r)
	first, err := c.Acquire(t.Context(), &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Acquire(t.Context(), &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "you"})
	e, answered := wire.FromStatus(err)
	if status.Code(err) != codes.FailedPrecondition || !answered || e.Code != tenure.ErrHeld || e.Holder != "me" ||
		e.Lease.String() != first.Lease.LeaseId || e.Free <= 0 || e.LSN == 0 {
		t.Fatalf("%v: %+v", err, e)
	}
	_, err = c.Get(t.Context(), &pb.GetRequest{LeaseId: "x"})
	if e, _ := wire.FromStatus(err); status.Code(err) != codes.InvalidArgument || e.Field != "lease" {
		t.Fatalf("%v", err)
	}
}

func TestRPCRefusesCompressionAndSize(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	c := rpc(t, r)
	m := &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}
	if _, err := c.Acquire(t.Context(), m, grpc.UseCompressor("gzip")); status.Code(err) != codes.Unimplemented {
		t.Errorf("a compressed call: %v", err)
	}
	stream, err := c.Call(t.Context(), grpc.UseCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.CallRequest{Requests: []*pb.Request{{Id: 1, Call: &pb.Request_Acquire{Acquire: m}}}})
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("a compressed stream: %v", err)
	}
	m.Meta = make([]byte, 1<<20)
	if _, err := c.Acquire(t.Context(), m); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call of more than 1 MiB: %v", err)
	}
	stream, err = c.Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.CallRequest{Requests: []*pb.Request{{Id: 1, Call: &pb.Request_Acquire{Acquire: m}}}})
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of more than 1 MiB: %v", err)
	}
	if _, err := c.Get(t.Context(), &pb.GetRequest{Resource: "a/1"}); status.Code(err) != codes.NotFound {
		t.Errorf("something was executed: %v", err)
	}
}

// A stream that ends inside a message ends there; what came before is served.
func TestCallTruncated(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	whole := []byte{0, 0, 0, 0, 0} // a message with nothing in it
	torn := binary.BigEndian.AppendUint32([]byte{0}, 100)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	req := r.request(t, "LeaseService/Call", strings.NewReader(string(append(append(whole, torn...), "only this"...))))
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if code := res.Trailer.Get("Grpc-Status") + res.Header.Get("Grpc-Status"); code != fmt.Sprint(int(codes.Internal)) {
		t.Fatalf("status %q %q", code, res.Trailer.Get("Grpc-Message"))
	}
}

func TestCallAnswersByID(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	stream, err := rpc(t, r).Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(holder string) *pb.Request_Acquire {
		return &pb.Request_Acquire{Acquire: &pb.AcquireRequest{Resources: []string{"a/" + holder}, Holder: holder}}
	}
	if err := stream.Send(&pb.CallRequest{Requests: []*pb.Request{
		{Id: 7, Call: acquire("seven")}, {Id: 3, Call: acquire("three")}, {Id: 0, Call: acquire("none")}, {Id: 5},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := map[uint64]*pb.Answer{}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range m.Answers {
			answers[a.Id] = a
		}
	}
	if len(answers) != 4 || answers[7].GetLease().GetLease().GetHolder() != "seven" || answers[3].GetLease().GetLease().GetHolder() != "three" ||
		answers[0].GetError().GetField() != "id" || answers[5].GetError().GetField() != "call" {
		t.Fatalf("%v", answers)
	}
}

// blocking is an engine in which every claim stays open until the test ends it.
type blocking struct {
	scripted
	asked chan tenure.Claim
	ended chan error // why each claim's context ended; nil when it was answered
	free  chan struct{}
}

func newBlocking() *blocking {
	e := &blocking{asked: make(chan tenure.Claim, 100), ended: make(chan error, 100), free: make(chan struct{})}
	e.acquire = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
		e.asked <- c
		select {
		case <-ctx.Done():
			e.ended <- context.Cause(ctx)
			return tenure.Lease{}, &tenure.Error{Code: tenure.ErrHeld, Cause: context.Cause(ctx)}
		case <-e.free:
			e.ended <- nil
			return granted(c, 9), nil
		}
	}
	return e
}

// A wait ends when its caller has gone, however it was asked; a claim that does
// not wait is carried to its end.
func TestWaitEndsWithItsCaller(t *testing.T) {
	waits := &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me", WaitForever: true}
	atOnce := &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}
	calls := map[string]func(context.Context, running, *pb.AcquireRequest){
		"unary": func(ctx context.Context, r running, m *pb.AcquireRequest) {
			_, _ = rpc(t, r).Acquire(ctx, m)
		},
		"stream": func(ctx context.Context, r running, m *pb.AcquireRequest) {
			stream, err := rpc(t, r).Call(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			_ = stream.Send(&pb.CallRequest{Requests: []*pb.Request{{Id: 1, Call: &pb.Request_Acquire{Acquire: m}}}})
			_, _ = stream.Recv()
		},
		"json": func(ctx context.Context, r running, m *pb.AcquireRequest) {
			body, _ := wire.MarshalJSON(m)
			res, err := http.DefaultClient.Do(r.request(t, "LeaseService/Acquire", strings.NewReader(string(body))).WithContext(ctx))
			if err == nil {
				_ = res.Body.Close()
			}
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			e := newBlocking()
			r := serve(t, e, server.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				call(ctx, r, waits)
			}()
			<-e.asked
			cancel()
			if err := <-e.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the wait ended with %v", err)
			}
			<-gone

			ctx, cancel = context.WithCancel(t.Context())
			gone = make(chan struct{})
			go func() {
				defer close(gone)
				call(ctx, r, atOnce)
			}()
			<-e.asked
			cancel()
			<-gone
			close(e.free)
			if err := <-e.ended; err != nil {
				t.Errorf("a claim that does not wait was ended: %v", err)
			}
		})
	}
}

func TestCallCancelEndsOneWait(t *testing.T) {
	e := newBlocking()
	stream, err := rpc(t, serve(t, e, server.Config{})).Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wait := func(id uint64) *pb.Request {
		return &pb.Request{Id: id, Call: &pb.Request_Acquire{Acquire: &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me", WaitForever: true}}}
	}
	if err := stream.Send(&pb.CallRequest{Requests: []*pb.Request{wait(1), wait(2)}, Cancels: []uint64{2, 99}}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || len(m.Answers) != 1 || m.Answers[0].Id != 2 || m.Answers[0].GetError().GetCode() != "held" {
		t.Fatalf("%v %v", m, err)
	}
	close(e.free)
	if m, err = stream.Recv(); err != nil || m.Answers[0].Id != 1 || m.Answers[0].GetLease() == nil {
		t.Fatalf("%v %v", m, err)
	}
}

// proves: T12
func TestWaitsOfOneConnectionAreBounded(t *testing.T) {
	e := newBlocking()
	r := serve(t, e, server.Config{MaxWaits: 2})
	stream, err := rpc(t, r).Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.CallRequest{}
	for id := range uint64(3) {
		m.Requests = append(m.Requests, &pb.Request{Id: id + 1, Call: &pb.Request_Acquire{Acquire: &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me", WaitMs: 1e9}}})
	}
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	refused, err := stream.Recv()
	if err != nil || len(refused.Answers) != 1 || refused.Answers[0].GetError().GetCode() != "full" || refused.Answers[0].GetError().GetField() != "waiters" {
		t.Fatalf("%v %v", refused, err)
	}
	other, err := rpc(t, r).Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Send(&pb.CallRequest{Requests: m.Requests[:1]}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-e.asked // two of the first connection, and the other's
	}
	close(e.free)
	for n := 0; n < 2; {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		n += len(got.Answers)
	} // The places are free again.
	m.Requests[0].Id, m.Requests[1].Id = 11, 12
	if err := stream.Send(&pb.CallRequest{Requests: m.Requests[:2]}); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2; {
		got, err := stream.Recv()
		if err != nil || got.Answers[0].GetLease() == nil {
			t.Fatal(got, err)
		}
		n += len(got.Answers)
	}
}

// A stream with as many calls in flight as it may have is not read further,
// and goes on when some are answered.
//
// proves: T12
func TestCallsInFlightAreBounded(t *testing.T) {
	e := newBlocking()
	stream, err := rpc(t, serve(t, e, server.Config{MaxCalls: 2})).Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.CallRequest{}
	for id := range uint64(5) {
		m.Requests = append(m.Requests, &pb.Request{Id: id + 1, Call: &pb.Request_Acquire{Acquire: &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}}})
	}
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	<-e.asked
	<-e.asked
	select {
	case c := <-e.asked:
		t.Fatalf("a third call was started: %v", c)
	case e.free <- struct{}{}: // one is answered
	}
	<-e.asked
	close(e.free)
	for n := 0; n < 5; {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		n += len(got.Answers)
	}
}

func TestDrainFinishesCallsAndCutsStreams(t *testing.T) {
	e := newBlocking()
	r := serve(t, e, server.Config{})
	c := rpc(t, r)
	stream, err := c.Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim := &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}
	waits := &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "you", WaitForever: true}
	if err := stream.Send(&pb.CallRequest{Requests: []*pb.Request{
		{Id: 1, Call: &pb.Request_Acquire{Acquire: claim}}, {Id: 2, Call: &pb.Request_Acquire{Acquire: waits}},
	}}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := c.Acquire(t.Context(), waits)
		waited <- err
	}()
	for range 3 {
		<-e.asked
	}
	watch, err := c.Watch(t.Context(), &pb.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.send(t, r.request(t, "AdminService/Status", nil)); status != http.StatusOK {
		t.Fatal(status)
	}

	r.drain()
	for range 2 { // both waits, by the drain
		if err := <-e.ended; !errors.Is(err, tenure.ErrUnavailable) {
			t.Fatalf("a wait ended with %v", err)
		}
	}
	if e, answered := wire.FromStatus(<-waited); !answered || e.Code != tenure.ErrUnavailable {
		t.Errorf("the wait was answered with %v", e)
	}
	if _, err := watch.Recv(); !wire.Cut(err) || status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	close(e.free)
	m, err := stream.Recv()
	if err != nil || len(m.Answers) != 1 || m.Answers[0].Id != 1 || m.Answers[0].GetLease() == nil {
		t.Fatalf("the call in flight: %v %v", m, err)
	}
	if m, err := stream.Recv(); !wire.Cut(err) || status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v %v", m, err)
	}
	r.wait()
	if _, err := http.Get("http://" + r.address + "/healthz"); err == nil {
		t.Error("connections are still taken")
	}
}

// A call that does not end is abandoned, so that the drain does.
func TestDrainIsBounded(t *testing.T) {
	e := newBlocking()
	r := serve(t, e, server.Config{DrainTimeout: 20 * time.Millisecond})
	failed := make(chan error, 1)
	c := rpc(t, r)
	go func() {
		_, err := c.Acquire(t.Context(), &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"})
		failed <- err
	}()
	<-e.asked
	r.drain()
	r.wait()
	if err := <-e.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call's context ended with %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
}

// Clients that have said nothing yet do not hold it up.
func TestDrainEndsSilentConnections(t *testing.T) {
	r := serve(t, memory(t), server.Config{HeaderTimeout: time.Hour, DrainTimeout: time.Hour})
	silent, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if status, o := r.post(t, "AdminService/Status", ""); status != http.StatusOK { // what came before it was let in
		t.Fatal(status, o)
	}
	r.drain()
	r.wait()
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes", n)
	}
}
