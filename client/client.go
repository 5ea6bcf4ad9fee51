package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Client is an engine behind a network. It is safe for concurrent use; close
// it when done.
type Client struct {
	target string
	conn   *grpc.ClientConn
	side   *grpc.ClientConn // for watches: as many as they are, they take no stream from the calls
	leases pb.LeaseServiceClient
	caps   tenure.Caps
	seen   atomic.Uint64 // the highest LSN in any answer
	link   *link

	closing context.Context // over once Close was called
	close   context.CancelFunc
	once    sync.Once
	closed  error
}

var _ tenure.Engine = (*Client)(nil)

// Dial connects to the server at target: "127.0.0.1:7070", "http://host:port",
// or "https://host:port", which is TLS. It returns once the server has
// answered. A server that cannot be reached within the dial timeout is
// [tenure.ErrUnavailable]; a token that it does not know [tenure.ErrDenied].
func Dial(ctx context.Context, target string, opts ...Option) (*Client, error) {
	o := options{timeout: 5 * time.Second}
	for _, opt := range opts {
		opt(&o)
	}
	address, settings, err := o.resolve(target)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+address, settings...)
	if err != nil {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "target", Why: fmt.Sprintf("%q cannot be dialled", target), Cause: err}
	}
	side, err := grpc.NewClient("passthrough:///"+address, settings...) // connects when it is used
	if err != nil {
		_ = conn.Close()
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "target", Why: fmt.Sprintf("%q cannot be dialled", target), Cause: err}
	}
	c := &Client{target: target, conn: conn, side: side, leases: pb.NewLeaseServiceClient(conn)}
	if err := c.greet(ctx, o.timeout); err != nil {
		return nil, errors.Join(err, conn.Close(), side.Close())
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.link = newLink(c.leases, c.observed)
	return c, nil
}

// greet finds out whether a Tenure server answers, and what its engine can do.
func (c *Client) greet(ctx context.Context, patience time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := pb.NewAdminServiceClient(c.conn).Status(bounded, &pb.StatusRequest{})
	if err == nil {
		c.caps = wire.ToCaps(m.GetCaps())
		c.observed(m.GetLsn())
		return nil
	}
	if e, answered := wire.FromStatus(err); answered {
		return e
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Cause: err,
		Why: fmt.Sprintf("no Tenure server answers at %s: check the address and that it runs (tenure serve starts one)", c.target)}
}

// Close ends every call and watch, and the connection. Leases stay what they
// are. A grant that raced the end of its wait is given back first, for at most
// a second.
func (c *Client) Close() error {
	c.once.Do(func() {
		c.close()
		c.link.close()
		c.closed = errors.Join(c.side.Close(), c.conn.Close())
	})
	return c.closed
}

// Caps is what the engine behind the server can do, as of Dial.
func (c *Client) Caps() tenure.Caps { return c.caps }

// observed notes the position in an answer.
func (c *Client) observed(lsn uint64) {
	for {
		seen := c.seen.Load()
		if seen >= lsn || c.seen.CompareAndSwap(seen, lsn) {
			return
		}
	}
}
