package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal/memlog"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
	"github.com/tenurehq/tenure/kernel"
)

// Opened says what an open found and did.
type Opened struct {
	Created  bool       // there was nothing
	Sealed   bool       // the last stop was clean
	Damage   string     // what the log had to cut off at its end; "" if nothing
	First    tenure.LSN // the first position of this open: every open jumps
	Snapshot tenure.LSN // the recovery began here; 0 = at the beginning
	Records  int        // folded behind the snapshot
	Bad      []error    // newer snapshots that did not verify
	LSN      tenure.LSN // the last position
	Live     int        // live leases

	size int64 // of the snapshot
}

// Open opens, or creates, the journal in dir: one machine, each answer synced
// to its disk before it is given. A directory belongs to one process at a
// time. Close the engine to release it.
func Open(dir string, cfg Config) (*Engine, error) {
	log, report, err := wal.Open(wal.OS{}, dir, wal.Options{})
	if err != nil {
		return nil, err
	}
	damage := ""
	if report.Cut {
		damage = fmt.Sprintf("%d bytes behind offset %d of %s did not verify", report.CutBytes, report.CutOffset, report.CutFile)
	}
	e, err := OpenLog(log, damage, cfg)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return e, nil
}

// Memory is an engine whose log is in memory, for tests and for locks inside
// one process: the real sequencer and the real law, nothing durable. It
// follows the time of testing/synctest. Close it when done.
func Memory() *Engine {
	e, err := OpenLog(memlog.New(), "", Config{Clock: clock.Monotonic()})
	if err != nil {
		panic("journal: an empty memory log did not open: " + err.Error())
	}
	return e
}

// OpenLog recovers an engine from log, which it closes when it is closed
// itself. damage names what the log's own open had to cut off, "" if nothing;
// it is reported and recorded with the jump of the LSN.
func OpenLog(log Log, damage string, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Limits.Validate(); err != nil {
		return nil, err
	}
	start := cfg.Clock.Now()
	f, found, err := recovered(log, cfg.WatchWindow)
	if err != nil {
		return nil, err
	}
	found.Damage = damage
	e := &Engine{cfg: cfg, log: log, feed: f.feed, sequenced: make(chan struct{}), inbox: inbox{wake: make(chan struct{}, 1)}}
	e.snapshots = &snapshotter{engine: e, lsn: found.Snapshot, size: found.size}
	e.live = newObserver(e)
	if e.metrics, err = newMetrics(e); err != nil {
		return nil, err
	}
	s := &sequencer{
		engine: e, state: f.state, waiting: newWaiting(), next: f.feed.head + 1, sum: f.sum, slot: f.slot, written: f.bytes,
		time: slotClock{base: f.slot, opened: cfg.Clock.Now()},
	}
	if err := s.prepare(&found); err != nil {
		e.metrics.unregister()
		return nil, err
	}
	found.LSN, found.Live = s.asOf(), s.state.Live()
	e.report = found
	e.live.restore(s.state)
	e.logOpened(cfg.Clock.Now() - start)
	go e.sequence(s)
	e.live.start()
	return e, nil
}

// recovered folds what log holds.
func recovered(log Log, window int) (*fold, Opened, error) {
	f, bad, err := newest(log, window)
	if err != nil {
		return nil, Opened{}, err
	}
	found := Opened{Snapshot: f.feed.head, Bad: bad, size: f.size}
	if err := f.replay(log, nil); err != nil {
		return nil, found, errors.Join(append([]error{err}, bad...)...)
	}
	found.Created = f.sum.IsZero()
	if found.Created && len(bad) > 0 {
		return nil, found, fmt.Errorf("journal: no snapshot verifies and no records are left to fold: restore the directory whole: %w", errors.Join(bad...))
	}
	found.Sealed, found.Records = f.sealed, f.records
	if err := f.state.Check(); err != nil {
		return nil, found, fmt.Errorf("journal: the recovered state breaks an invariant: %w", err)
	}
	return f, found, nil
}

// prepare writes what has to stand in the history before the first command: a
// jump, and limits that differ.
//
// Every open jumps, not only one that found damage. So tokens rise (T7) also
// when the open before crashed between a cut and its jump, when a disk lost an
// acknowledged tail without a trace, and when somebody put an older copy of the
// directory in place.
func (s *sequencer) prepare(found *Opened) error {
	reason := "opened"
	switch {
	case found.Created:
		reason = "created"
	case found.Damage != "":
		reason = found.Damage
	case !found.Sealed:
		reason = "the last stop was not clean"
	}
	if err := s.jump(reason); err != nil {
		return err
	}
	found.First = s.next
	s.begin()
	if s.engine.cfg.Limits != s.state.Limits() {
		out := s.execute(&kernel.Command{Kind: kernel.KindConfigure, Limits: s.engine.cfg.Limits})
		if err := out.Err(&kernel.Command{Kind: kernel.KindConfigure}); err != nil {
			return err
		}
	}
	for s.state.Due(s.at.Slot) { // limits that were lowered; the law refuses grants while history is far above them
		s.execute(&kernel.Command{Kind: kernel.KindTick})
	}
	if err := s.commit(); err != nil {
		return err
	}
	s.engine.feed.publish(nil, s.asOf())
	return nil
}

// jump makes the LSN go on at max(last+1, unix microseconds), so that tokens
// rise even over positions that were lost.
func (s *sequencer) jump(reason string) error {
	s.begin()
	to := max(s.next, tenure.LSN(max(s.engine.cfg.Wall().UnixMicro(), 1)))
	rec := record.Record{
		Rules: kernel.Rules, Kind: record.KindJump, Shard: shard, First: to, Last: to - 1,
		Slot: uint64(s.at.Slot), Wall: s.at.Wall, Prev: s.sum,
		Body: record.AppendJump(nil, record.Jump{From: s.asOf(), Reason: reason}),
	}
	if err := s.append(&rec); err != nil {
		return err
	}
	s.engine.feed.leap(to)
	s.next = to
	return nil
}

func (e *Engine) logOpened(took time.Duration) {
	o := &e.report
	level := e.cfg.Logger.Info
	if o.Damage != "" || len(o.Bad) > 0 {
		level = e.cfg.Logger.Warn
	}
	level("journal open", "created", o.Created, "sealed", o.Sealed, "snapshot", o.Snapshot, "records", o.Records,
		"lsn", o.LSN, "live", o.Live, "damage", o.Damage, "first", o.First, "bad_snapshots", len(o.Bad), "took", took)
}

// Opened says what the open found.
func (e *Engine) Opened() Opened { return e.report }

// sequence runs the sequencer until the engine closes, then ends the log.
func (e *Engine) sequence(s *sequencer) {
	defer close(e.sequenced)
	s.run()
	e.snapshots.stop()
	e.closed = errors.Join(s.seal(), e.log.Close())
}

// Stats says what the engine holds.
type Stats struct {
	LSN      tenure.LSN
	Live     int // live leases
	Ended    int // kept as history
	Waiters  int
	Floor    tenure.LSN // the highest retired grant
	Digest   string     // of the whole history (T8)
	Limits   tenure.Limits
	Snapshot tenure.LSN // the newest, 0 if none
}

func (s *sequencer) stats(r *request) {
	r.stats = Stats{
		LSN: s.asOf(), Live: s.state.Live(), Ended: s.state.Ended(), Waiters: s.waiting.callers, Floor: s.state.Floor(),
		Digest: s.state.Digest().String(), Limits: s.state.Limits(), Snapshot: s.engine.snapshots.newestLSN(),
	}
	s.answers = append(s.answers, r)
}

// Stats reads what the engine holds, as of one position.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	r := newRequest(askStats)
	if err := e.ask(ctx, r); err != nil {
		return Stats{}, err
	}
	return r.stats, r.err
}
