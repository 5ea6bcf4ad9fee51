package kernel

import (
	"fmt"
	"slices"

	"github.com/tenurehq/tenure"
)

// Check verifies the whole state against the invariants that one moment can
// show, and returns the first that is broken, named by its number. It costs
// O(n log n): for an offline verification, for tests, and after a snapshot was
// read.
func (s *State) Check() error {
	if err := s.checkTables(); err != nil {
		return err
	}
	owned := 0
	var positions []tenure.LSN
	for _, g := range s.history.order {
		if g.lease == nil {
			continue
		}
		if err := s.checkLease(g); err != nil {
			return err
		}
		n, err := s.checkResources(g.lease)
		if err != nil {
			return err
		}
		owned += n
		positions = append(positions, g.lease.LSN)
	}
	if owned != len(s.resources) {
		return fmt.Errorf("T3: %d resources have a record, the kept leases account for %d", len(s.resources), owned)
	}
	slices.Sort(positions)
	for i := 0; i+1 < len(positions); i++ {
		if positions[i] == positions[i+1] {
			return fmt.Errorf("T9: two leases were changed at LSN %d", positions[i])
		}
	}
	return nil
}

// checkTables compares the orders and indexes with each other.
func (s *State) checkTables() error {
	h := &s.history
	kept, live := 0, 0
	for i, g := range h.order {
		if i > 0 && h.order[i-1].lsn >= g.lsn {
			return fmt.Errorf("T7: the grant at LSN %d is filed after %d", g.lsn, h.order[i-1].lsn)
		}
		if g.lease == nil {
			continue
		}
		kept++
		if g.lease.State.Live() {
			live++
		}
		if s.ops[g.lease.Op] != g.lease {
			return fmt.Errorf("T10: lease %v is not found by its operation", g.lease.ID)
		}
	}
	ended := h.queue[h.head:]
	for i, l := range ended {
		if l.State.Live() || h.get(l.ID.LSN) != l {
			return fmt.Errorf("T4: %v is %s, and filed as history", l.ID, l.State)
		}
		if i > 0 && (ended[i-1].LSN >= l.LSN || ended[i-1].Ended.Slot > l.Ended.Slot) {
			return fmt.Errorf("T9: %v is filed as ended after %v, which ended later", l.ID, ended[i-1].ID)
		}
	}
	switch {
	case kept != len(s.ops) || kept != live+len(ended) || kept != h.kept():
		return fmt.Errorf("T10: %d leases are kept; by operation %d, live %d, ended %d, tombstones %d of %d",
			kept, len(s.ops), live, len(ended), h.dead, len(h.order))
	case live != s.live:
		return fmt.Errorf("T12: %d leases are live, %d are counted", live, s.live)
	case h.floor > s.last.LSN:
		return fmt.Errorf("T9: the retirement floor %d is above the last LSN %d", h.floor, s.last.LSN)
	}
	return nil
}

// checkLease checks one record by itself: that its history is one that the
// lifecycle allows.
func (s *State) checkLease(g grant) error {
	l := g.lease
	broken := func(why string) error { return fmt.Errorf("%s: lease %v, %s at epoch %d", why, l.ID, l.State, l.Epoch) }
	switch {
	case l.ID.LSN != g.lsn || l.ID.LSN == 0 || l.ID.Shard != s.shard || l.LSN < l.ID.LSN || l.LSN > s.last.LSN:
		return broken("T9: its positions are impossible")
	case len(l.Resources) == 0 || l.Holder == "" || l.Op == ([16]byte{}):
		return broken("T2: it is not whole")
	case l.State < tenure.StateReserved || l.State > tenure.StateRevoked:
		return broken("T4: there is no such state")
	case l.Granted.Slot > s.last.Slot || l.Granted.Slot > MaxSlot-Slot(l.Reserve):
		return broken("T9: its grant's slot is impossible")
	case l.State.Live() && l.Ended != (Stamp{}):
		return broken("T4: it lives, and has ended")
	case !l.State.Live() && (l.Ended.Slot < l.Granted.Slot || l.Ended.Slot > s.last.Slot):
		return broken("T9: its end's slot is impossible")
	case l.State.Held() != (l.Epoch == 1) || l.Epoch < 1 || l.Epoch > 2:
		return broken("T5: the epoch does not tell whether there is authority")
	case (l.State == tenure.StateReserved || l.State == tenure.StateExpired) && l.Reserve == 0:
		return broken("T4: it was never a reservation")
	case l.State == tenure.StateExpired && l.Ended.Slot < l.Deadline():
		return broken("T6: it expired before its deadline")
	case (l.LSN == l.ID.LSN) != (l.State == tenure.StateReserved || l.State == tenure.StateActive && l.Reserve == 0):
		return broken("T9: its last change and its state contradict each other")
	case l.Outcome == tenure.OutcomeLapsed && l.TTL == 0:
		return broken("T14: silence ended it, and it had no TTL")
	case !possibleOutcome(l) || l.Detail != "" && (l.Outcome == tenure.OutcomeNone || l.Outcome == tenure.OutcomeLapsed):
		return broken("T4: it cannot have ended " + l.Outcome.String())
	case !possibleCommand(l):
		return broken("T10: its holder's last command cannot have been " + l.LastKind.String())
	}
	return nil
}

func possibleOutcome(l *Lease) bool {
	switch l.State {
	case tenure.StateRevoking, tenure.StateRevoked:
		return l.Outcome == tenure.OutcomeLapsed || l.Outcome == tenure.OutcomeRevoked
	case tenure.StateReleased:
		return l.Outcome == tenure.OutcomeOK || l.Outcome == tenure.OutcomeFailed || l.Outcome == tenure.OutcomeNone && l.Reserve > 0
	}
	return l.Outcome == tenure.OutcomeNone
}

func possibleCommand(l *Lease) bool {
	want := Kind(0)
	switch {
	case l.State == tenure.StateReleased:
		want = KindRelease
	case l.Reserve > 0 && l.State != tenure.StateReserved && l.State != tenure.StateExpired:
		want = KindActivate
	}
	epoch := tenure.Epoch(1)
	if want == 0 {
		epoch = 0
	}
	return l.LastKind == want && l.LastEpoch == epoch
}

// checkResources checks what the lease's resources say about it, and counts
// those that it was the last to own.
func (s *State) checkResources(l *Lease) (last int, err error) {
	for i, r := range l.Resources {
		t, known := s.resources[r]
		if slices.Contains(l.Resources[:i], r) {
			return 0, fmt.Errorf("T2: lease %v names %s twice", l.ID, r)
		}
		if known && t.last == l {
			last++
			continue
		}
		switch {
		case l.State.Live():
			return 0, fmt.Errorf("T3: lease %v is %s, and %s does not point at it", l.ID, l.State, r)
		case !known:
			return 0, fmt.Errorf("T7: lease %v is kept, and what it owned, %s, has no record", l.ID, r)
		case t.last.ID.LSN <= l.LSN:
			return 0, fmt.Errorf("T1: %s went to lease %v before lease %v had ended at LSN %d", r, t.last.ID, l.ID, l.LSN)
		}
	}
	return last, nil
}
