package hold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
	"github.com/tenurehq/tenure/journal"
)

func ExampleDo() {
	ctx := context.Background()
	eng := journal.Memory() // any tenure.Engine: a server, a database, a journal in this process
	defer eng.Close()

	err := hold.Do(ctx, eng, tenure.On("orders/42"), func(ctx context.Context) error {
		// ctx ends, with a cause, before the lease can be lost.
		fmt.Println("charging under a token:", !hold.Token(ctx).IsZero())
		return nil
	})
	fmt.Println(err)
	// Output:
	// charging under a token: true
	// <nil>
}

func ExampleAcquire() {
	ctx := context.Background()
	eng := journal.Memory()
	defer eng.Close()

	h, err := hold.Acquire(ctx, eng, tenure.Claim{
		Resources: []tenure.Resource{"orders/42"},
		TTL:       30 * time.Second,
		Wait:      time.Minute,
	})
	if err != nil {
		panic(err)
	}
	defer h.Release() // after the work has stopped

	_, err = hold.Acquire(ctx, eng, tenure.On("orders/42"))
	fmt.Println(h.Err(), errors.Is(err, tenure.ErrHeld))
	// Output: <nil> true
}

func ExampleMutex() {
	eng := journal.Memory()
	defer eng.Close()

	mu := hold.NewMutex(eng, tenure.On("orders/42"))
	ctx, err := mu.Lock(context.Background())
	if err != nil {
		panic(err)
	}
	defer mu.Unlock()
	fmt.Println(ctx.Err()) // the work's context: it ends before the lock can be lost
	// Output: <nil>
}

// On the real law: kept alive for many TTLs, handed over at the release, and
// withdrawn from a holder that does not see it coming.
//
// proves: T14
func TestOnAJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := journal.Memory()
		defer eng.Close()
		first, err := hold.Acquire(t.Context(), eng, claim)
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		stands(t, first)

		c := claim
		c.Wait = tenure.WaitForever
		granted := make(chan *hold.Hold)
		go func() {
			second, err := hold.Acquire(t.Context(), eng, c)
			if err != nil {
				t.Error(err)
			}
			granted <- second
		}()
		pass(time.Minute)
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		second := <-granted
		stands(t, second)
		if second.Token().Compare(first.Ref().Token) <= 0 {
			t.Errorf("token %v after %v", second.Token(), first.Ref().Token)
		}

		if _, err := eng.Do(t.Context(), tenure.Revoke{Lease: second.Lease().ID, Resource: "orders/42"}); err != nil {
			t.Fatal(err)
		}
		<-second.Done()
		isLost(t, second)
		if err := second.Release(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("release: %v", err)
		}
	})
}
