package enginetest_test

import (
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/memlog"
)

// The whole suite on an engine of your own takes one function that opens it.
// The more the subject offers, the more is asked of it.
func Example() {
	open := func(t *testing.T, limits tenure.Limits) enginetest.Subject {
		log := memlog.New() // yours goes here
		engine, err := journal.OpenLog(log, "", journal.Config{Limits: limits, Clock: clock.Monotonic()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		return enginetest.Subject{Engine: engine}
	}
	tests := map[string]func(*testing.T){
		"TestConformance": func(t *testing.T) { enginetest.RunInBubble(t, open) },
		"TestHistories":   func(t *testing.T) { enginetest.HistoriesInBubble(t, open) },
	}
	_ = tests // in your package they are test functions
	// Output:
}
