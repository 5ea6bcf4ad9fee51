//go:build linux || darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

const (
	// maxSlack bounds the keeper's head start at the term deadline.
	maxSlack = 500 * time.Millisecond
	// patience is how long a keeper may take to report a child that is known to be dead.
	patience = 2 * time.Second
	// recheck is the pause between two looks at processes that were killed but are not gone yet.
	recheck = 10 * time.Millisecond
)

// Command says what to run. Args[0] is the program's name.
type Command struct {
	Path string   // the program; "" looks Args[0] up in PATH
	Args []string // at least one
	Env  []string // nil: the environment of this process
	Dir  string   // "": the directory of this process
	// What the child inherits; nil is the null device, as in os/exec.
	Stdin, Stdout, Stderr *os.File
}

// Child is a running command and its descendants, held by a keeper. Its methods may be called concurrently.
type Child struct {
	clock  clock.Clock
	keeper *exec.Cmd
	wire   *os.File
	out    *gob.Encoder // written to by watch alone
	inbox  chan message // closed when the keeper is gone
	poke   chan struct{}
	alarm  *alarm
	group  *group
	done   chan struct{}
	exit   Exit  // valid after done
	err    error // valid after done
	state  watchState

	mu         sync.Mutex // guards what follows
	term, kill time.Duration
	ending     bool // told to end, or past term: no extension counts any more
	stopping   bool // Stop was called
}

// Start runs c under a keeper that sends the child's process group SIGTERM at term and SIGKILL at kill unless
// Extend moves them; both are readings of clock.Boot. It returns once the program runs, and the program runs
// only if term was still ahead when the keeper was about to start it: otherwise ErrPast, and also if the keeper
// does not say by term that it runs. A program that cannot be started is a *StartError. ctx bounds the start
// alone; when it ends first nothing is left running, and the error is its cause.
//
// kill - term is the orderly window of every end that Stop does not begin: not only at the deadline, but also
// between SIGTERM and SIGKILL for a child whose agent died and for descendants that the child left behind. If
// both are the same they get both signals in the same moment, however far away the deadlines are.
func Start(ctx context.Context, c Command, term, kill time.Duration) (*Child, error) {
	o, err := c.order(term, kill)
	if err != nil {
		return nil, err
	}
	now := clock.Boot().Now()
	if term <= now {
		return nil, ErrPast
	}
	k, wire, err := launch(c, o.Terminal)
	if err != nil {
		return nil, fmt.Errorf("keeper: cannot start the keeper process: %w", err)
	}
	// A keeper that does not answer by term must not answer at all.
	ctx, cancel := context.WithTimeoutCause(ctx, term-now, ErrPast)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = wire.SetDeadline(time.Unix(1, 0)) })
	out, in := gob.NewEncoder(wire), gob.NewDecoder(wire)
	var reply message
	if err = out.Encode(message{Kind: kindStart, Order: o, Term: term, Kill: kill}); err == nil {
		err = in.Decode(&reply)
	}
	if !stop() || err != nil || reply.Kind != kindStarted {
		err = refusal(ctx, c, reply, err)
		abandon(k, wire, o.Mark)
		return nil, err
	}
	child := &Child{
		clock: clock.Boot(), keeper: k, wire: wire, out: out, term: term, kill: kill,
		inbox: make(chan message), poke: make(chan struct{}, 1), done: make(chan struct{}),
		group: newGroup(reply.Pid, k.Process.Pid, o, c.Stdin),
	}
	if child.alarm, err = newAlarm(); err != nil {
		abandon(k, wire, o.Mark)
		child.group.close()
		return nil, fmt.Errorf("keeper: cannot make a timer: %w", err)
	}
	child.state = watchState{sentTerm: term, sentKill: kill}
	go child.read(in)
	go child.watch()
	return child, nil
}

// Pid is the process id of the child and of its process group.
func (c *Child) Pid() int { return c.group.pid }

// Extend moves both deadlines on; one that is earlier than the present one stays. It never blocks. ErrExpired
// says that term has passed or that the child was told to end: no extension brings it back.
func (c *Child) Extend(term, kill time.Duration) error {
	if kill < term {
		return fmt.Errorf("keeper: kill deadline %v lies before term deadline %v", kill, term)
	}
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || c.clock.Now() >= c.term {
		return ErrExpired
	}
	c.term, c.kill = max(c.term, term), max(c.kill, kill)
	c.wake()
	return nil
}

// Signal sends sig to the child's whole process group, with no detour over the keeper. After the end it
// returns os.ErrProcessDone.
func (c *Child) Signal(sig os.Signal) error {
	number, ok := sig.(syscall.Signal)
	if !ok || number < 0 || number > 64 {
		return fmt.Errorf("keeper: %v is not a signal of this system", sig)
	}
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
		return c.group.signal(number)
	}
}

// Stop sends SIGTERM now and SIGKILL after grace or at the kill deadline, whichever is earlier. It does not
// wait for the end. Once the child is ending it can only bring SIGKILL forward.
func (c *Child) Stop(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	c.ending, c.stopping = true, true
	c.term, c.kill = min(c.term, now), min(c.kill, now+max(grace, 0))
	c.wake()
}

// Done is closed when the child and all its descendants are dead.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for Done and tells how the child ended. The error is ErrKeeperLost if its keeper died or froze, so
// that the child was killed from here and its own status is not known.
func (c *Child) Wait() (Exit, error) {
	<-c.done
	return c.exit, c.err
}

func (c *Child) wake() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// order resolves c into what the keeper is told, in the agent's environment and directory.
func (c Command) order(term, kill time.Duration) (*order, error) {
	if len(c.Args) == 0 {
		return nil, fmt.Errorf("keeper: no command given")
	}
	if kill < term {
		return nil, fmt.Errorf("keeper: kill deadline %v lies before term deadline %v", kill, term)
	}
	path := c.Path
	if path == "" {
		found, err := exec.LookPath(c.Args[0])
		if err != nil {
			return nil, &StartError{Name: c.Args[0], Err: lookupCause(err)}
		}
		path = found
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	if c.Dir != "" {
		if _, err := os.Stat(c.Dir); err != nil {
			return nil, &StartError{Name: c.Args[0], Err: err}
		}
	}
	mark := newMark()
	return &order{
		Path: path, Args: c.Args, Dir: c.Dir, Mark: mark,
		Env:      append(env[:len(env):len(env)], mark),
		Terminal: ownsTerminal(c.Stdin, c.Stdout),
		Group:    syscall.Getpgrp(),
	}, nil
}
