package tenure

import (
	"fmt"
	"time"
)

// Bounds of the vocabulary: the same on every engine, since names cross
// engines. Engines with a narrower alphabet escape, reversibly.
const (
	MaxNamespaceElements = 8
	MaxElementBytes      = 63
	MaxKeyBytes          = 512
	MaxResourceBytes     = MaxNamespaceElements*(MaxElementBytes+1) - 1 + 1 + MaxKeyBytes
	MaxHolderBytes       = 256
	MaxMetaBytes         = 4 << 10
	MaxReasonBytes       = 1 << 10 // a release's detail, a revocation's reason
	MaxRefsPerRenew      = 10_000
	MaxPageSize          = 1_000
)

// Defaults of a claim.
const (
	DefaultTTL      = 15 * time.Second
	MinDefaultGrace = 100 * time.Millisecond // the default grace is TTL/10, at least this
)

// Limits bound what an engine keeps and accepts (T12). They are fixed when an
// engine is opened, enforced, and, on an engine with a journal, part of its
// ordered history, so that replay sees what the live engine saw.
type Limits struct {
	Leases     int           // live leases at most
	Bundle     int           // resources in one lease
	History    int           // ended leases kept at most, the oldest retired first
	HistoryAge time.Duration // ended leases are kept this long at most

	MinTTL, MaxTTL         time.Duration
	MaxGrace               time.Duration
	MinReserve, MaxReserve time.Duration

	Waiters            int // waiting claims, over the whole engine
	WaitersPerResource int // waiting claims that want one resource
}

// DefaultLimits are the limits of an engine that was not told otherwise.
func DefaultLimits() Limits {
	return Limits{
		Leases:             1_000_000,
		Bundle:             64,
		History:            1_000_000,
		HistoryAge:         24 * time.Hour,
		MinTTL:             100 * time.Millisecond,
		MaxTTL:             24 * time.Hour,
		MaxGrace:           24 * time.Hour,
		MinReserve:         100 * time.Millisecond,
		MaxReserve:         time.Hour,
		Waiters:            100_000,
		WaitersPerResource: 10_000,
	}
}

// The widest limits that an engine accepts.
const (
	maxLeases   = 100_000_000
	maxBundle   = 128                 // so that one hand-over of bundles fits one record
	maxDuration = 30 * 24 * time.Hour // fits the wire's 32-bit milliseconds
)

// Validate reports, as an [*Error] with code [ErrInvalid] that names the
// field, the first limit that is out of range or contradicts another.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name           string
		v, least, most int64
	}{
		{"leases", int64(l.Leases), 1, maxLeases},
		{"bundle", int64(l.Bundle), 1, maxBundle},
		{"history", int64(l.History), 0, maxLeases},
		{"history_age", int64(l.HistoryAge), 0, int64(10 * 365 * 24 * time.Hour)},
		{"min_ttl", int64(l.MinTTL), int64(10 * time.Millisecond), int64(l.MaxTTL)},
		{"max_ttl", int64(l.MaxTTL), int64(l.MinTTL), int64(maxDuration)},
		{"max_grace", int64(l.MaxGrace), 0, int64(maxDuration)},
		{"min_reserve", int64(l.MinReserve), int64(10 * time.Millisecond), int64(l.MaxReserve)},
		{"max_reserve", int64(l.MaxReserve), int64(l.MinReserve), int64(maxDuration)},
		{"waiters", int64(l.Waiters), 0, maxLeases},
		{"waiters_per_resource", int64(l.WaitersPerResource), 0, int64(l.Waiters)},
	} {
		if f.v < f.least || f.v > f.most {
			return invalid("limits."+f.name, "", fmt.Sprintf("%d is out of range, %d to %d are allowed", f.v, f.least, f.most))
		}
	}
	return nil
}

// LongestSilence is the longest time for which a holder that fell silent may
// still believe, or its resource stay unusable, under these limits: the
// longest TTL and the longest grace together.
func (l Limits) LongestSilence() time.Duration { return l.MaxTTL + l.MaxGrace }
