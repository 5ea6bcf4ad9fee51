package holdgrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

// UnaryClient sends the proof of the hold that a call's context belongs to, and
// gives the call no more time than the hold has left. A call under a hold that
// is over is not sent; its error matches [tenure.ErrLost] and has
// codes.Canceled. A call under no hold is left alone.
func UnaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel, err := outgoing(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return invoker(ctx, method, req, reply, cc, opts...)
}

// StreamClient does for streams what [UnaryClient] does for calls.
func StreamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel, err := outgoing(ctx)
	if err != nil {
		return nil, err
	}
	s, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return clientStream{ClientStream: s, single: !desc.ServerStreams, cancel: cancel}, nil
}

// clientStream lets go of its deadline when the stream is over. It does not ask
// for the stream's context, which would keep gRPC from retrying.
type clientStream struct {
	grpc.ClientStream
	single bool // one answer ends the stream
	cancel context.CancelFunc
}

func (s clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.cancel()
	}
	return err
}

func outgoing(ctx context.Context) (context.Context, context.CancelFunc, error) {
	p, ok := hold.ProofOf(ctx)
	if !ok {
		return ctx, func() {}, nil
	}
	if p.Token.IsZero() || p.Remaining < time.Millisecond {
		return nil, nil, over{&tenure.Error{Code: tenure.ErrLost, Why: "the hold that this call was to be made under is over: the call was not sent", Cause: context.Cause(ctx)}}
	}
	ctx = write(ctx, p)
	if p.Remaining == hold.Forever {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.Remaining)
	return ctx, cancel, nil
}

// over is a loss that gRPC's own tools read as a cancelled call.
type over struct{ lost *tenure.Error }

func (o over) Error() string { return o.lost.Error() }

func (o over) Unwrap() error { return o.lost }

// GRPCStatus is what status.FromError asks for.
func (o over) GRPCStatus() *status.Status { return status.New(codes.Canceled, o.Error()) }
