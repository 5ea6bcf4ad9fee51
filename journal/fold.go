package journal

import (
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/kernel"
)

// fold is a history applied: what recovery, snapshots, verification and the
// live engine's start have in common.
type fold struct {
	state *kernel.State
	feed  *feed      // the events at the history's end; its head is the last LSN
	sum   record.Sum // the last record's
	slot  kernel.Slot

	size    int64 // of the snapshot that it was loaded from
	sealed  bool  // the last record is a seal
	records int   // applied since the fold was made or loaded
	bytes   int64 // of them

	// inspect, if set, sees each command with its outcome.
	inspect func(*record.Record, kernel.At, *kernel.Command, *kernel.Outcome) error
}

// genesis are the limits before a history's first command, which sets others:
// frozen, so that no default of a program ever reaches an outcome (T8).
var genesis = tenure.Limits{
	Leases: 1, Bundle: 1, MinTTL: time.Second, MaxTTL: time.Second, MinReserve: time.Second, MaxReserve: time.Second,
}

// newFold begins with nothing.
func newFold(window int) *fold {
	return &fold{state: kernel.New(shard, genesis), feed: newFeed(window)}
}

// apply folds one record. An error means that the record cannot follow, or
// that the law did not repeat itself.
func (f *fold) apply(rec *record.Record) error {
	if rec.Rules > kernel.Rules {
		return fmt.Errorf("it was written under law version %d, this program knows up to %d: use a newer program", rec.Rules, kernel.Rules)
	}
	if rec.Prev != f.sum {
		return fmt.Errorf("it follows record %x, but %x is the last one here: records are missing between them", rec.Prev, f.sum)
	}
	if kernel.Slot(rec.Slot) < f.slot {
		return fmt.Errorf("its slot %d is before %d: time never goes back in a journal", rec.Slot, f.slot)
	}
	switch rec.Kind {
	case record.KindCommands:
		if err := f.commands(rec); err != nil {
			return err
		}
	case record.KindJump:
		if rec.First <= f.feed.head {
			return fmt.Errorf("it jumps back to %d from %d", rec.First, f.feed.head)
		}
		f.feed.leap(rec.First)
	case record.KindSeal:
	default:
		return fmt.Errorf("its kind %d is not known to this program: use a newer one", rec.Kind)
	}
	f.sum, f.slot = rec.Sum, kernel.Slot(rec.Slot)
	f.sealed = rec.Kind == record.KindSeal
	f.records++
	f.bytes += int64(len(rec.Body))
	return nil
}

func (f *fold) commands(rec *record.Record) error {
	if rec.First != f.feed.head+1 {
		return fmt.Errorf("it begins with LSN %d, expected %d", rec.First, f.feed.head+1)
	}
	at := kernel.At{LSN: rec.First, Slot: kernel.Slot(rec.Slot), Wall: rec.Wall}
	for body := rec.Body; len(body) > 0; at.LSN++ {
		cmd, rest, err := kernel.DecodeCommand(body)
		if err != nil {
			return fmt.Errorf("command %d: %w", at.LSN, err)
		}
		body = rest
		out, _ := f.state.Step(at, &cmd)
		if !out.Changed() {
			return fmt.Errorf("command %d (%v) had an effect when it was written, and is answered %v now: this program's law differs from its writer's", at.LSN, cmd.Kind, out.Code)
		}
		if out.Event != 0 {
			f.feed.add(effect{at: at, event: out.Event, lease: out.Lease})
		}
		if f.inspect == nil {
			continue
		}
		if err := f.inspect(rec, at, &cmd, &out); err != nil {
			return err
		}
	}
	if at.LSN != rec.Last+1 {
		return fmt.Errorf("it says that its commands end at LSN %d, they end at %d", rec.Last, at.LSN-1)
	}
	f.feed.head = rec.Last
	return nil
}

// replay applies the records behind the fold's own position, until stop says
// that the last one was reached (nil: all).
func (f *fold) replay(log Log, stop func() bool) error {
	joined := f.sum == record.Sum{}
	if stop != nil && stop() {
		return nil
	}
	for rec, err := range log.Records(f.feed.head) {
		if err != nil {
			return err
		}
		if !joined {
			// Records that use no LSN stand at the same position as the one
			// before them: find our own place by its sum.
			if joined = rec.Sum == f.sum; joined {
				continue
			}
			if joined = rec.Prev == f.sum; !joined {
				continue
			}
		}
		if err := f.apply(&rec); err != nil {
			return fmt.Errorf("journal: record at LSN %d: %w", rec.First, err)
		}
		if stop != nil && stop() {
			return nil
		}
	}
	if !joined && f.sum != (record.Sum{}) && f.records == 0 {
		// Not even the record that the snapshot ends with is there.
		return f.lost(log)
	}
	return nil
}

// lost says what is missing around a snapshot that no record connects to.
func (f *fold) lost(log Log) error {
	for rec, err := range log.Records(f.feed.head + 1) {
		if err != nil {
			return err
		}
		return fmt.Errorf("journal: records between LSN %d and %d are missing: keep the directory as it is, and restore a whole copy", f.feed.head, rec.First)
	}
	return fmt.Errorf("journal: the snapshot at LSN %d is ahead of the records, which lost acknowledged ones at their end: keep the directory as it is, check the disk, and restore a whole copy", f.feed.head)
}
