//go:build linux || darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// message is what agent and keeper say to each other, gob-encoded, over a socket pair that nobody else has an
// end of: the other side is always the same binary. Strings in gob are bytes, so arguments and environments
// that are not UTF-8 arrive as they are. Neither side can fill the other's buffer while it is frozen: the
// agent has at most one extension unanswered.
type message struct {
	Kind       kind
	Order      *order
	Term, Kill time.Duration // readings of CLOCK_BOOTTIME
	Pid        int
	Errno      syscall.Errno
	Why        string
	Exit       Exit
}

type kind uint8

const (
	_ kind = iota

	// Agent to keeper.
	kindStart  // Order, Term, Kill
	kindExtend // Term, Kill
	kindStop   // Kill

	// Keeper to agent.
	kindStarted  // Pid
	kindPast     // the term deadline had passed: nothing started
	kindFailed   // Errno, Why: the program could not be started
	kindExtended // the extension was taken over
	kindEnding   // SIGTERM was sent
	kindExit     // Exit: the child and all its descendants are dead
)

type order struct {
	Path string
	Args []string
	Env  []string
	Dir  string
	Mark string // an environment entry that only this child's descendants have
	// The child becomes the foreground group of the terminal on stdin, and Group gets it back.
	Terminal bool
	Group    int
}

// markName is in the environment of every descendant; a daemon that lost its keeper is found by it.
const markName = "TENURE_KEEPER"

func newMark() string { return markName + "=" + rand.Text() }

// launch starts the keeper with the other end of the returned socket as its descriptor 3.
func launch(c Command, terminal bool) (*exec.Cmd, *os.File, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	k := &exec.Cmd{
		Path:       self(),
		Args:       []string{os.Args[0], argument},
		ExtraFiles: []*os.File{theirs},
		// Out of reach of what a terminal sends to the agent's group. Only a child that is to own the terminal
		// has to stay in its session.
		SysProcAttr: &syscall.SysProcAttr{Setsid: !terminal, Setpgid: terminal},
	}
	// A nil *os.File in an interface is not nil.
	if c.Stdin != nil {
		k.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		k.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		k.Stderr = c.Stderr
	}
	if err := k.Start(); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return k, ours, nil
}

func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no fork between the call and close-on-exec: a leaked end would hide the agent's death
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "agent"), nil
}

// refusal explains why a start did not happen.
func refusal(ctx context.Context, c Command, reply message, err error) error {
	switch {
	case reply.Kind == kindPast:
		return ErrPast
	case reply.Kind == kindFailed && reply.Errno != 0:
		return &StartError{Name: c.Args[0], Err: reply.Errno}
	case reply.Kind == kindFailed:
		return fmt.Errorf("keeper: cannot start %s: %s", c.Args[0], reply.Why)
	case context.Cause(ctx) == ErrPast:
		return fmt.Errorf("%w: the keeper process did not start %s in time", ErrPast, c.Args[0])
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w before it started %s: %v", ErrKeeperLost, c.Args[0], err)
	}
}

// abandon ends a keeper whose child is not known to run, and whatever it started all the same.
func abandon(k *exec.Cmd, wire *os.File, mark string) {
	wire.Close()
	_ = k.Process.Kill()
	_ = k.Wait()
	g := &group{mark: mark}
	for g.sweep() {
		<-time.After(recheck)
	}
}
