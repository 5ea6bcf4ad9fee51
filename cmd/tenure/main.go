// Command tenure serves leases, runs programs under them, and looks after
// both. See docs/OPERATIONS.md, or tenure --help.
package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/keeper"
)

func main() {
	if keeper.IsKeeper(os.Args) {
		os.Exit(keeper.Main(os.Args))
	}
	ctx := untilStopped(context.Background())
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(m.Run(ctx, os.Args[1:]))
}

// Main is the program, for tests in their own process, too.
type Main struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	command []string // what stands behind --
}

// Run parses args and does what they say. It returns the exit code; ctx ending
// means that the program is asked to stop, with [stopped] as its cause if that
// was by a signal.
func (m *Main) Run(ctx context.Context, args []string) int {
	var flags commands
	exit := -1
	parser, err := kong.New(&flags,
		kong.Name("tenure"),
		kong.Description("Exclusive, fenced leases on named resources: locks, leaders, failover."),
		kong.Writers(m.Stdout, m.Stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"holder_help": "Who is to own the lease (TENURE_HOLDER)."},
		kong.Bind(m, &flags.Globals),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		panic("tenure: the command line's own description is wrong: " + err.Error())
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if i := slices.Index(args, "--"); i >= 0 { // flags of ours stand before it, whatever comes behind it is not ours
		args, m.command = args[:i], args[i+1:]
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help
		return exit
	}
	if err == nil {
		err = m.suits(&flags.Globals, parsed.Command())
	}
	if err != nil {
		flags.JSON = flags.JSON || slices.Contains(args, "--json")
		return m.report(&flags.Globals, usage(err.Error()))
	}
	flags.fill(m)
	return m.report(&flags.Globals, parsed.Run())
}

// suits refuses what the command would ignore.
func (m *Main) suits(g *Globals, command string) error {
	name, _, _ := strings.Cut(command, " ")
	if m.command != nil && name != "run" {
		return usage("only tenure run takes a command behind --")
	}
	if slices.Contains([]string{"serve", "verify", "journal", "kv", "version"}, name) && (g.Engine != "" || g.CA != "" || g.TokenFile != "") {
		return usage("tenure " + name + " uses no engine: leave out --engine, --ca and --token-file")
	}
	return nil
}

// usage is a command line that cannot be meant.
func usage(why string) error {
	return &tenure.Error{Code: tenure.ErrInvalid, Field: "usage", Why: strings.TrimPrefix(why, "tenure: invalid usage: ")}
}

// commands is the command line.
type commands struct {
	Globals

	Serve   serveCmd   `cmd:"" help:"Serve leases from a durable journal."`
	Run     runCmd     `cmd:"" help:"Run a command while holding a lease."`
	Lease   leaseCmd   `cmd:"" help:"Acquire, renew, release, inspect and revoke leases."`
	Status  statusCmd  `cmd:"" help:"Show what the engine says of itself."`
	Doctor  doctorCmd  `cmd:"" help:"Check what an engine stands on: disk, directory, clock, NATS."`
	Verify  verifyCmd  `cmd:"" help:"Replay a data directory offline and check every invariant on the way."`
	Journal journalCmd `cmd:"" help:"Look into a data directory."`
	KV      kvCmd      `cmd:"" name:"kv" help:"Leases in a NATS bucket."`
	Bench   benchCmd   `cmd:"" help:"Measure an engine."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

// Globals are the flags of every command.
type Globals struct {
	Engine    string `placeholder:"URL" help:"Where leases are kept: http://HOST:PORT, wal:DIR, nats://HOST:PORT/BUCKET (TENURE_ENGINE)."`
	JSON      bool   `name:"json" help:"Print JSON with the API's field names, one object a line."`
	CA        string `name:"ca" type:"existingfile" placeholder:"FILE" help:"Certificates to trust for https (PEM)."`
	TokenFile string `type:"existingfile" placeholder:"FILE" help:"File with the bearer token for the server."`
}

// fill takes from the environment what no flag says.
func (g *Globals) fill(m *Main) {
	if g.Engine == "" {
		g.Engine = m.Getenv("TENURE_ENGINE")
	}
}
