package kernel

import (
	"time"

	"github.com/tenurehq/tenure"
)

// limitCount is how many fields tenure.Limits has; a test holds it to that.
const limitCount = 11

// limitFields are the limits in the order of their encoding.
func limitFields(l *tenure.Limits) [limitCount]int64 {
	return [limitCount]int64{
		int64(l.Leases), int64(l.Bundle), int64(l.History), int64(l.HistoryAge),
		int64(l.MinTTL), int64(l.MaxTTL), int64(l.MaxGrace), int64(l.MinReserve), int64(l.MaxReserve),
		int64(l.Waiters), int64(l.WaitersPerResource),
	}
}

func limitsOf(f [limitCount]int64) tenure.Limits {
	return tenure.Limits{
		Leases: int(f[0]), Bundle: int(f[1]), History: int(f[2]), HistoryAge: time.Duration(f[3]),
		MinTTL: time.Duration(f[4]), MaxTTL: time.Duration(f[5]), MaxGrace: time.Duration(f[6]),
		MinReserve: time.Duration(f[7]), MaxReserve: time.Duration(f[8]),
		Waiters: int(f[9]), WaitersPerResource: int(f[10]),
	}
}
