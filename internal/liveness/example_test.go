package liveness_test

import (
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

func Example() {
	var clk clock.Manual
	table := liveness.New(&clk, liveness.Config{})
	lease := tenure.LeaseID{LSN: 42}
	table.Track(liveness.Entry{Lease: lease, Epoch: 1, Phase: liveness.Active, TTL: 15 * time.Second, Grace: 2 * time.Second})

	// A beat counts from its arrival.
	clk.Advance(10 * time.Second)
	answers := make([]error, 1)
	table.Renew([]tenure.Ref{{Token: tenure.Token{Lease: lease, Epoch: 1}}}, answers)
	fmt.Println("beat:", answers[0])

	// Then the holder falls silent.
	clk.Advance(15 * time.Second)
	for _, p := range table.Due(10, nil) {
		fmt.Println("proposed:", p.Kind, p.Lease, p.Epoch)
	}
	table.Withdraw(lease, 2) // the lapse was ordered, and is durable
	_, free, _ := table.Left(lease)
	fmt.Println("free in", free)
	// Output:
	// beat: <nil>
	// proposed: lapse 0-42 1
	// free in 2s
}
