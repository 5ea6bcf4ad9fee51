package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Acquire grants the claim, waits for it, or says who stands in its way. The
// operation is the client's where the claim brings none: if a broken
// connection made the server give a grant back, the claim is made again.
func (c *Client) Acquire(ctx context.Context, claim tenure.Claim) (tenure.Lease, error) {
	claim = claim.Resolve()
	drawn := claim.Op.IsZero()
	var until time.Time
	if claim.Wait > 0 && claim.Wait < tenure.WaitForever {
		until = time.Now().Add(claim.Wait)
		bounded, cancel := context.WithDeadlineCause(ctx, until.Add(lateAnswer), errNoAnswer)
		defer cancel()
		ctx = bounded
	}
	for renewed := false; ; {
		if drawn {
			claim.Op = tenure.NewOp(tenure.LSN(c.seen.Load()))
		}
		if !until.IsZero() {
			claim.Wait = max(time.Until(until), 0)
		}
		m, err := wire.FromClaim(&claim)
		if err != nil {
			return tenure.Lease{}, err
		}
		asked := newClaim(m, until)
		asked.shared = !drawn
		lease, err := c.lease(ctx, asked)
		if drawn && err == nil && lease.Replayed && lease.Token.IsZero() && ctx.Err() == nil {
			continue
		}
		if drawn && !renewed && errors.Is(err, tenure.ErrRetired) && asked.sends == 1 {
			renewed = true // this client had not heard from the server for long
			continue
		}
		return lease, about(err, &claim)
	}
}

// lateAnswer is how long after the end of a bounded wait the server's answer is
// waited for: a wait does not turn into one for a server that has gone.
const lateAnswer = 5 * time.Second

var errNoAnswer = errors.New("the wait is over and the server does not answer")

// about completes an error that was made on this side of the network.
func about(err error, c *tenure.Claim) error {
	var e *tenure.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Code == tenure.ErrUnknownOutcome {
		e.Op = c.Op
	}
	if e.Code == tenure.ErrHeld && e.Resource == "" && len(c.Resources) > 0 {
		e.Resource = c.Resources[0]
	}
	return err
}

// Do executes a command on one lease.
func (c *Client) Do(ctx context.Context, command tenure.Command) (tenure.Lease, error) {
	if command == nil {
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "command", Why: "no command is given"}
	}
	r, err := wire.FromCommand(command)
	if err != nil {
		return tenure.Lease{}, err
	}
	return c.lease(ctx, newCall(r))
}

// Lookup reads one lease.
func (c *Client) Lookup(ctx context.Context, q tenure.Query) (tenure.Lease, error) {
	m, err := wire.FromQuery(q)
	if err != nil {
		return tenure.Lease{}, err
	}
	lease, err := c.lease(ctx, newCall(&pb.Request{Call: &pb.Request_Get{Get: m}}))
	return lease, unread(err)
}

// lease makes a call that is answered with a lease.
func (c *Client) lease(ctx context.Context, asked *call) (tenure.Lease, error) {
	if err := fits(asked); err != nil {
		return tenure.Lease{}, err
	}
	a, err := c.link.ask(ctx, asked)
	if err != nil {
		return tenure.Lease{}, err
	}
	l, err := wire.ToLease(a.GetLease().GetLease())
	if err != nil {
		return tenure.Lease{}, garbled(err)
	}
	return l, nil
}

// Renew says that the holders of the named leases are alive.
func (c *Client) Renew(ctx context.Context, refs []tenure.Ref) ([]error, error) {
	if n := len(refs); n > tenure.MaxRefsPerRenew {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "refs", Why: fmt.Sprintf("%d in one call, at most %d are allowed", n, tenure.MaxRefsPerRenew)}
	}
	each := make([]error, len(refs))
	batch, weight := renewal{each: each}, 0
	for i, ref := range refs {
		m, err := wire.FromRef(ref)
		if err != nil {
			each[i] = err
			continue
		}
		if weight += weighRef(m); weight > maxWeight {
			if err := c.renew(ctx, &batch); err != nil {
				return nil, err
			}
			weight = weighRef(m)
		}
		batch.refs, batch.at = append(batch.refs, m), append(batch.at, i)
	}
	if err := c.renew(ctx, &batch); err != nil {
		return nil, err
	}
	return each, nil
}

// renewal is what goes into one message of a Renew, and where its answers
// belong.
type renewal struct {
	refs []*pb.Ref
	at   []int
	each []error
}

func (c *Client) renew(ctx context.Context, b *renewal) error {
	if len(b.refs) == 0 {
		return nil
	}
	a, err := c.link.ask(ctx, newCall(&pb.Request{Call: &pb.Request_Renew{Renew: &pb.RenewRequest{Refs: b.refs}}}))
	if err != nil {
		return err
	}
	answers := a.GetRenew().GetAnswers()
	if len(answers) != len(b.refs) {
		return garbled(fmt.Errorf("%d answers to %d refs", len(answers), len(b.refs)))
	}
	for i, answer := range answers {
		if !answer.GetOk() {
			b.each[b.at[i]] = wire.ToError(answer.GetError())
		}
	}
	b.refs, b.at = nil, b.at[:0]
	return nil
}

// List yields leases, a page at a time.
func (c *Client) List(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return func(yield func(tenure.Lease, error) bool) {
		if err := f.Validate(); err != nil {
			yield(tenure.Lease{}, err)
			return
		}
		for page := ""; ; {
			a, err := c.link.ask(ctx, newCall(&pb.Request{Call: &pb.Request_List{List: wire.FromList(f, 0, page)}}))
			if err != nil {
				yield(tenure.Lease{}, unread(err))
				return
			}
			for _, m := range a.GetList().GetLeases() {
				l, err := wire.ToLease(m)
				if err != nil {
					yield(tenure.Lease{}, unread(garbled(err)))
					return
				}
				if !yield(l, nil) {
					return
				}
			}
			if page = a.GetList().GetNextPageToken(); page == "" {
				return
			}
		}
	}
}

// unread turns an unknown outcome into what it is for a read: no answer.
func unread(err error) error {
	var e *tenure.Error
	if errors.As(err, &e) && e.Code == tenure.ErrUnknownOutcome {
		return &tenure.Error{Code: tenure.ErrUnavailable, Cause: e.Cause, Why: "there was no answer to the read"}
	}
	return err
}

// garbled is for an answer that this version cannot read.
func garbled(err error) error {
	return &tenure.Error{Code: tenure.ErrUnknownOutcome, Why: "the server's answer cannot be read: its version may be newer", Cause: err}
}

// fits refuses a request that no server would take, since the message that
// carries it would end the calls of others.
func fits(c *call) error {
	if c.weight <= 2*maxWeight-(8<<10) {
		return nil
	}
	return &tenure.Error{Code: tenure.ErrInvalid, Field: "claim", Why: fmt.Sprintf("its names and metadata take %d bytes, more than one message may have", c.weight)}
}
