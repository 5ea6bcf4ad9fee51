package client

import (
	"context"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Status is what a server says of itself.
type Status struct {
	Version string
	Ready   bool
	Why     string // it is not ready
	LSN     tenure.LSN
	Leases  map[tenure.State]int // live ones by state; nil where the engine does not count them
}

// Status asks the server. A server that is not ready answers, too.
func (c *Client) Status(ctx context.Context) (Status, error) {
	m, err := pb.NewAdminServiceClient(c.conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		if e, answered := wire.FromStatus(err); answered {
			return Status{}, e
		}
		return Status{}, &tenure.Error{Code: tenure.ErrUnavailable, Cause: err, Why: "the server at " + c.target + " does not answer"}
	}
	s := Status{Version: m.GetVersion(), Ready: m.GetReady(), Why: m.GetWhy(), LSN: tenure.LSN(m.GetLsn())}
	for name, n := range m.GetLeases() {
		state, known := tenure.ParseState(name)
		if !known {
			continue // a newer server's
		}
		if s.Leases == nil {
			s.Leases = make(map[tenure.State]int)
		}
		s.Leases[state] = int(n)
	}
	return s, nil
}
