package journal

import (
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
	"github.com/tenurehq/tenure/kernel"
)

// Verified says what a verification went through.
type Verified struct {
	Records   int        `json:"records"`
	Commands  int        `json:"commands"`
	From      tenure.LSN `json:"from_lsn,string"` // the positions folded
	To        tenure.LSN `json:"to_lsn,string"`
	Snapshots int        `json:"snapshots"` // each equals the fold at its position
	Sealed    bool       `json:"sealed"`
	Cut       string     `json:"cut,omitempty"` // what an open would cut off at the end; "" if nothing
	Digest    string     `json:"digest"`
	Live      int        `json:"live"` // leases
}

// Verify folds the journal in dir again, offline and without writing, and
// checks on the way what the law promises: every record verifies and follows
// its predecessor, every command has the effect it had (T8, T9), the state is
// well formed after every thousandth record and at the end (T1 to T5), tokens of a resource only rise
// (T7), and every snapshot equals the fold at its position. progress, if not
// nil, is called now and then.
func Verify(dir string, progress func(Verified)) (Verified, error) {
	log, report, err := wal.Open(wal.OS{}, dir, wal.Options{ReadOnly: true})
	if err != nil {
		return Verified{}, err
	}
	v := &verifier{log: log, progress: progress, tokens: make(map[tenure.Resource]tenure.LSN)}
	if report.Cut {
		v.Cut = fmt.Sprintf("%d bytes behind offset %d of %s", report.CutBytes, report.CutOffset, report.CutFile)
	}
	err = v.run()
	return v.Verified, errors.Join(err, log.Close())
}

type verifier struct {
	Verified
	log      Log
	progress func(Verified)
	tokens   map[tenure.Resource]tenure.LSN // the highest granted
	kept     map[tenure.LSN]bool            // snapshots that are still to be met
}

const verifyWindow = snapshotEvents // so that a fold's events can be compared with a snapshot's

// run folds from the oldest snapshot on, and meets the newer ones on its way.
func (v *verifier) run() error {
	kept, err := v.log.Snapshots()
	if err != nil {
		return err
	}
	f := newFold(verifyWindow)
	if len(kept) > 0 {
		oldest := kept[len(kept)-1]
		if f, err = open(v.log, oldest, verifyWindow); err != nil {
			return fmt.Errorf("snapshot at LSN %d: %w", oldest, err)
		}
		if err := f.state.Check(); err != nil {
			return fmt.Errorf("snapshot at LSN %d: %w", oldest, err)
		}
		v.Snapshots = 1
	}
	v.kept = make(map[tenure.LSN]bool)
	for _, at := range kept[:max(0, len(kept)-1)] {
		v.kept[at] = true
	}
	v.From = f.feed.head
	f.state.Leases(0, func(l *kernel.Lease) bool { v.raise(l); return true })
	f.inspect = v.inspect
	var last record.Sum
	var wrong error
	err = f.replay(v.log, func() bool {
		if wrong == nil && f.sum != last {
			last = f.sum
			wrong = v.arrived(f)
		}
		return wrong != nil
	})
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	return v.finish(f)
}

// inspect sees every command with its outcome.
func (v *verifier) inspect(_ *record.Record, at kernel.At, _ *kernel.Command, out *kernel.Outcome) error {
	v.Commands++
	if out.Event != tenure.EventGranted {
		return nil
	}
	if out.Lease.ID.LSN != at.LSN {
		return fmt.Errorf("lease %v was granted at LSN %d (T9)", out.Lease.ID, at.LSN)
	}
	return v.raise(&out.Lease)
}

func (v *verifier) raise(l *kernel.Lease) error {
	for _, r := range l.Resources {
		if l.ID.LSN <= v.tokens[r] && l.State.Live() {
			return fmt.Errorf("%s was granted under %v after a token of lease %d (T7)", r, l.ID, v.tokens[r])
		}
		v.tokens[r] = max(v.tokens[r], l.ID.LSN)
	}
	return nil
}

// arrived is called when the fold stands behind a record.
func (v *verifier) arrived(f *fold) error {
	v.Records = f.records
	if v.Records%1024 == 0 || v.kept[f.feed.head] {
		if err := f.state.Check(); err != nil {
			return fmt.Errorf("after LSN %d: %w", f.feed.head, err)
		}
		if v.progress != nil {
			v.To = f.feed.head
			v.progress(v.Verified)
		}
	}
	if !v.kept[f.feed.head] {
		return nil
	}
	snap, err := open(v.log, f.feed.head, verifyWindow)
	if err != nil {
		return fmt.Errorf("snapshot at LSN %d: %w", f.feed.head, err)
	}
	if snap.sum != f.sum {
		return nil // records without LSN share the position: a later one may be meant
	}
	if snap.state.Digest() != f.state.Digest() {
		return fmt.Errorf("the snapshot at LSN %d is not what the records give (T8)", f.feed.head)
	}
	delete(v.kept, f.feed.head)
	v.Snapshots++
	return nil
}

func (v *verifier) finish(f *fold) error {
	v.To, v.Sealed, v.Digest, v.Live = f.feed.head, f.sealed, f.state.Digest().String(), f.state.Live()
	if len(v.kept) > 0 {
		return fmt.Errorf("%d snapshots stand at positions that the records do not reach", len(v.kept))
	}
	return f.state.Check()
}
