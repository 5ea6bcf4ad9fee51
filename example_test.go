package tenure_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
	"github.com/tenurehq/tenure/journal"
)

// One owner at a time, with a token to prove it.
func Example() {
	eng := journal.Memory() // or journal.Open(dir), client.Dial(ctx, "127.0.0.1:7070"), a NATS bucket
	defer eng.Close()
	ctx := context.Background()

	var first tenure.Token
	err := hold.Do(ctx, eng, tenure.On("orders/42"), func(ctx context.Context) error {
		first = hold.Token(ctx) // goes with every write; ctx ends before the lease can be lost
		_, err := eng.Acquire(ctx, tenure.On("orders/42"))
		fmt.Println("a second owner is refused:", errors.Is(err, tenure.ErrHeld))
		return nil
	})
	fmt.Println("done, and released:", err)

	next, err := eng.Acquire(ctx, tenure.On("orders/42"))
	fmt.Println("the next token is higher:", next.Token.Compare(first) > 0, err)
	// Output:
	// a second owner is refused: true
	// done, and released: <nil>
	// the next token is higher: true <nil>
}
