package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/keeper"
)

// runCmd runs a command while a lease is held: it is dead before anyone else
// can be granted the lease.
type runCmd struct {
	TTL    ttlFlag   `name:"ttl" default:"15s" help:"How long this program may be cut off before the command is ended, or none."`
	Grace  graceFlag `default:"0s" help:"How long the resource stays unusable after a loss: 0 = a tenth of the TTL, or none."`
	NoWait bool      `short:"n" help:"Refuse if the lease is held."`
	Wait   *waitFlag `placeholder:"forever" help:"How long to wait for a live holder, or forever."`
	Holder string    `help:"${holder_help} Default: the host's name and a random suffix."`

	Resource []string `arg:"" optional:"" name:"resource... -- command" help:"What to own, then --, then the command to run."`
}

// Run waits for the lease, runs the command, and releases.
func (c *runCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	if len(m.command) == 0 || len(c.Resource) == 0 {
		return usage("write the resources, then --, then the command: tenure run jobs/nightly -- ./nightly.sh")
	}
	if _, err := exec.LookPath(m.command[0]); err != nil { // before anybody waits for it
		var lookup *exec.Error
		if errors.As(err, &lookup) {
			err = lookup.Err
		}
		return &keeper.StartError{Name: m.command[0], Err: err}
	}
	resources, err := resourceNames(c.Resource)
	if err != nil {
		return err
	}
	wait := tenure.WaitForever
	switch {
	case c.NoWait && c.Wait != nil:
		return usage("--no-wait and --wait contradict each other: leave one of them out")
	case c.NoWait:
		wait = 0
	case c.Wait != nil:
		wait = time.Duration(*c.Wait)
	}
	claim := tenure.Claim{
		Resources: resources, Holder: m.holderOr(c.Holder, tenure.DefaultHolder),
		TTL: time.Duration(c.TTL), Grace: time.Duration(c.Grace), Wait: wait,
	}
	return m.withEngine(ctx, g, func(eng tenure.Engine) error {
		r := &runner{main: m, engine: eng, claim: claim, command: m.command, clock: clock.Boot(), renewed: make(chan struct{}, 1)}
		return r.run(ctx)
	})
}

// runner is one tenure run.
type runner struct {
	main    *Main
	engine  tenure.Engine
	claim   tenure.Claim
	command []string
	clock   clock.Clock
	hold    *hold.Hold
	renewed chan struct{} // a renewal was answered: the deadlines move on
}

func (r *runner) run(ctx context.Context) error {
	// From here on what ends the wait is kept for the command, too: a signal that
	// comes in the moment of the grant is not lost between the two.
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err := r.acquire(ctx); err != nil {
		return err
	}
	notify(signals, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if ctx.Err() != nil { // asked to stop in the moment of the grant: nothing runs yet
		r.released(r.hold.Release())
		return context.Cause(ctx)
	}
	term, kill := r.deadlines()
	child, err := keeper.Start(context.WithoutCancel(ctx), keeper.Command{
		Args: r.command, Env: r.environment(), Stdin: r.main.Stdin, Stdout: file(r.main.Stdout), Stderr: file(r.main.Stderr),
	}, term, kill)
	switch {
	case errors.Is(err, keeper.ErrPast):
		return r.lost("its time was over before the command could be started", r.hold.Release())
	case err != nil:
		r.released(r.hold.Fail(err))
		return err
	}
	r.guard(child, signals)
	exit, err := child.Wait()
	if err != nil {
		r.released(r.hold.Fail(err))
		return err
	}
	return r.finish(exit)
}

// acquire takes the lease and, if that takes a while, says who has it.
func (r *runner) acquire(ctx context.Context) (err error) {
	if r.claim.Wait > 0 || r.engine.Caps().JudgesLate {
		telling, stop := context.WithCancel(ctx)
		defer stop()
		go r.tellHolder(telling)
	}
	// Being asked to stop ends the wait, but not the hold: the command is asked
	// to stop then, and keeps its lease until it has.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	asking, cancel := bounded(ctx, r.engine, r.claim.Wait)
	defer cancel()
	unlink := context.AfterFunc(asking, func() { end(context.Cause(asking)) })
	defer unlink()
	r.hold, err = hold.Acquire(life, r.engine, r.claim, hold.OnRenew(func(*hold.Hold) {
		select {
		case r.renewed <- struct{}{}:
		default:
		}
	}))
	return err
}

// tellHolder says for whom the program waits, after a moment in which most
// leases are granted.
func (r *runner) tellHolder(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(300 * time.Millisecond):
	}
	for _, resource := range r.claim.Resources {
		l, err := r.engine.Lookup(ctx, tenure.Query{Resource: resource})
		if err == nil && ctx.Err() == nil {
			fmt.Fprintf(r.main.Stderr, "tenure: waiting for %s, lease %v of %s (%s)\n", resource, l.ID, l.Holder, l.State)
			return
		}
	}
}

// deadlines are when the command gets SIGTERM, the end of our belief in the
// lease, and when SIGKILL: half a margin later, well before the end of the TTL,
// after which the engine may give the lease to somebody else.
func (r *runner) deadlines() (term, kill time.Duration) {
	ttl := r.hold.Lease().TTL
	if ttl == tenure.NoTTL {
		return never - farewell, never // what lies between is the time to stop in an orderly way
	}
	term = r.clock.Now() + r.hold.Remaining()
	return term, term + hold.DefaultMargin(ttl)/2
}

const never = 1<<62 - 1

// environment is this program's, and what names the lease; in place of what
// names an outer one, since of two entries each reader takes the one it likes.
func (r *runner) environment() []string {
	l := r.hold.Lease()
	ours := []string{"TENURE_TOKEN=" + l.Token.String(), "TENURE_LEASE_ID=" + l.ID.String(), "TENURE_RESOURCES=" + joined(l.Resources, "\n")}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(ours, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(env, ours...)
}

// farewell is how long the command may take to stop after SIGTERM when its
// lease was withdrawn; less if its kill deadline comes first.
const farewell = 10 * time.Second

// guard moves the deadlines on with every renewal, forwards signals, and stops
// the command when the lease is lost, until the command is dead.
func (r *runner) guard(child *keeper.Child, signals <-chan os.Signal) {
	lost := r.hold.Done()
	for {
		select {
		case <-child.Done():
			return
		case s := <-signals:
			_ = child.Signal(s) // one that is already dead needs none
		case <-r.renewed:
			if r.hold.Err() == nil {
				_ = child.Extend(r.deadlines()) // refused only if it is ending
			}
		case <-lost:
			lost = nil
			child.Stop(farewell)
			said := fmt.Sprintf("tenure: the lease is lost, the command is being stopped: %v\n", r.hold.Err())
			go io.WriteString(r.main.Stderr, said) // a pipe that nobody reads holds up nothing here
		}
	}
}

// finish releases, now that the command is dead, and passes its exit code on.
func (r *runner) finish(exit keeper.Exit) error {
	var err error
	if exit.Code == 0 {
		err = r.hold.Release()
	} else {
		err = r.hold.Fail(errors.New(exit.String()))
	}
	switch {
	case exit.Cause != keeper.Itself:
		return r.lost("the command was ended with it: "+exit.String(), err)
	case errors.Is(err, tenure.ErrLost):
		fmt.Fprintf(r.main.Stderr, "tenure: the lease was lost while the command came to its end: %v\n", err)
	default:
		r.released(err)
	}
	if exit.Code != 0 {
		return exitCode(exit.Code)
	}
	return nil
}

func (r *runner) lost(why string, cause error) error {
	return &tenure.Error{Code: tenure.ErrLost, Resource: r.claim.Resources[0], Lease: r.hold.Lease().ID, Cause: cause, Why: why}
}

// released says that a lease was not, if so.
func (r *runner) released(err error) {
	if err == nil {
		return
	}
	then := "it will lapse"
	if r.hold.Lease().TTL == tenure.NoTTL {
		then = "it stays until it is revoked and reclaimed"
	}
	fmt.Fprintf(r.main.Stderr, "tenure: the lease was not released, %s: %v\n", then, err)
}

// file is the file behind a stream, for the child to inherit.
func file(w any) *os.File {
	f, _ := w.(*os.File)
	return f
}
