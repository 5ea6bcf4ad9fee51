// Command tenure-bench measures Tenure and its peers in the same run, on the
// same disk, in turn, and prints what it found as Markdown.
//
//	go run ./cmd/tenure-bench                            everything, in about five minutes
//	go run ./cmd/tenure-bench -only cycles -rounds 1     one measure, quickly
//	go run ./cmd/tenure-bench -only cycles/256 -profile p    with profiles of Tenure in p/
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// options are the flags.
type options struct {
	dir      string
	only     *regexp.Regexp
	rounds   int
	warm     time.Duration
	duration time.Duration
	json     string
	binary   string
	profile  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tenure-bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("tenure-bench", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "./bench-data", "directory for everybody's data, on the disk to measure; its contents are replaced")
	only := flags.String("only", "", "measures whose NAME/CALLERS/SUBJECT matches this regular expression; all if empty")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each subject has its turn; medians are shown")
	flags.DurationVar(&o.warm, "warm", 400*time.Millisecond, "work that is not counted, before each measurement")
	flags.DurationVar(&o.duration, "duration", 2500*time.Millisecond, "each measurement")
	flags.StringVar(&o.json, "json", "", "file for the results with every round; default DIR/results.json")
	flags.StringVar(&o.binary, "tenure", "", "the tenure command to measure; built if empty")
	flags.StringVar(&o.profile, "profile", "", "directory for CPU and allocation profiles of Tenure's server and callers")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.duration <= 0 || o.warm < 0 {
		return o, errors.New("there are no arguments beside the flags; -rounds and -duration are positive")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return o, err
	}
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return o, err
		}
	}
	if o.json == "" {
		o.json = filepath.Join(o.dir, "results.json")
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if err := onDisk(o.dir); err != nil {
		return err
	}
	if o.profile != "" {
		// The server finds it in its environment.
		if err := errors.Join(os.MkdirAll(o.profile, 0o755), os.Setenv("TENURE_PROFILES", o.profile)); err != nil {
			return err
		}
	}
	machine := describe(o.dir) // before anything of ours makes it busy
	plan := choose(measures(), o.only)
	if len(plan) == 0 {
		return fmt.Errorf("no measure matches %q", o.only)
	}
	r, err := assemble(ctx, o, plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	report := report{Machine: machine, Rounds: o.rounds, Duration: o.duration.String(), Versions: r.versions()}
	if err := r.measure(ctx, plan, &report); err != nil {
		return err
	}
	report.conclude(plan)
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
		return err
	}
	report.print(os.Stdout, plan)
	return nil
}

// onDisk refuses a directory in memory, where a sync costs nothing.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory: give -dir a directory on a disk", dir)
	}
	return nil
}
