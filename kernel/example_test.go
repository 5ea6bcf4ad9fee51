package kernel_test

import (
	"fmt"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kernel"
)

// A holder falls silent: the reaper's lapse withdraws its authority, and only
// the reclaim after the grace lets somebody else in.
func Example() {
	s := kernel.New(0, tenure.DefaultLimits())
	at := kernel.At{}
	do := func(c kernel.Command) kernel.Outcome {
		at.LSN++
		at.Slot += 1000
		out, rows := s.Step(at, &c)
		if !out.Changed() {
			at.LSN-- // a refusal uses no position
		}
		fmt.Printf("%-8v %-9v %v at epoch %d, %d rows\n", c.Kind, out.Code, out.Lease.ID, out.Lease.Epoch, len(rows))
		return out
	}
	claim := func(holder tenure.Holder, op byte) kernel.Command {
		c := tenure.On("default/press")
		c.Holder, c.Op = holder, tenure.Op{ID: [16]byte{op}, Seen: s.Last().LSN}
		return kernel.FromClaim(c.Resolve())
	}

	lease := do(claim("ann", 1)).Lease
	do(claim("bob", 2))
	do(kernel.Command{Kind: kernel.KindLapse, Lease: lease.ID, Epoch: lease.Epoch})
	do(kernel.Command{Kind: kernel.KindRelease, Lease: lease.ID, Epoch: lease.Epoch, Holder: "ann"})
	bob := claim("bob", 2)
	refused := do(bob)
	fmt.Println(refused.Err(&bob))
	do(kernel.Command{Kind: kernel.KindReclaim, Lease: lease.ID})
	fmt.Println("prior tenure:", do(bob).Lease.Prior)
	// Output:
	// acquire  granted   0-1 at epoch 1, 2 rows
	// acquire  held      0-1 at epoch 1, 0 rows
	// lapse    revoking  0-1 at epoch 2, 2 rows
	// release  stale     0-1 at epoch 2, 0 rows
	// acquire  held      0-1 at epoch 2, 0 rows
	// tenure: held default/press: it cannot be given to "bob", lease 0-1 of "ann" is revoking: wait, or ask its holder
	// reclaim  reclaimed 0-1 at epoch 2, 2 rows
	// acquire  granted   0-4 at epoch 1, 2 rows
	// prior tenure: taken
}
