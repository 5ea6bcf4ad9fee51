package server

import (
	"context"

	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// admin answers the calls of the AdminService.
type admin struct {
	pb.UnimplementedAdminServiceServer
	*Server
}

func (s *admin) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	m := &pb.StatusResponse{Version: s.cfg.Version, Caps: wire.FromCaps(s.engine.Caps()), Ready: true}
	if err := s.ready(); err != nil {
		m.Ready, m.Why = false, err.Error()
	}
	stats := Stats{}
	if s.cfg.Stats != nil {
		stats = s.cfg.Stats()
		m.Leases = make(map[string]uint32)
	}
	for state, n := range stats.Leases {
		m.Leases[state.String()] = uint32(n)
	}
	m.Lsn = s.observed(stats.LSN)
	return m, nil
}

// ready says why no calls can be served.
func (s *Server) ready() error {
	if s.draining.Err() != nil {
		return closing()
	}
	if s.cfg.Ready == nil {
		return nil
	}
	return s.cfg.Ready()
}
