package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure/internal/wire"
)

// unary judges a gRPC call before it is served, and turns the engine's error
// into a status.
func (s *Server) unary(ctx context.Context, m any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.admitRPC(ctx); err != nil {
		return nil, err
	}
	answer, err := next(ctx, m)
	s.metrics.answered(info.FullMethod, err)
	if err != nil {
		return nil, rpcError(err)
	}
	return answer, nil
}

// stream does the same for streams.
func (s *Server) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.admitRPC(stream.Context()); err != nil {
		return err
	}
	open := s.metrics.streams.WithLabelValues(nameOf(info.FullMethod))
	open.Inc()
	defer open.Dec()
	err := next(service, stream)
	s.metrics.answered(info.FullMethod, err)
	return rpcError(err)
}

// admitRPC refuses callers without the token, and compressed messages: what a
// caller sends costs the server what it weighs.
func (s *Server) admitRPC(ctx context.Context) error {
	if err := s.auth.checkRPC(ctx); err != nil {
		return wire.Status(err)
	}
	transport, _ := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	if transport == nil {
		return nil
	}
	if c := transport.RecvCompress(); c != "" && c != encoding.Identity {
		return status.Errorf(codes.Unimplemented, "tenure: unsupported grpc-encoding: %q: send messages uncompressed", c)
	}
	return nil
}

// cutShort ends a stream because the server drains. Over gRPC it is a bare
// status, which says nothing about the calls in the stream: the client goes on
// at whichever server comes back.
type cutShort struct{}

func (cutShort) Error() string              { return closing().Error() }
func (cutShort) Unwrap() error              { return closing() }
func (cutShort) GRPCStatus() *status.Status { return status.New(codes.Unavailable, closing().Error()) }

// rpcError leaves a status as it is.
func rpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return wire.Status(err)
}
