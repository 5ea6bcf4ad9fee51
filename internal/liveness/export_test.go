package liveness

// Bounds of the work that one call, and one lock within it, may do.
const (
	DueVisits = dueVisits
	SweepMax  = sweepMax
	Tick      = tick
)

// Visited is how many entries Due has looked at so far.
func Visited(t *Table) uint64 { return t.Stats().visited }
