package liveness

import (
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
)

const (
	dueHold   = 128     // entries visited under one lock
	dueVisits = 1 << 14 // entries visited in one call
	retry     = 100 * time.Millisecond
	// A reservation whose expiry was refused is early by the slot clock's
	// rounding, or gone without a word: asking again is free, and soon enough.
	retryExpire = time.Second
)

// Kind says what is proposed.
type Kind uint8

const (
	Lapse   Kind = iota + 1 // withdraw the authority of a silent holder, under the epoch that was judged
	Reclaim                 // free the resources of a revoking lease
	Expire                  // end a reservation whose deadline has passed
)

// String is the kind's name in logs and metrics: "lapse".
func (k Kind) String() string {
	switch k {
	case Lapse:
		return "lapse"
	case Reclaim:
		return "reclaim"
	case Expire:
		return "expire"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// of is the phase that a proposal of this kind ends.
func (k Kind) of() Phase {
	switch k {
	case Lapse:
		return Active
	case Reclaim:
		return Revoking
	case Expire:
		return Reserved
	}
	return 0
}

// Proposal is a command that liveness advises. It changes nothing by itself.
type Proposal struct {
	Kind  Kind
	Lease tenure.LeaseID
	Epoch tenure.Epoch // that was judged; of a reclaim: to which authority was withdrawn
}

// Due condemns what is due and appends a proposal for each to buf, at most
// most of them. The lapse of a lease without grace is followed by its
// reclaim. What is left over for want of room or time is found by the next
// call; [Table.Next] is 0 then.
//
// Each proposal is on its way until the lease is withdrawn, activated or
// forgotten, until [Table.Settle], or until [Table.Return]; it is not proposed
// again before.
func (t *Table) Due(most int, buf []Proposal) []Proposal {
	full := len(buf) + most
	for visits := 0; visits < dueVisits; visits += dueHold {
		var more bool
		if buf, more = t.collect(full, buf); !more {
			break
		}
	}
	return buf
}

// collect looks at one lock's worth of entries and says whether to go on.
func (t *Table) collect(full int, buf []Proposal) ([]Proposal, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.halted != nil || now < t.mute {
		return buf, false
	}
	for range dueHold {
		if len(buf) >= full {
			return buf, false
		}
		i := t.wheel.take(now)
		if i == 0 {
			return buf, false
		}
		t.stats.visited++
		buf = t.judge(i, now, full-len(buf), buf)
	}
	return buf, true
}

// judge condemns entry i, which stands nowhere, if it is due now, and files it
// again if not: beats, pauses and restarts move what is due without touching
// the wheel.
func (t *Table) judge(i uint32, now time.Duration, room int, buf []Proposal) []Proposal {
	e := t.entries.at(i)
	if now < t.due(e) {
		t.file(i)
		return buf
	}
	p := Proposal{Lease: tenure.LeaseID{Shard: t.shard, LSN: e.lsn}, Epoch: e.epoch}
	e.flags |= proposed
	switch e.phase {
	case Revoking:
		p.Kind = Reclaim
		return append(buf, p)
	case Reserved:
		p.Kind = Expire
		t.condemn(e)
		return append(buf, p)
	}
	p.Kind = Lapse
	t.condemn(e)
	buf = append(buf, p)
	if e.grace > 0 || room < 2 {
		return buf
	}
	e.flags |= paired
	p.Kind = Reclaim
	p.Epoch++ // by the lapse before it
	return append(buf, p)
}

func (t *Table) condemn(e *entry) {
	if e.flags.has(condemned) {
		return
	}
	if e.phase == Active {
		e.until = t.due(e) // no restart pardons it any more
	}
	e.flags |= condemned
	t.stats.Condemned++
}

// Settle notes that a proposal was ordered, and whether it changed anything.
// What it changed arrives as Withdraw or Forget. A lease whose lapse or reclaim
// changed nothing is not what the table thought it was: it was condemned in
// vain, and is forgotten, unless the table has heard better in the meantime. An
// expiry that changed nothing is proposed again a second later.
func (t *Table) Settle(p Proposal, took bool) {
	if took {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	i, ok := t.outstanding(p)
	switch {
	case !ok:
	case p.Kind == Expire:
		t.again(i, now+retryExpire)
	default:
		t.forget(i)
	}
}

// Return takes back proposals that could not be ordered: those that are still
// on their way are proposed again a little later. Their leases stay condemned.
func (t *Table) Return(ps []Proposal) {
	for len(ps) > 0 {
		n := min(len(ps), dueHold)
		t.takeBack(ps[:n])
		ps = ps[n:]
	}
}

func (t *Table) takeBack(ps []Proposal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, p := range ps {
		if i, ok := t.outstanding(p); ok {
			t.again(i, now+retry)
		}
	}
}

// outstanding finds the entry that waits for p and for nothing else.
func (t *Table) outstanding(p Proposal) (uint32, bool) {
	i, ok := t.find(p.Lease)
	if !ok {
		return 0, false
	}
	e := t.entries.at(i)
	return i, e.phase == p.Kind.of() && e.epoch == p.Epoch && e.flags.has(proposed)
}

// again makes entry i, whose time was over, due once more at the moment at. For
// a lapse that moves the grace along: authority is not withdrawn before.
func (t *Table) again(i uint32, at time.Duration) {
	e := t.entries.at(i)
	e.flags &^= proposed | paired
	switch e.phase {
	case Reserved:
		e.until = at + t.hearing.deaf
	case Active:
		e.until = at
	case Revoking:
		e.until = at - e.grace
	}
	t.file(i)
}

// Next says how long until something can be due: 0 if Due has work now. Nothing
// is due earlier, and something may be due later. ok is false if nothing the
// table knows of can ever be due.
func (t *Table) Next() (in time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next(t.now())
}

func (t *Table) next(now time.Duration) (time.Duration, bool) {
	_, start, ok := t.wheel.next()
	if !ok || t.halted != nil {
		return 0, false
	}
	return max(time.Duration(start)*tick-now, t.mute-now, 0), true
}
