package liveness

import "time"

// Stats is what a table counts. All but the first four only ever grow.
type Stats struct {
	Reserved, Active, Revoking int // live leases by phase
	Condemned                  int // of the first two: their end is proposed and not ordered yet

	Answered uint64 // beats answered yes
	Refused  uint64 // beats refused, those of a halted table not counted

	// Lag counts the answered beats of leases with a TTL by how much of it had
	// passed in silence: Lag[i] from i tenths on, Lag[10] the whole TTL and more,
	// heard only because the reaper had not come by yet.
	Lag [11]uint64

	Restarts uint64        // calls of Restart
	Pauses   uint64        // pauses of this process that were noticed
	Paused   time.Duration // their sum

	visited uint64 // entries that Due looked at
}

// Stats returns the counts of this moment.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

func (s *Stats) count(p Phase) *int {
	switch p {
	case Reserved:
		return &s.Reserved
	case Active:
		return &s.Active
	case Revoking:
		return &s.Revoking
	}
	return nil
}

func (s *Stats) silent(d, ttl time.Duration) {
	tenth := max(ttl/10, 1)
	s.Lag[min(max(d/tenth, 0), 10)]++
}
