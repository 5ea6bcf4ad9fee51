package holdgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure/hold"
)

// UnaryServer turns the proof that came with a call into the context of
// [hold.WithProof]. A call without one is left alone: whether one is needed is
// for the handler to say. A malformed one is refused with codes.InvalidArgument,
// one whose time is over with codes.DeadlineExceeded.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, cancel, err := incoming(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return handler(ctx, req)
}

// StreamServer does for streams what [UnaryServer] does for calls.
func StreamServer(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel, err := incoming(ss.Context())
	if err != nil {
		return err
	}
	defer cancel()
	return handler(srv, stream{ServerStream: ss, ctx: ctx})
}

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

func incoming(ctx context.Context) (context.Context, context.CancelFunc, error) {
	p, ok, err := read(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case !ok:
		return ctx, func() {}, nil
	case p.Remaining == 0:
		return nil, nil, status.Error(codes.DeadlineExceeded, "the time that remained to the holder is over")
	}
	ctx, cancel := hold.WithProof(ctx, p)
	return ctx, cancel, nil
}
