package enginetest_test

import (
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/kv"
)

// What kv claims is less; in that it agrees with the law. The numbered cases
// run on it, over memory and over NATS, in its own room.
//
// proves: T8
func TestHistoriesOfKV(t *testing.T) {
	enginetest.HistoriesInBubble(t, func(t *testing.T, _ tenure.Limits) enginetest.Subject {
		store := kv.Memory()
		open := func() tenure.Engine {
			e, err := kv.New(store, kv.Config{Clock: clock.Monotonic()})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return enginetest.Subject{Engine: open(), Peer: open(), Restart: open}
	})
}
