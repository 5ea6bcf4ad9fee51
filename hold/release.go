package hold

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenurehq/tenure"
)

// maxRelease bounds how long a release is tried; a shorter TTL bounds it more,
// since the engine frees a silent holder's lease without being asked.
const maxRelease = 10 * time.Second

// Release ends the lease, so that others need not wait for it to lapse. Call it
// after the work has stopped: whatever runs on is not protected any more. It
// does not depend on the context the lease was acquired under, is repeated while
// its outcome is not known, and gives up after the TTL, at most ten seconds; if
// the hold was lost in silence, after the margin and the grace, when the engine
// has freed the resource by itself.
//
// It returns the loss ([tenure.ErrLost]) if the hold was lost before, or if the
// engine answers that the lease was over already; else what kept the engine from
// releasing. A second call waits for the first and returns
// the same.
func (h *Hold) Release() error {
	return h.finish(tenure.Result{Outcome: tenure.OutcomeOK})
}

// Fail is [Hold.Release] for work that failed: the lease's history says so, with
// the error's text.
func (h *Hold) Fail(err error) error {
	r := tenure.Result{Outcome: tenure.OutcomeFailed}
	if err != nil {
		r.Detail = detail(err.Error())
	}
	return h.finish(r)
}

func (h *Hold) finish(r tenure.Result) error {
	h.mu.Lock()
	second := h.finishing
	h.finishing = true
	h.mu.Unlock()
	if second {
		<-h.finished
		return h.releaseErr
	}
	defer close(h.finished)
	h.releaseErr = h.doRelease(r)
	return h.releaseErr
}

func (h *Hold) doRelease(r tenure.Result) error {
	h.check()
	h.mu.Lock()
	lost, refused := h.over, h.refused
	if lost == nil {
		h.end(ErrReleased)
	}
	h.mu.Unlock()
	if refused {
		return lost // there is nothing left to release
	}
	// After a silence the lease may stand all the same, and the work has
	// stopped now: releasing it spares the next holder the rest of the wait.
	limit := h.cfg.releaseLimit()
	if lost != nil {
		limit = min(limit, h.cfg.margin+max(h.lease.Grace, 0))
	}
	err := release(h.calls, h.eng, h.lease, r, &h.cfg, limit)
	if err != nil {
		h.cfg.log.Warn("tenure: release failed", "resource", h.lease.Resource, "holder", h.lease.Holder, "lease", h.lease.ID, "err", err)
	}
	if lost != nil {
		return lost
	}
	switch tenure.CodeOf(err) {
	case tenure.ErrStale, tenure.ErrEnded, tenure.ErrNotFound, tenure.ErrRetired:
		return h.lost("the engine says that the lease was over before it was released", err)
	}
	return err
}

// release ends a lease, and repeats while the outcome is not known.
func release(values context.Context, eng tenure.Engine, lease tenure.Lease, r tenure.Result, cfg *config, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(values), limit)
	defer cancel()
	cmd := tenure.Release{Ref: lease.Ref, Holder: lease.Holder, Result: r}
	for failures := 1; ; failures++ {
		err := doOnce(ctx, eng, cmd, limit/3)
		if err == nil || !transient(err) {
			return err
		}
		if !sleep(ctx, cfg.backoff(failures)) {
			return err
		}
	}
}

func (c *config) releaseLimit() time.Duration {
	if c.ttl == tenure.NoTTL {
		return maxRelease
	}
	return min(c.ttl, maxRelease)
}

// doOnce leaves time for another attempt if the engine does not answer.
func doOnce(ctx context.Context, eng tenure.Engine, cmd tenure.Command, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := eng.Do(ctx, cmd)
	return err
}

// sleep reports whether the pause was slept to its end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// detail makes a lease's result of an error's text, which may be of any length
// and of any bytes.
func detail(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if len(s) <= tenure.MaxReasonBytes {
		return s
	}
	cut := tenure.MaxReasonBytes - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// errStopped is the detail of work that ended in a panic, or took its goroutine
// with it.
var errStopped = errors.New("the work did not return: it panicked, or ended its goroutine")
