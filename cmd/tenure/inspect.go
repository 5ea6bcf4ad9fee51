package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/journal"
)

// verifyCmd replays a directory.
type verifyCmd struct {
	Dir string `arg:"" type:"existingdir" help:"The data directory; no server may be running on it."`
}

// Run verifies.
func (c *verifyCmd) Run(m *Main, g *Globals) error {
	progress := func(v journal.Verified) {}
	if terminal(m.Stderr) && !g.JSON {
		progress = func(v journal.Verified) { fmt.Fprintf(m.Stderr, "\r%d records, LSN %d", v.Records, v.To) }
		defer fmt.Fprintln(m.Stderr)
	}
	v, err := journal.Verify(c.Dir, progress)
	if err != nil {
		return err
	}
	if g.JSON {
		return m.printJSON(v)
	}
	fmt.Fprintf(m.Stdout, "verified %d records with %d commands, LSN %d to %d, and %d snapshots; %d live leases; digest %s\n",
		v.Records, v.Commands, v.From, v.To, v.Snapshots, v.Live, v.Digest)
	switch {
	case v.Cut != "":
		fmt.Fprintf(m.Stdout, "the last stop was not clean: an open will cut %s\n", v.Cut)
	case v.Sealed:
		fmt.Fprintln(m.Stdout, "the last stop was clean")
	default:
		fmt.Fprintln(m.Stdout, "the last stop was not clean: whether the last record is the last one written cannot be told")
	}
	return nil
}

// journalCmd looks into a directory.
type journalCmd struct {
	Dump dumpCmd `cmd:"" help:"Print every command that is kept, one JSON object a line."`
}

type dumpCmd struct {
	Dir string `arg:"" type:"existingdir" help:"The data directory; no server may be running on it."`
}

// Run dumps.
func (c *dumpCmd) Run(m *Main) error {
	out := json.NewEncoder(m.Stdout)
	out.SetEscapeHTML(false)
	return journal.Dump(c.Dir, func(d journal.Dumped) error { return out.Encode(d) })
}

// statusCmd shows what the engine says of itself.
type statusCmd struct{}

// status is what every engine can say.
type status struct {
	Engine string         `json:"engine"`
	Ready  bool           `json:"ready"`
	Why    string         `json:"why,omitempty"`
	Server string         `json:"version,omitempty"`
	LSN    tenure.LSN     `json:"lsn,omitempty,string"`
	Leases map[string]int `json:"leases,omitempty"`
	Caps   caps           `json:"caps"`
}

// caps has the API's field names.
type caps struct {
	Bundles    bool `json:"bundles"`
	Reserve    bool `json:"reserve"`
	History    bool `json:"history"`
	MinLSN     bool `json:"min_lsn"`
	Fair       bool `json:"fair"`
	EveryEvent bool `json:"every_event"`
	JudgesLate bool `json:"judges_late"`
}

// Run asks, and prints.
func (c *statusCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		s := status{Engine: g.shown(), Ready: true, Caps: caps(eng.Caps())}
		switch e := eng.(type) {
		case *journal.Engine:
			s.LSN, s.Leases = e.LSN(), byName(e.Counts())
		case *client.Client:
			said, err := e.Status(ctx)
			if err != nil {
				return err
			}
			s.Ready, s.Why, s.Server, s.LSN, s.Leases = said.Ready, said.Why, said.Version, said.LSN, byName(said.Leases)
		}
		if g.JSON {
			return errors.Join(m.printJSON(s), s.unready())
		}
		s.print(m.Stdout)
		return s.unready()
	})
}

// print shows it to people.
func (s *status) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "engine\t%s\nready\t%s\n", s.Engine, strings.TrimSpace(fmt.Sprint(s.Ready, " ", s.Why)))
	if s.Server != "" {
		fmt.Fprintf(w, "version\t%s\n", s.Server)
	}
	if s.LSN > 0 {
		fmt.Fprintf(w, "lsn\t%d\n", s.LSN)
	}
	for _, state := range []tenure.State{tenure.StateReserved, tenure.StateActive, tenure.StateRevoking} {
		if n, ok := s.Leases[state.String()]; ok {
			fmt.Fprintf(w, "%s\t%d\n", state, n)
		}
	}
	for _, c := range []struct {
		has  bool
		what string
	}{
		{s.Caps.Bundles, "bundles"}, {s.Caps.Reserve, "reservations"}, {s.Caps.History, "history"}, {s.Caps.MinLSN, "reads at a position"},
		{s.Caps.Fair, "waiting in line"}, {s.Caps.EveryEvent, "every event"}, {s.Caps.JudgesLate, "judges late"},
	} {
		if c.has {
			fmt.Fprintf(w, "offers\t%s\n", c.what)
		}
	}
}

func (s *status) unready() error {
	if s.Ready {
		return nil
	}
	return exitCode(exitUnavailable)
}

func byName(counts map[tenure.State]int) map[string]int {
	n := make(map[string]int, len(counts))
	for s, c := range counts {
		n[s.String()] = c
	}
	return n
}

// versionCmd prints the version.
type versionCmd struct{}

// Run prints.
func (c *versionCmd) Run(m *Main, g *Globals) error {
	if g.JSON {
		return m.printJSON(map[string]string{"version": version()})
	}
	fmt.Fprintln(m.Stdout, "tenure", version())
	return nil
}

// version is the module's version as the Go tool recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// terminal reports whether w is one: long work shows progress there, and stays
// quiet in a pipe.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
