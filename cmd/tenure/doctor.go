package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/journal/wal"
)

// doctorCmd checks what an engine stands on.
type doctorCmd struct {
	Data string `placeholder:"./tenure-data" type:"path" help:"Without an engine: data directory to check, or where one is planned."`
}

// finding is one thing that was looked at.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// Run looks at everything and says what it found. It fails if something is
// wrong.
func (c *doctorCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	if c.Data != "" && g.Engine != "" {
		return usage("--data is for a directory that no engine is named for: leave out --engine (or TENURE_ENGINE), or --data")
	}
	found := []finding{checkClock()}
	switch kind, _, _ := strings.Cut(g.Engine, ":"); kind {
	case "", "wal":
		found = append(found, checkDirectory(c.dir(g)), checkSync(c.dir(g)), checkSpace(c.dir(g)))
	case "nats":
		found = append(found, checkBucket(ctx, g.Engine), m.checkEngine(ctx, g))
	default:
		found = append(found, m.checkEngine(ctx, g))
	}
	bad := false
	for _, f := range found {
		bad = bad || !f.OK
		if g.JSON {
			if err := m.printJSON(f); err != nil {
				return err
			}
			continue
		}
		mark := "ok  "
		if !f.OK {
			mark = "BAD "
		}
		fmt.Fprintf(m.Stdout, "%s%-10s %s\n", mark, f.Check, f.Found)
		if f.Do != "" {
			fmt.Fprintf(m.Stdout, "    %-10s → %s\n", "", f.Do)
		}
	}
	if bad {
		return exitCode(exitOther)
	}
	return nil
}

func (c *doctorCmd) dir(g *Globals) string {
	if dir, ok := strings.CutPrefix(g.Engine, "wal:"); ok {
		return dir
	}
	return cmp.Or(c.Data, "./tenure-data")
}

// checkClock looks at the clocks that leases stand on: one that counts
// suspend, and a wall clock near the present, since a new store's positions
// begin at it.
func checkClock() finding {
	f := finding{Check: "clock", OK: true}
	before := clock.Boot().Now()
	if after := clock.Boot().Now(); after < before {
		return finding{Check: "clock", Found: "the clock that counts suspend went back", Do: "do not run leases on this machine"}
	}
	wall := time.Now()
	f.Found = fmt.Sprintf("wall clock %s; time since boot %v", wall.UTC().Format(time.RFC3339), before.Round(time.Second))
	if wall.Year() < 2025 {
		f.OK, f.Do = false, "set the wall clock: a store that is created now would begin below one that was created before, and its tokens with it"
	}
	return f
}

// checkDirectory opens the directory for reading, as verify does.
func checkDirectory(dir string) finding {
	f := finding{Check: "directory", OK: true, Found: dir}
	if !exists(dir) {
		f.Found += " is not there; serve creates it"
		return f
	}
	log, report, err := wal.Open(wal.OS{}, dir, wal.Options{ReadOnly: true})
	var inUse *wal.InUse
	switch {
	case errors.As(err, &inUse):
		f.Found = "in use, as a running server's directory is: " + err.Error()
		return f
	case err != nil:
		return finding{Check: "directory", Found: err.Error(), Do: "see docs/OPERATIONS.md"}
	}
	f.Found += ": every record verifies"
	if report.Cut {
		f.Found += fmt.Sprintf("; an open will cut %d bytes behind offset %d of %s", report.CutBytes, report.CutOffset, report.CutFile)
	}
	if err := log.Close(); err != nil {
		f.OK, f.Found = false, err.Error()
	}
	return f
}

const (
	syncs     = 200
	slowSync  = 20 * time.Millisecond
	syncBytes = 4096
)

// checkSync measures what a grant waits for: a small write made durable.
func checkSync(dir string) finding {
	f := finding{Check: "sync"}
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	took, err := measureSync(dir)
	if err != nil {
		f.Found, f.Do = err.Error(), "the directory has to be writable by the user that serves"
		return f
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	f.OK = p99 < slowSync
	f.Found = fmt.Sprintf("%d writes of %d bytes in %s: p50 %v, p99 %v", syncs, syncBytes, dir, p50.Round(time.Microsecond), p99.Round(time.Microsecond))
	switch {
	case !f.OK:
		f.Do = "every grant waits for this: use a local disk with power-loss protection"
	case p50 < 5*time.Microsecond:
		f.Found += "; too fast for a disk: a memory file system, or syncs are ignored"
	}
	return f
}

func measureSync(dir string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".tenure-doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, syncBytes)
	for i := range syncs {
		start := time.Now()
		if _, err := file.WriteAt(block, int64(i*syncBytes)); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// checkEngine asks an engine that lives elsewhere.
func (m *Main) checkEngine(ctx context.Context, g *Globals) finding {
	f := finding{Check: "engine"}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	start := time.Now()
	err := m.withEngine(ctx, g, func(eng tenure.Engine) error {
		_, err := eng.Lookup(ctx, tenure.Query{Resource: "tenure/doctor"})
		if errors.Is(err, tenure.ErrNotFound) {
			err = nil
		}
		return err
	})
	if err != nil {
		f.Found, f.Do = err.Error(), "see docs/OPERATIONS.md"
		return f
	}
	f.OK, f.Found = true, fmt.Sprintf("%s answers; connected and read in %v", g.shown(), time.Since(start).Round(time.Microsecond))
	return f
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
