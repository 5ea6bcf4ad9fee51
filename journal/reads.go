package journal

import (
	"context"
	"iter"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// lookup answers from the state as stepped so far, which is durable by the
// time the answer leaves.
func (s *sequencer) lookup(r *request) {
	s.answers = append(s.answers, r)
	if r.err = behind(r.query.MinLSN, s.asOf()); r.err != nil {
		return
	}
	var l *kernel.Lease
	if q := r.query; !q.ID.IsZero() {
		var code kernel.Code
		if l, code = s.state.Lookup(q.ID); l == nil {
			out := kernel.Outcome{Code: code, AsOf: s.asOf()}
			r.err = out.Err(&kernel.Command{Lease: q.ID})
			return
		}
	} else if l = s.state.Owner(q.Resource); l == nil {
		r.err = &tenure.Error{Code: tenure.ErrNotFound, Resource: q.Resource, LSN: s.asOf(), Why: "it is free: no live lease covers it"}
		return
	}
	r.lease = l.Public(s.asOf(), false)
}

// behind refuses a read that demands what this engine has not applied: it is
// not the engine, or not the history, that the caller saw.
func behind(least, reached tenure.LSN) error {
	if least <= reached {
		return nil
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Field: "min_lsn", LSN: reached,
		Why: "this engine has not reached the position that the read demands: ask the engine that the position came from, or check whether an older copy was put in its place"}
}

// list collects one page, visiting a bounded number of leases.
func (s *sequencer) list(r *request) {
	s.answers = append(s.answers, r)
	if r.err = behind(r.filter.MinLSN, s.asOf()); r.err != nil {
		return
	}
	visited := 0
	s.state.Leases(r.after, func(l *kernel.Lease) bool {
		if visited == maxPageScan || len(r.page.leases) == tenure.MaxPageSize {
			r.page.more = true
			return false
		}
		visited++
		r.page.next = l.ID.LSN
		if !l.State.Live() && !r.filter.Ended {
			return true
		}
		if !r.filter.SelectsAny(l.Resources) {
			return true
		}
		public := l.Public(s.asOf(), false)
		if r.filter.Selects(&public) {
			r.page.leases = append(r.page.leases, public)
		}
		return true
	})
}

// Lookup reads one lease by id (kept ones that ended, too) or by resource (its
// live lease). Errors: ErrNotFound, ErrRetired, ErrHalted.
func (e *Engine) Lookup(ctx context.Context, q tenure.Query) (tenure.Lease, error) {
	if err := q.Validate(); err != nil {
		return tenure.Lease{}, err
	}
	r := newRequest(askLookup)
	r.query = q
	if err := e.ask(ctx, r); err != nil {
		return tenure.Lease{}, err
	}
	return r.lease, r.err
}

// List yields leases in the order of their grants, a page at a time: what was
// granted while the listing runs comes at its end.
func (e *Engine) List(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return func(yield func(tenure.Lease, error) bool) {
		if err := f.Validate(); err != nil {
			yield(tenure.Lease{}, err)
			return
		}
		var after tenure.LSN
		for more := true; more; {
			r := newRequest(askPage)
			r.filter, r.after = f, after
			err := e.ask(ctx, r)
			if err == nil {
				err = r.err
			}
			if err != nil {
				yield(tenure.Lease{}, err)
				return
			}
			for _, l := range r.page.leases {
				if !yield(l, nil) {
					return
				}
			}
			after, more = r.page.next, r.page.more
		}
	}
}
