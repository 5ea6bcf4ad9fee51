package journal

import (
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
)

// Config tunes an engine. The zero value is ready to use.
type Config struct {
	// Limits bound what the engine keeps; the zero value means
	// [tenure.DefaultLimits]. Changing them over a restart is an ordered
	// command of its own; a lower limit refuses what is new and takes nothing
	// away from what is there.
	Limits tenure.Limits

	// SnapshotBytes is how much journal may be written before the next
	// snapshot is taken in the background. 0 means 64 MiB; after a snapshot
	// that was larger, its size.
	SnapshotBytes int64

	// WatchWindow is how many events are kept for watchers to resume from, at
	// least; 0 means 65,536. A watcher that falls further behind is told
	// [tenure.ErrCompacted].
	WatchWindow int

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil keeps no metrics

	Clock clock.Clock      // nil means the boot clock, which counts suspend
	Wall  func() time.Time // nil means time.Now; recorded for people, decides nothing
	Rand  io.Reader        // nil means crypto/rand; draws operations

	pause time.Duration // see liveness.Config
}

// Bounds of the sequencer (T12).
const (
	maxInbox      = 1 << 16 // requests that have arrived and are not stepped yet
	maxBatch      = 4 << 10 // requests in one turn
	maxBatchBytes = 4 << 20 // commands in one record; one command more than this is still one record
	maxPageScan   = 8 << 10 // leases visited in one turn for a listing
	maxJumps      = 64      // gaps of the LSN that watchers are told about by name
)

func (c Config) withDefaults() Config {
	if c.Limits == (tenure.Limits{}) {
		c.Limits = tenure.DefaultLimits()
	}
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = 64 << 20
	}
	if c.WatchWindow <= 0 {
		c.WatchWindow = 1 << 16
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.Boot()
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	return c
}
