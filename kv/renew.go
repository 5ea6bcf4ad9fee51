package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/tenurehq/tenure"
)

// Renew writes each record anew, several at a time. The process that holds a
// lease knows what stands there, so a renewal is one write; everything else is
// read first.
func (e *Engine) Renew(ctx context.Context, refs []tenure.Ref) ([]error, error) {
	if len(refs) > tenure.MaxRefsPerRenew {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "refs", Why: fmt.Sprintf("%d leases in one call, at most %d are allowed", len(refs), tenure.MaxRefsPerRenew)}
	}
	if ctx.Err() != nil {
		return nil, &tenure.Error{Code: tenure.ErrUnavailable, Cause: context.Cause(ctx), Why: "the context had ended before anything was asked"}
	}
	first := make(map[tenure.Ref]int, len(refs)) // one write answers the same ref twice
	next := make(chan int)
	each := make([]error, len(refs))
	var wg sync.WaitGroup
	for range min(e.config.Renewal, len(refs)) {
		wg.Go(func() {
			for i := range next {
				each[i] = e.renew(ctx, refs[i])
			}
		})
	}
	for i, ref := range refs {
		if _, twice := first[ref]; !twice {
			first[ref] = i
			next <- i
		}
	}
	close(next)
	wg.Wait()
	for i, ref := range refs {
		each[i] = each[first[ref]]
	}
	return each, nil
}

func (e *Engine) renew(ctx context.Context, ref tenure.Ref) error {
	if ref.Token.IsZero() {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "token", Resource: ref.Resource, Why: "a holder's command carries the token of its grant"}
	}
	key, err := e.key(ref.Token.Lease, ref.Resource)
	if err != nil {
		return err
	}
	v := e.recall(key, ref.Resource)
	for range attempts {
		if v == nil {
			if v, err = e.read(ctx, key, ref.Resource); err != nil {
				return err
			}
		}
		if err := e.renewable(v, ref.Token); err != nil {
			return err
		}
		rec := v.rec.next()
		rec.Confirm++
		if err = e.write(ctx, v, rec, false); !errors.Is(err, errMoved) {
			return err
		}
		v = nil
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Resource: ref.Resource, Why: "its record changes faster than it can be written: try again"}
}

func (e *Engine) renewable(v *view, t tenure.Token) error {
	if err := v.names(t.Lease, tenure.ErrStale); err != nil {
		return err
	}
	if err := v.current(t, "renew"); err != nil {
		return err
	}
	if v.rec.state() == tenure.StateRevoking {
		return v.refuse(tenure.ErrStale, fmt.Sprintf("renew: the authority of lease %v is withdrawn", v.rec.id()))
	}
	return e.expired(v, v.rec, "renew")
}

// recall is a view of what this process wrote last; nil if it has to be read.
// If it is out of date, the write that relies on it is refused.
func (e *Engine) recall(key string, r tenure.Resource) *view {
	s, known := e.sights.peek(key)
	if !known || s.own == nil {
		return nil
	}
	value, err := json.Marshal(s.own)
	if err != nil {
		return nil
	}
	return &view{
		key: key, resource: r, rec: s.own, sight: s, now: e.config.Clock.Now(),
		entry: Entry{Key: key, Value: value, Revision: s.state.revision},
	}
}
