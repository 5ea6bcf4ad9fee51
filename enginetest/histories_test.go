package enginetest_test

import (
	"testing"

	"github.com/tenurehq/tenure/enginetest"
)

// proves: T8, T10
func TestHistoriesOfTheJournalInMemory(t *testing.T) {
	enginetest.HistoriesInBubble(t, memory(""))
}

// proves: T8, T11
func TestHistoriesOfTheJournalOnDisk(t *testing.T) {
	enginetest.HistoriesInBubble(t, disk)
}
