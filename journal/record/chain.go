package record

import (
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
)

// Chain is a position in a journal: what the next record has to follow. The
// zero value is the beginning.
type Chain struct {
	Sum  Sum        // of the last record
	Last tenure.LSN // the highest LSN used so far
	Slot uint64     // of the last record
}

// ErrChain is the error of a record that verifies, but does not belong where it
// was found, or where it was to be written.
var ErrChain = errors.New("record: does not follow the one before")

// Next moves c behind r, if r follows: its Prev is the last sum, its slot does
// not go back, and its first LSN is the next one; only a jump may have a higher.
// Otherwise c stays, and the error, an [ErrChain], says what is wrong.
func (c *Chain) Next(r *Record) error {
	switch {
	case r.Prev != c.Sum:
		return fmt.Errorf("%w: it follows the record with sum %v, and not %v", ErrChain, r.Prev, c.Sum)
	case r.First <= c.Last:
		return fmt.Errorf("%w: LSN %d goes back behind %d", ErrChain, r.First, c.Last)
	case r.First > c.Last+1 && r.Kind != KindJump:
		return fmt.Errorf("%w: LSN %d leaves a gap behind %d", ErrChain, r.First, c.Last)
	case r.Slot < c.Slot:
		return fmt.Errorf("%w: slot %d goes back behind %d", ErrChain, r.Slot, c.Slot)
	}
	*c = Chain{Sum: r.Sum, Last: r.Last, Slot: r.Slot}
	return nil
}
