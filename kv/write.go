package kv

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tenurehq/tenure"
)

// errMoved says that the record was written by somebody else since it was
// read: the write was refused for good, and the command has to be judged anew.
var errMoved = errors.New("kv: the record has changed")

// firstBackoff is the pause after a write whose outcome is not known, doubled
// each time.
const firstBackoff = 10 * time.Millisecond

// write puts rec over what v shows, and settles a lost answer: it reads again,
// and knows its own bytes; if the
// record still stands where it stood, the same bytes are sent again, on the
// same condition, so that at most one of them lands. No two writes have the same
// bytes: a renewal that found another's would count from its own send, and
// nothing was written after that (T14). It returns
//   - nil, and v shows rec: written;
//   - errMoved: refused for good;
//   - an [*tenure.Error]: ErrUnavailable, nothing was or will be written, or
//     ErrUnknownOutcome.
func (e *Engine) write(ctx context.Context, v *view, rec *record, granted bool) error {
	rec.Write = e.session()
	value, err := rec.encode()
	if err != nil {
		return err
	}
	w := &writing{engine: e, view: v, value: value, sent: e.config.Clock.Now()}
	for i, backoff := 0, firstBackoff; i < attempts; i, backoff = i+1, backoff*2 {
		if i > 0 && !pause(ctx, e.jitter(backoff)) {
			break
		}
		revision, err := w.try(ctx)
		switch {
		case err == nil:
			v.entry = Entry{Key: v.key, Value: value, Revision: revision}
			v.rec, v.now = rec, e.config.Clock.Now()
			v.sight = e.sights.wrote(v.key, v.identity(), rec, granted, w.sent, v.now)
			return nil
		case errors.Is(err, errMoved):
			e.sights.forget(v.key)
			return err
		}
		w.last = err
		if errors.Is(err, ErrNotWritten) && !w.doubt || ctx.Err() != nil {
			break
		}
	}
	e.sights.forget(v.key)
	return w.failed(ctx)
}

// writing is one write on its way.
type writing struct {
	engine *Engine
	view   *view
	value  []byte
	sent   time.Duration // the first time
	doubt  bool          // one of the attempts may have been, or may yet be, written
	last   error
}

// try sends once. The error is errMoved, ErrNotWritten for an attempt that
// changed nothing, or any other for one that is not known.
func (w *writing) try(ctx context.Context) (uint64, error) {
	tctx, cancel := context.WithTimeout(ctx, w.engine.config.Timeout)
	defer cancel()
	revision, err := w.send(tctx)
	if err == nil {
		return revision, nil
	}
	if errors.Is(err, ErrNotWritten) && !w.doubt {
		return 0, err
	}
	if !errors.Is(err, ErrRevision) && !errors.Is(err, ErrNotWritten) {
		w.doubt = true
	}
	rctx, cancel := context.WithTimeout(ctx, w.engine.config.Timeout)
	defer cancel()
	now, readErr := w.engine.store.Get(rctx, w.view.key)
	switch {
	case readErr != nil:
		return 0, errors.Join(err, readErr)
	case !now.Absent && bytes.Equal(now.Value, w.value):
		return now.Revision, nil
	case !same(now, w.view.entry):
		return 0, errMoved
	}
	return 0, err // it stands where it stood: the write may be on its way still
}

func (w *writing) send(ctx context.Context) (uint64, error) {
	over := w.view.entry
	if over.Revision == 0 {
		return w.engine.store.Create(ctx, w.view.key, w.value)
	}
	return w.engine.store.Update(ctx, w.view.key, w.value, over.Revision)
}

func (w *writing) failed(ctx context.Context) error {
	err := &tenure.Error{Code: tenure.ErrUnavailable, Resource: w.view.resource, Cause: w.last, Why: "the store did not take the write, nothing was changed: try again"}
	if w.doubt {
		err.Code, err.Why = tenure.ErrUnknownOutcome, "the store did not answer the write: repeat the same call to settle it"
	}
	if ctx.Err() != nil {
		err.Cause = errors.Join(context.Cause(ctx), w.last)
	}
	return err
}

func same(a, b Entry) bool {
	return a.Revision == b.Revision && a.Absent == b.Absent && bytes.Equal(a.Value, b.Value)
}
