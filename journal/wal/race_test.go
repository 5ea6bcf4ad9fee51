//go:build race

package wal_test

// raceEnabled makes the large tests smaller: they run in one goroutine, where
// the race detector finds nothing, and take ten times as long.
const raceEnabled = true
