package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/memlog"
)

// A read says what it observed, a refused one too, and refuses a position that
// this engine has not reached.
//
// proves: T13
func TestT13_ReadsSayWhatTheyObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		e := opened(t, memlog.New())
		defer e.Close()
		first := acquire(t, e, tenure.On("a/1"))
		second := acquire(t, e, tenure.On("a/2"))
		if first.AsOf != first.LSN || second.AsOf != second.LSN {
			t.Errorf("grants at %d and %d say %d and %d", first.LSN, second.LSN, first.AsOf, second.AsOf)
		}
		l, err := e.Lookup(ctx, tenure.Query{ID: first.ID, MinLSN: second.LSN})
		if err != nil || l.AsOf != second.LSN || l.LSN != first.LSN {
			t.Errorf("the lookup says %d of a change at %d (%v), the engine stands at %d", l.AsOf, l.LSN, err, second.LSN)
		}
		var refused *tenure.Error
		_, err = e.Lookup(ctx, tenure.Query{Resource: "a/3"})
		if !errors.As(err, &refused) || refused.Code != tenure.ErrNotFound || refused.LSN != second.LSN {
			t.Errorf("a free resource: %v, observed at %d", err, refused.LSN)
		}
		_, err = e.Lookup(ctx, tenure.Query{ID: first.ID, MinLSN: second.LSN + 1})
		wantCode(t, err, tenure.ErrUnavailable)
		for _, err := range e.List(ctx, tenure.Filter{MinLSN: second.LSN + 1}) {
			wantCode(t, err, tenure.ErrUnavailable)
		}
		n := 0
		for l, err := range e.List(ctx, tenure.Filter{MinLSN: second.LSN}) {
			if n++; err != nil || l.AsOf < second.LSN {
				t.Errorf("listed as of %d (%v)", l.AsOf, err)
			}
		}
		if n != 2 {
			t.Errorf("%d leases are listed", n)
		}
	})
}

// A listing goes over many turns, in the order of the grants, and skips what
// the filter does not want without stopping early.
func TestAListingIsCompleteOverManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		defer e.Close()
		const n = 2*tenure.MaxPageSize + 500
		for i := range n {
			acquire(t, e, tenure.On(fmt.Sprintf("even.%d/k%d", i%2, i)))
		}
		count := func(f tenure.Filter) (found int) {
			last := tenure.LSN(0)
			for l, err := range e.List(context.Background(), f) {
				if err != nil || l.ID.LSN <= last {
					t.Fatalf("%v after %d: %v", l.ID, last, err)
				}
				last = l.ID.LSN
				found++
			}
			return found
		}
		if all, half := count(tenure.Filter{}), count(tenure.Filter{Namespace: "even.1"}); all != n || half != n/2 {
			t.Errorf("%d and %d of %d leases", all, half, n)
		}
		if children, none := count(tenure.Filter{Namespace: "even", Children: true}), count(tenure.Filter{Namespace: "even"}); children != n || none != 0 {
			t.Errorf("%d below the namespace, %d in it", children, none)
		}
	})
}
