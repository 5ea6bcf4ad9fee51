package tenure

import (
	"context"
	"fmt"
	"iter"
)

// Engine is anything that grants leases: an embedded journal, a Tenure server,
// a database, a NATS bucket. It is safe for concurrent use. Whoever opened an
// engine closes it; closing is not part of the seam.
//
// A nil error means committed (T11). An [*Error] is a definite refusal that
// changed nothing, except [ErrUnknownOutcome], which is settled by repeating
// the same call: holders' commands carry their token, claims carry
// [Claim].Op (the error's Op field has the operation that was used, for
// callers that left it to the engine).
type Engine interface {
	// Acquire grants the claim, or says why not. With Wait it waits for live
	// holders, in arrival order where [Caps].Fair; when the wait is over it
	// returns [ErrHeld]. If ctx ends during a wait, a grant that raced it is
	// released by the engine; under an operation that the caller brought, which
	// others may share, the outcome may be unknown instead. A replayed claim
	// returns the lease as it stands now: its token is zero if that tenure is
	// over.
	Acquire(ctx context.Context, c Claim) (Lease, error)

	// Do executes a command on one lease.
	Do(ctx context.Context, c Command) (Lease, error)

	// Renew says that the holders of the named leases are alive. each has one
	// answer a ref: nil means that authority is not withdrawn for silence
	// within the lease's TTL of the moment the call was sent. Renewing a
	// reservation confirms that it stands, and does not move its deadline.
	// err is set when the batch as a whole could not be judged; each is nil then.
	Renew(ctx context.Context, refs []Ref) (each []error, err error)

	// Lookup reads one lease, by id or by resource.
	Lookup(ctx context.Context, q Query) (Lease, error)

	// List yields leases in a stable order. A listing is not one instant: each
	// lease says what it was observed at.
	List(ctx context.Context, f Filter) iter.Seq2[Lease, error]

	// Watch yields what becomes of leases, in order, until the caller stops or
	// an error ends the sequence; when ctx ends that error wraps its cause. The
	// first event is [EventWatching]: the position from which on nothing is
	// missed. Resume with the position of the last event. Where
	// [Caps].EveryEvent is lacking it gives the latest state of each resource,
	// and begins with the present one.
	Watch(ctx context.Context, f Filter) iter.Seq2[Event, error]

	// Caps says what the engine can do. It never changes.
	Caps() Caps
}

// Query names the lease to look up: by ID, or by Resource (its live lease).
type Query struct {
	ID       LeaseID
	Resource Resource
	MinLSN   LSN // the read must observe at least this (needs [Caps].MinLSN)
}

// Validate reports, as an [*Error] with code [ErrInvalid], a query that names
// nothing or a malformed resource. With both fields the ID decides, and the
// resource is where engines that need one look.
func (q Query) Validate() error {
	if q.ID.IsZero() && q.Resource == "" {
		return invalid("query", "", "name a lease id or a resource")
	}
	if q.Resource == "" {
		return nil
	}
	return q.Resource.Validate()
}

// Filter selects leases for List and Watch. The zero value selects every live
// lease.
type Filter struct {
	Resource  Resource  // leases that cover it
	Namespace Namespace // leases with a resource in it
	Children  bool      // and in namespaces below it
	Holder    Holder
	State     State // 0 = any
	Ended     bool  // List: ended leases that are still kept, too (needs [Caps].History)

	From   Position // Watch: go on after this position; zero = from now on
	MinLSN LSN      // the read must observe at least this (needs [Caps].MinLSN)
}

// Validate reports, as an [*Error] with code [ErrInvalid], a malformed field.
func (f Filter) Validate() error {
	if f.Resource != "" {
		if err := f.Resource.Validate(); err != nil {
			return err
		}
	}
	if f.Namespace != "" {
		if err := f.Namespace.Validate(); err != nil {
			return err
		}
	}
	if f.Holder != "" {
		if err := f.Holder.Validate(); err != nil {
			return err
		}
	}
	if f.State > StateRevoked {
		return invalid("state", "", fmt.Sprintf("%v is no state", f.State))
	}
	return nil
}

// Selects reports whether the filter lets the lease through; Ended is applied
// to its state, From and MinLSN are the engine's business.
func (f Filter) Selects(l *Lease) bool {
	if f.State != 0 && l.State != f.State {
		return false
	}
	if f.Holder != "" && l.Holder != f.Holder {
		return false
	}
	return f.SelectsAny(l.Resources)
}

// SelectsAny reports whether the resource part of the filter lets one of rs
// through.
func (f Filter) SelectsAny(rs []Resource) bool {
	if f.Resource == "" && f.Namespace == "" {
		return true
	}
	for _, r := range rs {
		if f.Resource != "" && r != f.Resource {
			continue
		}
		if f.Namespace != "" && !f.Namespace.Covers(r.Namespace(), f.Children) {
			continue
		}
		return true
	}
	return false
}

// Caps is what an engine can do: data, not optional interfaces, because it
// must cross a network.
type Caps struct {
	Bundles    bool // several resources in one lease
	Reserve    bool // reserve, then activate
	History    bool // ended leases are kept and told apart from unknown ones
	MinLSN     bool // reads can demand a position
	Fair       bool // waiters are served in arrival order, while the engine lives
	EveryEvent bool // Watch misses no event; else it gives the latest state of each resource
	JudgesLate bool // a newcomer has to watch a silent holder for TTL + grace before it may take over
}

// Require returns an [*Error] with code [ErrUnsupported] that names the first
// capability in want that c lacks and where it is to be had; nil if c has all.
// Uses call it when they are constructed. JudgesLate is not a capability to
// want, and is ignored.
func (c Caps) Require(want Caps) error {
	for _, x := range []struct {
		want, have bool
		name       string
	}{
		{want.Bundles, c.Bundles, "Bundles (several resources in one lease)"},
		{want.Reserve, c.Reserve, "Reserve (reserve, then activate)"},
		{want.History, c.History, "History (ended leases)"},
		{want.MinLSN, c.MinLSN, "MinLSN (reads that demand a position)"},
		{want.Fair, c.Fair, "Fair (waiting in arrival order)"},
		{want.EveryEvent, c.EveryEvent, "EveryEvent (a watch that misses nothing)"},
	} {
		if x.want && !x.have {
			return &Error{Code: ErrUnsupported, Field: x.name, Why: "this engine does not offer it: use a Tenure server or an embedded journal"}
		}
	}
	return nil
}
