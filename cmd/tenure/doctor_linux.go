package main

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const leastSpace = 1 << 30 // a few segments and two snapshots

// checkSpace looks at the room that is left for the journal.
func checkSpace(dir string) finding {
	f := finding{Check: "space"}
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		f.Found = fmt.Sprintf("%s: %v", dir, err)
		return f
	}
	free := uint64(s.Bavail) * uint64(s.Bsize)
	f.OK, f.Found = free >= leastSpace, fmt.Sprintf("%.1f GiB free in %s", float64(free)/(1<<30), dir)
	if !f.OK {
		f.Do = "a journal that cannot be written halts its engine: make room"
	}
	return f
}
