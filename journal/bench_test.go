package journal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
)

// BenchmarkCycles measures durable acquire and release cycles (fdatasync
// before each answer) by that many callers on resources of their own.
func BenchmarkCycles(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			e, err := Open(b.TempDir(), Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			ctx := context.Background()
			b.SetParallelism((callers + 1) / 2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				op := tenure.NewOp(0)
				name := fmt.Sprintf("bench/%x", op.ID[:8])
				for pb.Next() {
					l, err := e.Acquire(ctx, tenure.Claim{Resources: tenure.On(name).Resources, Holder: "bench", TTL: time.Minute})
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := e.Do(ctx, tenure.Release{Ref: l.Ref, Holder: "bench"}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
		})
	}
}
