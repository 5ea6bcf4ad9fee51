package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
	"github.com/tenurehq/tenure/kernel"
)

// Dumped is one line of a dump: a record, or one command of it.
type Dumped struct {
	LSN     tenure.LSN     `json:"lsn,string"`
	Slot    uint64         `json:"slot"`
	At      time.Time      `json:"at"`
	Kind    string         `json:"kind"` // acquire …, or jump, seal
	Command *DumpedCommand `json:"command,omitempty"`
	Reason  string         `json:"reason,omitempty"` // of a jump
	Sum     string         `json:"sum,omitempty"`    // of the record, with its first line
}

// DumpedCommand is what a command says, with the API's field names where the
// API has them.
type DumpedCommand struct {
	Resources    []tenure.Resource `json:"resources,omitempty"`
	Holder       tenure.Holder     `json:"holder,omitempty"`
	TTL          uint32            `json:"ttl_ms,omitempty"`
	NoTTL        bool              `json:"no_ttl,omitempty"`
	Grace        uint32            `json:"grace_ms,omitempty"`
	NoGrace      bool              `json:"no_grace,omitempty"`
	Reserve      uint32            `json:"reserve_ms,omitempty"`
	Meta         []byte            `json:"meta,omitempty"` // base64
	Operation    string            `json:"operation,omitempty"`
	LeaseID      string            `json:"lease_id,omitempty"`
	Token        string            `json:"token,omitempty"` // names lease and epoch of a holder's command, and of a lapse
	Result       *DumpedResult     `json:"result,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	HolderIsDead bool              `json:"holder_is_dead,omitempty"`
	Deadline     uint64            `json:"deadline_slot,omitempty"`
	Limits       map[string]int64  `json:"limits,omitempty"`
}

// DumpedResult is how a tenure ended.
type DumpedResult struct {
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

// Dump yields, for people and scripts, what the records of the journal in dir
// say, offline and without writing. Records behind the oldest snapshot are all
// there are.
func Dump(dir string, yield func(Dumped) error) error {
	log, _, err := wal.Open(wal.OS{}, dir, wal.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	for rec, failed := range log.Records(0) {
		if failed == nil {
			failed = dumpRecord(&rec, yield)
		}
		if failed != nil {
			err = failed
			break
		}
	}
	return errors.Join(err, log.Close())
}

func dumpRecord(rec *record.Record, yield func(Dumped) error) error {
	line := Dumped{LSN: rec.First, Slot: rec.Slot, At: time.UnixMilli(rec.Wall).UTC(), Kind: rec.Kind.String(), Sum: hex.EncodeToString(rec.Sum[:])}
	switch rec.Kind {
	case record.KindJump:
		jump, err := record.DecodeJump(rec.Body)
		if err != nil {
			return err
		}
		line.Reason = jump.Reason
		return yield(line)
	case record.KindCommands:
		for body := rec.Body; len(body) > 0; line.LSN++ {
			cmd, rest, err := kernel.DecodeCommand(body)
			if err != nil {
				return fmt.Errorf("journal: command %d: %w", line.LSN, err)
			}
			body = rest
			line.Kind, line.Command = cmd.Kind.String(), dumpedCommand(&cmd)
			if err := yield(line); err != nil {
				return err
			}
			line.Sum = ""
		}
		return nil
	}
	return yield(line)
}

// dumpedCommand takes what the command's kind reads.
func dumpedCommand(c *kernel.Command) *DumpedCommand {
	d := &DumpedCommand{Holder: c.Holder, Reason: c.Reason, HolderIsDead: c.HolderIsDead, Deadline: uint64(c.Deadline)}
	switch c.Kind {
	case kernel.KindAcquire:
		d.Resources, d.Meta = c.Resources, c.Meta
		d.TTL, d.NoTTL = c.TTL, c.TTL == 0
		d.Grace, d.NoGrace = c.Grace, c.Grace == 0
		d.Reserve, d.Operation = c.Reserve, tenure.Op{ID: c.Op, Seen: c.Seen}.String()
	case kernel.KindConfigure:
		d.Limits = dumpedLimits(&c.Limits)
	case kernel.KindActivate, kernel.KindRelease, kernel.KindLapse:
		d.Token = tenure.Token{Lease: c.Lease, Epoch: c.Epoch}.String()
	case kernel.KindRevoke, kernel.KindReclaim, kernel.KindExpire:
		d.LeaseID = c.Lease.String()
	}
	if c.Kind == kernel.KindRelease {
		d.Result = &DumpedResult{Outcome: c.Result.Outcome.String(), Detail: c.Result.Detail}
	}
	return d
}

func dumpedLimits(l *tenure.Limits) map[string]int64 {
	return map[string]int64{
		"leases": int64(l.Leases), "bundle": int64(l.Bundle), "history": int64(l.History), "history_age_ms": l.HistoryAge.Milliseconds(),
		"min_ttl_ms": l.MinTTL.Milliseconds(), "max_ttl_ms": l.MaxTTL.Milliseconds(), "max_grace_ms": l.MaxGrace.Milliseconds(),
		"min_reserve_ms": l.MinReserve.Milliseconds(), "max_reserve_ms": l.MaxReserve.Milliseconds(),
		"waiters": int64(l.Waiters), "waiters_per_resource": int64(l.WaitersPerResource),
	}
}
