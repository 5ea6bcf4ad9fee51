package kv

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// Engine is a [tenure.Engine] over one record per resource in a [Store]. It
// holds no connection and runs nothing between calls; it is safe for
// concurrent use.
type Engine struct {
	store  Store
	config Config
	sights *sights

	mu      sync.Mutex
	terms   uint64 // grants this engine tried
	stamp   uint64 // the last LSN it drew from the wall clock
	process string // random: one engine of one process
	waiting map[string]int
	waiters int
}

var _ tenure.Engine = (*Engine)(nil)

// New is an engine over a store. The error is an [*tenure.Error] with code
// [tenure.ErrInvalid] that names a field of the configuration.
func New(store Store, c Config) (*Engine, error) {
	c, err := c.resolve()
	if err != nil {
		return nil, err
	}
	e := &Engine{store: store, config: c, sights: newSights(c.Sights), waiting: map[string]int{}}
	var random [8]byte
	if _, err := io.ReadFull(c.Random, random[:]); err != nil {
		return nil, fmt.Errorf("kv: draw a session: %w", err)
	}
	e.process = hex.EncodeToString(random[:])
	return e, nil
}

// Caps says what one record per resource can do.
func (e *Engine) Caps() tenure.Caps { return tenure.Caps{Reserve: true, JudgesLate: true} }

// Lookup reads a lease by its resource. An ID alone cannot be found; with its
// resource it is found while no later lease has been granted.
func (e *Engine) Lookup(ctx context.Context, q tenure.Query) (tenure.Lease, error) {
	if err := q.Validate(); err != nil {
		return tenure.Lease{}, err
	}
	if err := (e.Caps().Require(tenure.Caps{MinLSN: q.MinLSN > 0})); err != nil {
		return tenure.Lease{}, err
	}
	key, err := e.key(q.ID, q.Resource)
	if err != nil {
		return tenure.Lease{}, err
	}
	v, err := e.read(ctx, key, q.Resource)
	if err != nil {
		return tenure.Lease{}, err
	}
	switch {
	case v.rec == nil || q.ID.IsZero() && !v.rec.state().Live():
		return tenure.Lease{}, v.refuse(tenure.ErrNotFound, "nobody owns it")
	case q.ID.IsZero():
		return e.lease(v, false), nil
	}
	if err := v.names(q.ID, tenure.ErrRetired); err != nil {
		return tenure.Lease{}, err
	}
	return e.lease(v, false), nil
}

// key finds where a lease's record stands.
func (e *Engine) key(id tenure.LeaseID, r tenure.Resource) (string, error) {
	if r == "" {
		return "", &tenure.Error{Code: tenure.ErrUnsupported, Lease: id, Field: "resource", Why: "this engine finds a lease only by its resource: name the resource together with the lease"}
	}
	if err := r.Validate(); err != nil {
		return "", err
	}
	return keyOf(r), nil
}

// view is one reading of a key: the record, or its absence, and what this
// process has seen of it before.
type view struct {
	key      string
	resource tenure.Resource
	entry    Entry
	rec      *record // nil: absent
	bucket   Bucket  // of an absent key
	sight    sight
	now      time.Duration // when it was received
	answer   *tenure.Lease // of a command that was executed before, if it is not what the record shows
}

// read looks at a key. What is no record of Tenure's is an error that names
// the key and the remedy.
func (e *Engine) read(ctx context.Context, key string, r tenure.Resource) (*view, error) {
	if ctx.Err() != nil {
		return nil, &tenure.Error{Code: tenure.ErrUnavailable, Resource: r, Cause: context.Cause(ctx), Why: "the context had ended before anything was asked"}
	}
	bounded, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	v := &view{key: key, resource: r}
	var err error
	if v.entry, err = e.store.Get(bounded, key); err != nil {
		return nil, unreadable(ctx, r, err)
	}
	if v.entry.Absent {
		if v.bucket, err = e.store.Bucket(bounded); err != nil {
			return nil, unreadable(ctx, r, err)
		}
		v.now = e.config.Clock.Now()
		v.sight = e.sights.see(key, identity{revision: v.entry.Revision, bucket: v.bucket.Created}, nil, v.now)
		return v, nil
	}
	if v.rec, err = decode(v.entry.Value); err != nil {
		return nil, garbage(r, key, err)
	}
	v.now = e.config.Clock.Now()
	v.sight = e.sights.see(key, v.identity(), v.rec, v.now)
	return v, nil
}

func (v *view) identity() identity {
	return identity{revision: v.entry.Revision, check: v.rec.Check}
}

func unreadable(ctx context.Context, r tenure.Resource, err error) error {
	var known *tenure.Error
	switch {
	case ctx.Err() != nil:
		err = errors.Join(context.Cause(ctx), err)
	case errors.As(err, &known):
		return err
	}
	return &tenure.Error{Code: tenure.ErrUnavailable, Resource: r, Cause: err, Why: "its record cannot be read, nothing was changed"}
}

func garbage(r tenure.Resource, key string, err error) error {
	return &tenure.Error{Code: tenure.ErrInvalidState, Resource: r, Cause: err,
		Why: fmt.Sprintf("what stands under the key %q cannot be trusted, and is left alone: make sure that nobody works under it, then delete the key (nats kv del)", key)}
}

// refuse is a refusal that says what the record shows.
func (v *view) refuse(code tenure.Code, why string) error {
	err := &tenure.Error{Code: code, Resource: v.resource, Why: why}
	if v.rec != nil {
		err.Lease, err.LSN, err.Holder = v.rec.id(), tenure.LSN(v.rec.LSN), v.rec.holder()
	}
	return err
}

// names checks that the record is the lease's. older is the code for a lease
// that a later one has replaced.
func (v *view) names(id tenure.LeaseID, older tenure.Code) error {
	var err error
	switch {
	case v.rec == nil:
		err = v.refuse(tenure.ErrNotFound, fmt.Sprintf("there is no record, so there is no lease %v: its key may have been deleted", id))
	case id.Shard != 0 || uint64(id.LSN) > v.rec.Count:
		err = v.refuse(tenure.ErrNotFound, fmt.Sprintf("there is no lease %v: the latest is %v", id, v.rec.id()))
	case uint64(id.LSN) < v.rec.Count:
		err = v.refuse(older, fmt.Sprintf("lease %v is over, and was replaced by %v of %q", id, v.rec.id(), v.rec.holder()))
	default:
		return nil
	}
	var e *tenure.Error
	if errors.As(err, &e) {
		e.Lease = id
	}
	return err
}

// lease is what the view shows, with this process's reckoning of the time left.
func (e *Engine) lease(v *view, replayed bool) tenure.Lease {
	l := v.rec.public(v.resource)
	l.Replayed = replayed
	if !l.State.Live() {
		return l
	}
	j, now := v.sight.judge(v.rec, e.config.Clock.Now()), e.config.Clock.Now()
	if j.at == 0 {
		return l
	}
	l.FreeIn = max(0, j.at-now)
	switch l.State {
	case tenure.StateReserved:
		l.ExpiresIn = l.FreeIn
	case tenure.StateActive:
		l.ExpiresIn = max(0, l.FreeIn-l.Grace)
	}
	return l
}

// session is fresh for every grant that is tried.
func (e *Engine) session() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.terms++
	return fmt.Sprintf("%s-%d", e.process, e.terms)
}

// after is the next LSN of a key that stands at last: the writer's wall clock
// lifts it over whatever a bucket that was lost had granted (T7). An engine
// draws no moment twice, so that leases of different resources rarely share an
// ID.
func (e *Engine) after(r tenure.Resource, last uint64) (uint64, error) {
	if last >= uint64(tenure.MaxLSN) {
		return 0, &tenure.Error{Code: tenure.ErrFull, Field: "lsn", Resource: r, Why: "the count has reached its end; nothing was changed"}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stamp = max(e.stamp+1, uint64(max(0, e.config.Wall().UnixMicro())))
	return max(last+1, e.stamp), nil
}

// notBefore lifts the moments that are drawn from now on over one that the
// store's clock has reached.
func (e *Engine) notBefore(moment uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stamp = max(e.stamp, moment)
}

// jitter is d, or up to a quarter less, so that those who wait for one thing
// do not all ask in one moment.
func (e *Engine) jitter(d time.Duration) time.Duration {
	var b [1]byte
	if _, err := io.ReadFull(e.config.Random, b[:]); err != nil {
		return d
	}
	return d - d/4*time.Duration(b[0])/256
}

// pause waits for d; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
