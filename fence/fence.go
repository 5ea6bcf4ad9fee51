// Package fence is the resource's side: it refuses a token below the highest it
// has seen.
//
// A lease alone does not stop a holder that was paused, woke up, and writes
// before it looked at its clock. Whoever keeps the data can stop it: tokens of
// one resource strictly increase (T7), so it is enough to remember the highest.
// [Handler] does it for HTTP; [Check] and [Store] serve any other way in.
//
// # Checking and writing
//
// A check says nothing of what happens after it. A request that was checked,
// and then delayed, could write after a newer holder has written. So a [Store]
// runs the guarded work itself: requests under one token run side by side, and
// the first under a higher token refuses the lower ones from then on, and waits
// until those that are running have ended. A store cannot end them: work that
// hangs keeps newer holders waiting, until their contexts end. And it cannot see
// what the work hands on: a write that is queued and not finished when the work
// returns is not guarded.
//
// A fence trusts that tokens were granted: whoever may send any token at all can
// lock others out with a high one, so authenticate in front of it.
package fence

import (
	"context"
	"fmt"

	"github.com/tenurehq/tenure"
)

// Store remembers the highest token seen for each resource: [Memory] for as
// long as the process lives, [File] for as long as its directory does. What is
// guarded must not outlive what remembers. Stores are safe for concurrent use.
type Store interface {
	// Do runs fn if token is not below the highest seen for the resource, and
	// remembers a higher one, durably where the store is, before it runs fn. It
	// returns [tenure.ErrStale] if the token is lower, [tenure.ErrInvalid] if
	// the resource or the token is malformed, [tenure.ErrUnavailable] if ctx
	// ended while requests under lower tokens were still running, and otherwise
	// what kept the store from judging, or what fn returned. Without a nil
	// error or one of fn's, fn was not run.
	//
	// fn may call Do again, for other resources, in ascending order; under the
	// same token for the same one.
	Do(ctx context.Context, r tenure.Resource, token tenure.Token, fn func(context.Context) error) error
}

// Check is [Store].Do without work: nil means that no lower token passes, and
// none is at work, from now on. It is enough where a stale write that began
// before the check cannot come after it.
func Check(ctx context.Context, s Store, r tenure.Resource, token tenure.Token) error {
	return s.Do(ctx, r, token, func(context.Context) error { return nil })
}

func validate(r tenure.Resource, token tenure.Token) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if token.IsZero() {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "token", Resource: r, Why: "there is no token: its holder has none, or must not believe in it any more"}
	}
	return nil
}

func stale(r tenure.Resource, token, highest tenure.Token) error {
	return &tenure.Error{Code: tenure.ErrStale, Resource: r, Lease: token.Lease,
		Why: fmt.Sprintf("token %s is below %s, the highest seen here: its holder has lost the lease and has to acquire again", token, highest)}
}

func busy(ctx context.Context, r tenure.Resource, token tenure.Token) error {
	return &tenure.Error{Code: tenure.ErrUnavailable, Resource: r, Lease: token.Lease,
		Why: fmt.Sprintf("requests under an earlier token than %s are still running: try again", token), Cause: context.Cause(ctx)}
}
