package hold

import (
	"context"
	"errors"

	"github.com/tenurehq/tenure"
)

// Do acquires the claim, runs fn under the hold's context, and releases the
// lease after fn has returned: as failed if fn returned an error. If fn panics
// or ends its goroutine, the lease is released as failed and the panic goes on.
// If fn does not return, nothing is released, and others wait.
//
// If the lease was lost while fn ran, the error matches [tenure.ErrLost],
// whatever fn returned, and fn's error too. If fn succeeded and only the release
// did not, the error is the release's.
func Do(ctx context.Context, eng tenure.Engine, claim tenure.Claim, fn func(ctx context.Context) error, opts ...Option) error {
	h, err := Acquire(ctx, eng, claim, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned {
			_ = h.Fail(errStopped) // not recovered: the panic keeps its stack
		}
	}()
	err = fn(h.Context())
	returned = true
	if err != nil {
		return errors.Join(h.Fail(err), err)
	}
	return h.Release()
}
