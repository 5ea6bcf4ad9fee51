package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/bench/bare"
	"github.com/tenurehq/tenure/bench/load"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/kernel"
)

func embeddedCycles(_ context.Context, r *rig, callers int) (*load.Work, error) {
	dir, err := r.directory()
	if err != nil {
		return nil, err
	}
	e, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return nil, err
	}
	return &load.Work{
		Turn:  cycle(e, callers),
		Close: func() error { return errors.Join(e.Close(), os.RemoveAll(dir)) },
	}, nil
}

// frame is what the journal puts before each batch: a segment's tag and a
// record's header.
const frame = 16 + record.HeaderBytes

// bareCycles commits the bytes of the two commands of a cycle, one after the
// other, to a log that does nothing else.
func bareCycles(_ context.Context, r *rig, callers int) (*load.Work, error) {
	dir, err := r.directory()
	if err != nil {
		return nil, err
	}
	log, err := bare.Open(dir, bare.Options{Frame: frame})
	if err != nil {
		return nil, err
	}
	type caller struct {
		acquire, release []byte
		woken            chan error
	}
	all := make([]caller, callers)
	for i := range all {
		acquire := kernel.FromClaim(claim("cycle", i).Resolve())
		acquire.Op, acquire.Seen = tenure.NewOp(0).ID, 1_000_000
		done := kernel.Command{Kind: kernel.KindRelease, Lease: tenure.LeaseID{LSN: 1_000_000}, Epoch: 1, Holder: acquire.Holder}
		all[i] = caller{kernel.AppendCommand(nil, &acquire), kernel.AppendCommand(nil, &done), make(chan error, 1)}
	}
	return &load.Work{
		Turn: func(_ context.Context, i int) (time.Duration, int, error) {
			c := &all[i]
			start := time.Now()
			err := log.Commit(c.acquire, c.woken)
			if err == nil {
				err = log.Commit(c.release, c.woken)
			}
			return time.Since(start), 1, err
		},
		Close: func() error { return errors.Join(log.Close(), os.RemoveAll(dir)) },
	}, nil
}
