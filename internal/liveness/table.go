package liveness

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
)

// Never is how long it takes until something that will not happen.
const Never time.Duration = math.MaxInt64

// Table holds an entry for every live lease of one shard: in which phase it
// is, and until when its holder's last beat counts. Its methods are safe for
// concurrent use; each lock is held for a bounded number of entries. A million
// entries take under 100 MB; how many there are is bounded by whoever grants
// leases.
type Table struct {
	shard uint16
	sweep time.Duration
	wake  chan struct{} // signalled when an empty table gets an entry while the reaper rests

	mu      sync.Mutex
	hearing hearing
	entries slab
	index   map[tenure.LSN]uint32
	wheel   wheel
	fresh   [64]time.Duration // by TTL class: leases were given their full TTL then
	mute    time.Duration     // nothing is due before
	resting bool              // the reaper waits for wake
	halted  error
	stats   Stats
}

// Config tunes a table. The zero value is ready to use.
type Config struct {
	Shard uint16        // whose leases these are
	Sweep time.Duration // how often the reaper looks, at least; 0 = 50 ms, at most 100 ms

	// Pause is the least time that is taken for a pause of this process: see
	// the package comment. 0 = 10 ms. Negative = nothing is, for a clock that
	// leaps because a test moves it.
	Pause time.Duration
}

const (
	defaultSweep = 50 * time.Millisecond
	maxSweep     = 100 * time.Millisecond
	defaultPause = 10 * time.Millisecond // the shortest TTL that tenure.Limits permits
)

// New makes an empty table that counts by clk.
func New(clk clock.Clock, cfg Config) *Table {
	if cfg.Sweep <= 0 {
		cfg.Sweep = defaultSweep
	}
	if cfg.Pause == 0 {
		cfg.Pause = defaultPause
	}
	t := &Table{
		shard: cfg.Shard, sweep: min(cfg.Sweep, maxSweep), wake: make(chan struct{}, 1),
		hearing: newHearing(clk, cfg.Pause), index: make(map[tenure.LSN]uint32),
	}
	t.wheel.slab = &t.entries
	return t
}

// Phase is where a live lease stands. A lease only ever moves to a later one.
type Phase uint8

const (
	Reserved Phase = iota + 1 // due at its deadline
	Active                    // due after a TTL of silence
	Revoking                  // due at the end of its holder's belief plus the grace
)

// Entry is a live lease as the history knows it.
type Entry struct {
	Lease tenure.LeaseID
	Epoch tenure.Epoch
	Phase Phase
	TTL   time.Duration // <= 0: none; its beats are judged, it is never due
	Grace time.Duration // <= 0: none
	In    time.Duration // reserved: how long until the deadline
}

// Track enters a lease once its grant, its activation, or an open made it
// durable: it counts as heard from now, for its TTL. Repeating it is no
// heartbeat: of a lease that is known already, it only moves the entry on to a
// later phase. A lease of another shard, or without a phase, is a fault of the
// caller and panics.
func (t *Table) Track(l Entry) {
	if l.Phase < Reserved || l.Phase > Revoking || l.Lease.Shard != t.shard {
		panic(fmt.Sprintf("liveness: lease %v in phase %d cannot be tracked in shard %d", l.Lease, l.Phase, t.shard))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	i, known := t.index[l.Lease.LSN]
	if !known {
		t.insert(l, now)
		return
	}
	e := t.entries.at(i)
	if l.Phase <= e.phase || l.Epoch < e.epoch {
		return
	}
	if l.Phase == Revoking {
		t.withdraw(i, l.Epoch, now)
		return
	}
	t.move(e, Active)
	e.epoch = l.Epoch
	e.until = later(now, e.ttl)
	t.wheel.remove(i)
	t.file(i)
}

func (t *Table) insert(l Entry, now time.Duration) {
	i := t.entries.take()
	t.index[l.Lease.LSN] = i
	e := t.entries.at(i)
	*e = entry{lsn: l.Lease.LSN, ttl: l.TTL, grace: max(l.Grace, 0), epoch: l.Epoch, where: nowhere}
	t.move(e, l.Phase)
	if e.until = later(now, max(l.TTL, 0)); l.Phase == Reserved {
		e.until = later(t.hearing.seen, max(l.In, 0))
	}
	t.file(i)
	if t.resting {
		t.resting = false
		t.hearing.watch(t.sweep)
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Withdraw notes that a lease's authority was withdrawn, by revoke or lapse,
// and that this is durable. epoch is what it was raised to. From now on the
// entry is revoking. A lease that is not known, or known under a later epoch,
// is left alone.
func (t *Table) Withdraw(id tenure.LeaseID, epoch tenure.Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	i, ok := t.find(id)
	if !ok || epoch < t.entries.at(i).epoch {
		return
	}
	t.withdraw(i, epoch, now)
}

func (t *Table) withdraw(i uint32, epoch tenure.Epoch, now time.Duration) {
	e := t.entries.at(i)
	if e.phase == Revoking {
		return
	}
	if e.phase == Reserved { // the law has no such step; if it had, its holder might believe for a TTL
		e.until = later(now, max(e.ttl, 0))
	}
	// The grace counts from the end of belief or, if the lapse came to be ordered
	// later than that, from there: whoever learns of the loss has all of it.
	e.until = max(e.until, now)
	reclaiming := e.flags.has(paired)
	t.move(e, Revoking)
	e.epoch = epoch
	t.wheel.remove(i)
	if reclaiming {
		e.flags = proposed
		return
	}
	t.file(i)
}

// Forget drops a lease that has ended.
func (t *Table) Forget(id tenure.LeaseID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.find(id); ok {
		t.forget(i)
	}
}

func (t *Table) forget(i uint32) {
	e := t.entries.at(i)
	t.wheel.remove(i)
	t.move(e, 0)
	delete(t.index, e.lsn)
	t.entries.give(i)
}

// Halt makes the table answer err to every beat from now on, and propose
// nothing.
func (t *Table) Halt(err error) {
	if err == nil {
		err = tenure.ErrHalted
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halted = err
}

// Restart counts from now: every active lease gets its full TTL, every
// revoking one a TTL and its grace, whatever they had left. Condemned leases
// stay condemned. It is rule 5 after an open whose entries were tracked before
// beats could be taken. It takes the same time for any number of entries.
func (t *Table) Restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for class := range t.fresh {
		t.fresh[class] = now
	}
	t.stats.Restarts++
}

// Left says how long until the lease's authority may be withdrawn for silence
// (reserved: until its deadline; revoking: 0), and until its resources may be
// reusable if its holder stays silent. Both are [Never] without TTL. ok is false
// if the lease is not known.
func (t *Table) Left(id tenure.LeaseID) (expires, free time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	i, ok := t.find(id)
	if !ok {
		return 0, 0, false
	}
	e := t.entries.at(i)
	switch due := t.due(e); {
	case e.phase == Revoking:
		return 0, left(due, now), true
	case e.phase == Reserved:
		return left(due, now), left(due, now), true
	case e.flags.has(condemned):
		return 0, left(later(due, e.grace), now), true
	default:
		return left(due, now), left(later(due, e.grace), now), true
	}
}

// Reclaimable says how long until the lease may be reclaimed without an
// operator's assertion that its holder is dead. known is false if that is never
// the case: without TTL, or if the table knows no such lease.
func (t *Table) Reclaimable(id tenure.LeaseID) (in time.Duration, known bool) {
	_, free, ok := t.Left(id)
	if !ok || free == Never {
		return 0, false
	}
	return free, true
}

func (t *Table) find(id tenure.LeaseID) (uint32, bool) {
	if id.Shard != t.shard {
		return 0, false
	}
	i, ok := t.index[id.LSN]
	return i, ok
}

// move changes e's phase, and with it every count; 0 is the end.
func (t *Table) move(e *entry, to Phase) {
	if count := t.stats.count(e.phase); count != nil {
		*count--
	}
	if e.flags.has(condemned) {
		t.stats.Condemned--
	}
	if count := t.stats.count(to); count != nil {
		*count++
	}
	e.phase, e.flags = to, 0
}

// now reads the clock. If the process was paused, the leases that the pause
// may have silenced start afresh.
func (t *Table) now() time.Duration {
	now, paused := t.hearing.now()
	if paused == 0 {
		return now
	}
	for class := range t.fresh {
		if shortest(class) <= paused {
			t.fresh[class] = now
		}
	}
	t.mute = now + t.sweep
	t.stats.Pauses++
	t.stats.Paused += paused
	return now
}

// due is the hearing time at which e is due.
func (t *Table) due(e *entry) time.Duration {
	if e.phase == Reserved {
		return e.until - t.hearing.deaf
	}
	if e.ttl <= 0 {
		return Never
	}
	until := e.until
	if !e.flags.has(condemned) {
		until = max(until, later(t.fresh[class(e.ttl)], e.ttl))
	}
	if e.phase == Revoking {
		return later(until, e.grace)
	}
	return until
}

// file puts an entry that stands nowhere into the wheel, if it can be due.
func (t *Table) file(i uint32) {
	if due := t.due(t.entries.at(i)); due < Never {
		t.wheel.file(i, due)
	}
}

// class groups TTLs by their magnitude: 2^(class-1) <= ttl < 2^class.
func class(ttl time.Duration) int { return bits.Len64(uint64(ttl)) }

func shortest(class int) time.Duration {
	if class == 0 {
		return Never
	}
	return 1 << (class - 1)
}

// later is a + b, for b >= 0, or Never.
func later(a, b time.Duration) time.Duration {
	if a > Never-b {
		return Never
	}
	return a + b
}

func left(due, now time.Duration) time.Duration {
	if due == Never {
		return Never
	}
	return max(due-now, 0)
}
