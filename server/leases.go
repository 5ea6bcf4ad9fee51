package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/peer"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// leases answers the calls of the LeaseService with the engine's own errors;
// whoever called turns them into a status, JSON, or an answer in a stream.
type leases struct {
	pb.UnimplementedLeaseServiceServer
	*Server
}

func (s *leases) Acquire(ctx context.Context, m *pb.AcquireRequest) (*pb.LeaseResponse, error) {
	c, err := wire.ToClaim(m)
	if err != nil {
		return nil, err
	}
	if c.Wait == 0 {
		return s.answer(s.engine.Acquire(s.base, c))
	}
	client := clientOf(ctx)
	if err := s.waits.enter(client); err != nil {
		return nil, err
	}
	defer s.waits.leave(client)
	s.metrics.waits.Inc()
	defer s.metrics.waits.Dec()
	ctx, done := s.waiting(ctx)
	defer done()
	granted, err := s.answer(s.engine.Acquire(ctx, c))
	if errors.Is(err, tenure.ErrHeld) && s.draining.Err() != nil {
		return nil, closing() // nothing was granted; other answers are what they say
	}
	return granted, err
}

func (s *leases) Activate(_ context.Context, m *pb.ActivateRequest) (*pb.LeaseResponse, error) {
	c, err := wire.ToActivate(m)
	return s.command(c, err)
}

func (s *leases) Release(_ context.Context, m *pb.ReleaseRequest) (*pb.LeaseResponse, error) {
	c, err := wire.ToRelease(m)
	return s.command(c, err)
}

func (s *leases) Revoke(_ context.Context, m *pb.RevokeRequest) (*pb.LeaseResponse, error) {
	c, err := wire.ToRevoke(m)
	return s.command(c, err)
}

func (s *leases) Reclaim(_ context.Context, m *pb.ReclaimRequest) (*pb.LeaseResponse, error) {
	c, err := wire.ToReclaim(m)
	return s.command(c, err)
}

// command is carried to its end even if its caller has gone.
func (s *leases) command(c tenure.Command, err error) (*pb.LeaseResponse, error) {
	if err != nil {
		return nil, err
	}
	return s.answer(s.engine.Do(s.base, c))
}

func (s *leases) Renew(_ context.Context, m *pb.RenewRequest) (*pb.RenewResponse, error) {
	if n := len(m.GetRefs()); n > tenure.MaxRefsPerRenew {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "refs", Why: fmt.Sprintf("%d in one call, at most %d are allowed", n, tenure.MaxRefsPerRenew)}
	}
	refs := make([]tenure.Ref, 0, len(m.GetRefs()))
	var malformed map[int]error
	for i, ref := range m.GetRefs() {
		r, err := wire.ToRef(ref.GetToken(), ref.GetResource())
		if err != nil {
			if malformed == nil {
				malformed = make(map[int]error)
			}
			malformed[i] = err // it has its own answer, and must not spoil the others'
			continue
		}
		refs = append(refs, r)
	}
	each, err := s.engine.Renew(s.base, refs)
	if err != nil {
		return nil, s.refused(err)
	}
	answers := make([]*pb.RenewAnswer, len(m.GetRefs()))
	for i := range answers {
		err, ok := malformed[i]
		if !ok {
			err, each = each[0], each[1:]
		}
		answers[i] = renewed(s.refused(err))
	}
	return &pb.RenewResponse{Answers: answers, Lsn: s.observed(0)}, nil
}

func renewed(err error) *pb.RenewAnswer {
	if err != nil {
		return &pb.RenewAnswer{Error: wire.FromError(err)}
	}
	return &pb.RenewAnswer{Ok: true}
}

func (s *leases) Get(_ context.Context, m *pb.GetRequest) (*pb.LeaseResponse, error) {
	q, err := wire.ToQuery(m)
	if err != nil {
		return nil, err
	}
	return s.answer(s.engine.Lookup(s.base, q))
}

func (s *leases) List(_ context.Context, m *pb.ListRequest) (*pb.ListResponse, error) {
	page, err := s.listings.page(m)
	if err != nil {
		return nil, s.refused(err)
	}
	for _, l := range page.Leases {
		s.observed(tenure.LSN(l.AsOf))
	}
	page.Lsn = s.observed(0)
	return page, nil
}

func (s *leases) Watch(m *pb.WatchRequest, stream pb.LeaseService_WatchServer) error {
	f, err := wire.ToWatch(m)
	if err != nil {
		return err
	}
	ctx, done := s.waiting(stream.Context())
	defer done()
	for ev, err := range s.engine.Watch(ctx, f) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return s.refused(err)
		}
		if err := stream.Send(wire.FromEvent(&ev, tenure.LSN(s.observed(ev.Position.LSN)))); err != nil {
			return err
		}
	}
	if s.draining.Err() != nil {
		return cutShort{}
	}
	return nil
}

func (s *leases) answer(l tenure.Lease, err error) (*pb.LeaseResponse, error) {
	if err != nil {
		return nil, s.refused(err)
	}
	seen := max(l.AsOf, l.LSN)
	s.observed(seen)
	return &pb.LeaseResponse{Lease: wire.FromLease(&l), Lsn: uint64(seen)}, nil
}

// clientOf names the connection that a call came on.
func clientOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}
