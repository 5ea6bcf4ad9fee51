package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tenurehq/tenure"
)

// List yields live leases in the order of their resources. Records that cannot
// be trusted follow at the end, an error each. Ended leases are not kept.
func (e *Engine) List(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return func(yield func(tenure.Lease, error) bool) {
		leases, bad, err := e.collect(ctx, f)
		if err != nil {
			yield(tenure.Lease{}, err)
			return
		}
		for _, l := range leases {
			if !yield(l, nil) {
				return
			}
		}
		for _, err := range bad {
			if !yield(tenure.Lease{}, err) {
				return
			}
		}
	}
}

func (e *Engine) collect(ctx context.Context, f tenure.Filter) (leases []tenure.Lease, bad []error, err error) {
	if err := e.selectable(f); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, &tenure.Error{Code: tenure.ErrUnavailable, Cause: context.Cause(ctx), Why: "the context had ended before anything was asked"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for entry, err := range e.store.Watch(ctx, keyIn(f)) {
		if err != nil {
			return nil, nil, e.watchEnded(ctx, err)
		}
		if entry.Synced {
			break
		}
		v, err := e.shown(entry, f)
		switch {
		case err != nil:
			bad = append(bad, err)
		case v == nil || !v.rec.state().Live():
		default:
			if l := e.lease(v, false); f.Selects(&l) {
				leases = append(leases, l)
			}
		}
		if len(leases)+len(bad) > e.config.Limits.Leases {
			return nil, nil, &tenure.Error{Code: tenure.ErrFull, Field: "leases", Why: "more leases than the engine's limit: list a namespace or one resource, or raise it"}
		}
	}
	slices.SortFunc(leases, func(a, b tenure.Lease) int { return cmp.Compare(a.Resource, b.Resource) })
	return leases, bad, nil
}

// Watch yields the latest state of each resource: the present first, then what
// changes. A position cannot be resumed, since counts of different resources
// are not ordered; Filter.From is ignored, and the present told again. A
// record that cannot be trusted ends a watch on its resource, and is passed
// over in any other.
func (e *Engine) Watch(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Event, error] {
	return func(yield func(tenure.Event, error) bool) {
		if err := e.selectable(f); err != nil {
			yield(tenure.Event{}, err)
			return
		}
		if !yield(tenure.Event{Kind: tenure.EventWatching, At: e.config.Wall()}, nil) {
			return
		}
		w := &watching{engine: e, filter: f, last: map[string]tenure.Lease{}}
		for entry, err := range e.store.Watch(ctx, keyIn(f)) {
			if err != nil {
				yield(tenure.Event{}, e.watchEnded(ctx, err))
				return
			}
			event, err := w.event(entry)
			if err != nil {
				yield(tenure.Event{}, err)
				return
			}
			if event.Kind != 0 && !yield(event, nil) {
				return
			}
		}
	}
}

// watching knows what was told of each key, so that renewals are no events.
type watching struct {
	engine *Engine
	filter tenure.Filter
	synced bool
	last   map[string]tenure.Lease // live ones
}

func (w *watching) event(entry Entry) (tenure.Event, error) {
	if entry.Synced {
		w.synced = true
		return tenure.Event{}, nil
	}
	v, err := w.engine.shown(entry, w.filter)
	if err != nil {
		if w.filter.Resource != "" {
			return tenure.Event{}, err
		}
		w.engine.config.Logger.Warn("kv: passed over in a watch", "key", entry.Key, "error", err)
		return tenure.Event{}, nil
	}
	last, known := w.last[entry.Key]
	lease, kind := w.lease(v, entry, last, known)
	if !lease.State.Live() {
		delete(w.last, entry.Key)
	} else if len(w.last) >= w.engine.config.Limits.Leases && !known {
		return tenure.Event{}, &tenure.Error{Code: tenure.ErrFull, Field: "leases", Why: "more leases than the engine's limit: watch a namespace or one resource, or raise it"}
	} else {
		w.last[entry.Key] = lease
	}
	if kind == 0 || !w.filter.Selects(&lease) {
		return tenure.Event{}, nil
	}
	return tenure.Event{Position: tenure.Position{LSN: lease.LSN}, Kind: kind, At: entry.Created, Lease: lease}, nil
}

// lease is what became of a key. A key that was deleted under a lease frees
// it, by the operator's assertion that its holder is dead.
func (w *watching) lease(v *view, entry Entry, last tenure.Lease, known bool) (tenure.Lease, tenure.EventKind) {
	switch {
	case v == nil && known:
		last.State, last.Token, last.EndedAt = tenure.StateRevoked, tenure.Token{}, entry.Created
		return last, tenure.EventFreed
	case v == nil:
		return tenure.Lease{}, 0
	}
	lease := w.engine.lease(v, false)
	if known && last.LSN == lease.LSN || !w.synced && !lease.State.Live() {
		return lease, 0
	}
	return lease, kindOf(v.rec)
}

func kindOf(r *record) tenure.EventKind {
	switch r.state() {
	case tenure.StateReserved:
		return tenure.EventGranted
	case tenure.StateActive:
		if r.Last == lastActivate {
			return tenure.EventActivated
		}
		return tenure.EventGranted
	case tenure.StateRevoking:
		return tenure.EventRevoking
	case tenure.StateReleased:
		return tenure.EventReleased
	}
	return tenure.EventFreed
}

// shown is the view of an entry that a watch told; nil for an absent key, and
// for one that the filter does not let through. A watch may lag, so it is no
// observation.
func (e *Engine) shown(entry Entry, f tenure.Filter) (*view, error) {
	r, err := resourceOf(entry.Key)
	if err != nil || !f.SelectsAny([]tenure.Resource{r}) {
		return nil, err
	}
	if entry.Absent {
		return nil, nil
	}
	rec, err := decode(entry.Value)
	if err != nil {
		return nil, garbage(r, entry.Key, err)
	}
	v := &view{key: entry.Key, resource: r, entry: entry, rec: rec, now: e.config.Clock.Now()}
	v.sight = sight{since: v.now, lead: v.now}
	if s, known := e.sights.peek(entry.Key); known && s.state == v.identity() {
		v.sight = s
	}
	return v, nil
}

func (e *Engine) selectable(f tenure.Filter) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return e.Caps().Require(tenure.Caps{History: f.Ended, MinLSN: f.MinLSN > 0})
}

// keyIn is the one key that can match a filter; empty = any.
func keyIn(f tenure.Filter) string {
	if f.Resource == "" {
		return ""
	}
	return keyOf(f.Resource)
}

func (e *Engine) watchEnded(ctx context.Context, err error) error {
	var known *tenure.Error
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("kv: the watch was ended: %w", context.Cause(ctx))
	case errors.As(err, &known):
		return err
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Cause: err, Why: "the watch broke: begin it again"}
}
