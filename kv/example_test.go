package kv_test

import (
	"context"
	"fmt"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kv"
)

func Example() {
	ctx := context.Background()
	eng, err := kv.New(kv.Memory(), kv.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim := tenure.On("orders/42")
	claim.Holder = "worker-1"
	lease, err := eng.Acquire(ctx, claim)
	fmt.Println(lease.Holder, lease.State, lease.Prior, err)

	claim.Holder = "worker-2"
	_, err = eng.Acquire(ctx, claim)
	fmt.Println(tenure.CodeOf(err))

	_, err = eng.Do(ctx, tenure.Release{Ref: lease.Ref, Holder: "worker-1"})
	fmt.Println(err)
	next, err := eng.Acquire(ctx, claim)
	fmt.Println(next.Holder, next.Prior, next.Token.Compare(lease.Token), err)
	// Output:
	// worker-1 active never <nil>
	// tenure: held
	// <nil>
	// worker-2 clean 1 <nil>
}
