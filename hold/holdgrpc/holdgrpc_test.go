package holdgrpc_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
	"github.com/tenurehq/tenure/hold/holdgrpc"
)

// grants grants whatever is asked for; nothing here is about refusals.
type grants struct{}

func (g grants) Acquire(_ context.Context, c tenure.Claim) (tenure.Lease, error) {
	return tenure.Lease{Ref: tenure.Ref{Token: token, Resource: c.Resources[0]}, ID: token.Lease, Resources: c.Resources, Holder: c.Holder, State: tenure.StateActive, TTL: c.TTL}, nil
}
func (grants) Do(context.Context, tenure.Command) (tenure.Lease, error) { return tenure.Lease{}, nil }
func (grants) Renew(_ context.Context, refs []tenure.Ref) ([]error, error) {
	return make([]error, len(refs)), nil
}
func (grants) Lookup(context.Context, tenure.Query) (tenure.Lease, error)          { panic("not used") }
func (grants) List(context.Context, tenure.Filter) iter.Seq2[tenure.Lease, error]  { panic("not used") }
func (grants) Watch(context.Context, tenure.Filter) iter.Seq2[tenure.Event, error] { panic("not used") }
func (grants) Caps() tenure.Caps                                                   { return tenure.Caps{} }

var token = tenure.Token{Lease: tenure.LeaseID{LSN: 42}, Epoch: 1}

// service hands the context of every call to the test.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	see func(context.Context) error
}

func (s service) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, s.see(ctx)
}

func (s service) Watch(_ *grpc_health_v1.HealthCheckRequest, ss grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return s.see(ss.Context())
}

// serve returns the two ways to call a server that shows see its contexts.
func serve(t *testing.T, see func(context.Context) error) map[string]func(context.Context) error {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	srv := grpc.NewServer(grpc.UnaryInterceptor(holdgrpc.UnaryServer), grpc.StreamInterceptor(holdgrpc.StreamServer))
	grpc_health_v1.RegisterHealthServer(srv, service{see: see})
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///test",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return lis.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(holdgrpc.UnaryClient),
		grpc.WithStreamInterceptor(holdgrpc.StreamClient))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	health := grpc_health_v1.NewHealthClient(conn)
	return map[string]func(context.Context) error{
		"unary": func(ctx context.Context) error {
			_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		},
		"stream": func(ctx context.Context) error {
			s, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				return err
			}
			if _, err = s.Recv(); err.Error() == "EOF" {
				return nil
			}
			return err
		},
	}
}

func acquire(t *testing.T, ttl time.Duration, resources ...string) *hold.Hold {
	t.Helper()
	c := tenure.On(resources...)
	c.TTL = ttl
	h, err := hold.Acquire(t.Context(), grants{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Release() })
	return h
}

func TestAHoldArrivesWithTheCall(t *testing.T) {
	for ttlName, ttl := range map[string]time.Duration{"a minute": time.Minute, "no TTL": tenure.NoTTL} {
		h := acquire(t, ttl, "orders/42", "orders/100% größer/\"x\"")
		var seen hold.Proof
		var deadline bool
		for kind, call := range serve(t, func(ctx context.Context) error {
			seen, _ = hold.ProofOf(ctx)
			_, deadline = ctx.Deadline()
			if hold.Token(ctx) != token {
				return errors.New("no token")
			}
			return nil
		}) {
			t.Run(kind+" "+ttlName, func(t *testing.T) {
				ctx := metadata.AppendToOutgoingContext(h.Context(), holdgrpc.TokenKey, "0-1.1", holdgrpc.ResourceKey, "orders/1", "trace", "x") // inherited from a call before
				if err := call(ctx); err != nil {
					t.Fatal(err)
				}
				if len(seen.Resources) != 2 || seen.Resources[0] != "orders/42" || seen.Resources[1] != "orders/100% größer/\"x\"" {
					t.Errorf("resources %q", seen.Resources)
				}
				if ttl == tenure.NoTTL {
					if seen.Remaining != hold.Forever || deadline {
						t.Errorf("%v remain, deadline %v", seen.Remaining, deadline)
					}
				} else if seen.Remaining > 54*time.Second || seen.Remaining < 40*time.Second || !deadline {
					t.Errorf("%v remain of 54s, deadline %v", seen.Remaining, deadline)
				}
			})
		}
	}
}

// proves: T14
func TestACallLastsNoLongerThanItsHold(t *testing.T) {
	stop := make(chan struct{})
	calls := serve(t, func(ctx context.Context) error {
		<-stop // a server that does not look at its context
		return nil
	})
	t.Cleanup(func() { close(stop) })
	for kind, call := range calls {
		t.Run(kind, func(t *testing.T) {
			carried, cancel := hold.WithProof(t.Context(), hold.Proof{Token: token, Resources: []tenure.Resource{"orders/42"}, Remaining: 50 * time.Millisecond})
			defer cancel()
			err := call(context.WithoutCancel(carried)) // the deadline that the interceptor sets is all there is
			if code := status.Code(err); code != codes.DeadlineExceeded {
				t.Errorf("the client was told %v", err)
			}
		})
	}
}

// The gRPC deadline is taken away on the server's side: what was sent beside it
// ends the context too, as a loss.
func TestTheServersContextEndsWithTheTimeThatRemained(t *testing.T) {
	handled := make(chan error, 1)
	in := metadata.NewIncomingContext(t.Context(), metadata.Pairs(holdgrpc.TokenKey, "0-42.1", holdgrpc.ResourceKey, "orders/42", holdgrpc.RemainingKey, "20"))
	_, err := holdgrpc.UnaryServer(in, nil, nil, func(ctx context.Context, _ any) (any, error) {
		<-ctx.Done()
		handled <- context.Cause(ctx)
		return nil, nil
	})
	if cause := <-handled; err != nil || !errors.Is(cause, tenure.ErrLost) {
		t.Errorf("the handler was told %v, the caller %v", cause, err)
	}
}

func TestACallUnderAHoldThatIsOverIsNotSent(t *testing.T) {
	h := acquire(t, time.Minute, "orders/42")
	ctx := context.WithoutCancel(h.Context()) // so that the context itself would let it pass
	h.Release()
	for kind, call := range serve(t, func(context.Context) error {
		t.Error("the call arrived")
		return nil
	}) {
		t.Run(kind, func(t *testing.T) {
			err := call(ctx)
			if !errors.Is(err, tenure.ErrLost) || status.Code(err) != codes.Canceled {
				t.Errorf("%v (%v)", err, status.Code(err))
			}
		})
	}
}

func TestACallUnderNoHoldIsLeftAlone(t *testing.T) {
	for kind, call := range serve(t, func(ctx context.Context) error {
		if _, ok := hold.ProofOf(ctx); ok {
			return errors.New("a proof came from nowhere")
		}
		if _, ok := ctx.Deadline(); ok {
			return errors.New("a deadline came from nowhere")
		}
		return nil
	}) {
		t.Run(kind, func(t *testing.T) {
			if err := call(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadMetadataIsRefused(t *testing.T) {
	good := func() metadata.MD {
		return metadata.Pairs(holdgrpc.TokenKey, "0-42.1", holdgrpc.ResourceKey, "orders/42", holdgrpc.RemainingKey, "1000")
	}
	many := make([]string, 1025)
	for i := range many {
		many[i] = "orders/42"
	}
	for name, c := range map[string]struct {
		key    string
		values []string
		want   codes.Code
	}{
		"good":               {"trace", []string{"x"}, codes.OK},
		"no token":           {holdgrpc.TokenKey, nil, codes.InvalidArgument},
		"two tokens":         {holdgrpc.TokenKey, []string{"0-42.1", "0-43.1"}, codes.InvalidArgument},
		"empty token":        {holdgrpc.TokenKey, []string{""}, codes.InvalidArgument},
		"token with zeros":   {holdgrpc.TokenKey, []string{"0-042.1"}, codes.InvalidArgument},
		"huge token":         {holdgrpc.TokenKey, []string{strings.Repeat("9", 1<<16)}, codes.InvalidArgument},
		"no resource":        {holdgrpc.ResourceKey, nil, codes.InvalidArgument},
		"too many":           {holdgrpc.ResourceKey, many, codes.InvalidArgument},
		"most":               {holdgrpc.ResourceKey, many[:1024], codes.OK},
		"no namespace":       {holdgrpc.ResourceKey, []string{"42"}, codes.InvalidArgument},
		"control characters": {holdgrpc.ResourceKey, []string{"orders/4%0A2"}, codes.InvalidArgument},
		"broken escape":      {holdgrpc.ResourceKey, []string{"orders/%4"}, codes.InvalidArgument},
		"too many, joined":   {holdgrpc.ResourceKey, []string{strings.Join(many, ",")}, codes.InvalidArgument},
		"two tokens, joined": {holdgrpc.TokenKey, []string{"0-42.1,0-42.1"}, codes.InvalidArgument},
		"joined badly":       {holdgrpc.ResourceKey, []string{"orders/42,"}, codes.InvalidArgument},
		"long name":          {holdgrpc.ResourceKey, []string{"orders/" + strings.Repeat("x", 1<<16)}, codes.InvalidArgument},
		"no time":            {holdgrpc.RemainingKey, nil, codes.OK},
		"two times":          {holdgrpc.RemainingKey, []string{"1000", "1000"}, codes.InvalidArgument},
		"negative time":      {holdgrpc.RemainingKey, []string{"-1"}, codes.InvalidArgument},
		"time beyond 32 bit": {holdgrpc.RemainingKey, []string{"4294967296"}, codes.InvalidArgument},
		"time with a unit":   {holdgrpc.RemainingKey, []string{"1s"}, codes.InvalidArgument},
		"time over":          {holdgrpc.RemainingKey, []string{"0"}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			md := good()
			md.Delete(c.key)
			md.Append(c.key, c.values...)
			ran := false
			_, err := holdgrpc.UnaryServer(metadata.NewIncomingContext(t.Context(), md), nil, nil, func(context.Context, any) (any, error) {
				ran = true
				return nil, nil
			})
			if status.Code(err) != c.want || ran != (c.want == codes.OK) {
				t.Errorf("%v, the handler ran: %v; want %v", err, ran, c.want)
			}
		})
	}
}

func TestResourcesThatAnIntermediaryJoinedAreToldApart(t *testing.T) {
	md := metadata.Pairs(holdgrpc.TokenKey, "0-42.1", holdgrpc.ResourceKey, "orders/1,orders/2", holdgrpc.ResourceKey, "orders/a%2Cb, orders/3")
	var seen hold.Proof
	_, err := holdgrpc.UnaryServer(metadata.NewIncomingContext(t.Context(), md), nil, nil, func(ctx context.Context, _ any) (any, error) {
		seen, _ = hold.ProofOf(ctx)
		return nil, nil
	})
	want := []tenure.Resource{"orders/1", "orders/2", "orders/a,b", "orders/3"}
	if err != nil || !slices.Equal(seen.Resources, want) {
		t.Errorf("%q (%v), want %q", seen.Resources, err, want)
	}
}

// answers is a stream that answers one thing after another, and whose context
// nobody may ask for.
type answers struct {
	grpc.ClientStream
	left []error
}

func (a *answers) Context() context.Context {
	panic("asked for the context of a stream that has not answered: that keeps gRPC from retrying it")
}

func (a *answers) RecvMsg(any) error {
	err := a.left[0]
	a.left = a.left[1:]
	return err
}

func TestAStreamLetsGoOfItsDeadlineWhenItIsOver(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		desc grpc.StreamDesc
		left []error
	}{
		"many answers":    {grpc.StreamDesc{ServerStreams: true}, []error{nil, nil, io.EOF}},
		"an error":        {grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, []error{nil, broken}},
		"a single answer": {grpc.StreamDesc{ClientStreams: true}, []error{nil}},
	} {
		t.Run(name, func(t *testing.T) {
			h := acquire(t, time.Minute, "orders/42")
			var ctx context.Context
			s, err := holdgrpc.StreamClient(h.Context(), &c.desc, nil, "/x/y", func(inner context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				ctx = inner
				return &answers{left: c.left}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.left {
				if ctx.Err() != nil {
					t.Fatalf("the stream's context ended before the stream: %v", ctx.Err())
				}
				if err := s.RecvMsg(nil); err != want {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if ctx.Err() != context.Canceled {
				t.Errorf("afterwards the context says %v", ctx.Err())
			}
		})
	}
}

func TestAServerPassesItsHoldersProofOn(t *testing.T) {
	behind := serve(t, func(ctx context.Context) error {
		if hold.Token(ctx) != token {
			return errors.New("no token")
		}
		return nil
	})
	front := serve(t, func(ctx context.Context) error { return behind["unary"](ctx) })
	h := acquire(t, time.Minute, "orders/42")
	for kind, call := range front {
		if err := call(h.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func Example() {
	conn, err := grpc.NewClient("127.0.0.1:9000",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(holdgrpc.UnaryClient),
		grpc.WithStreamInterceptor(holdgrpc.StreamClient))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(holdgrpc.UnaryServer),
		grpc.StreamInterceptor(holdgrpc.StreamServer))
	defer srv.Stop()
	// Under hold.Do, pass its ctx to the calls; in the handlers, hold.Token(ctx)
	// is the token to check where they write.
}
