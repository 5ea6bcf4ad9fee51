//go:build linux || darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

const (
	// argument is the hidden command that makes a process of this binary a keeper.
	argument = "keeper"
	socket   = 3 // the descriptor of the keeper's end

	// overslept is how late a keeper must be at its term deadline to conclude that it was frozen, and so to read
	// what arrived meanwhile before it acts; catchUp is how long it reads.
	overslept = 50 * time.Millisecond
	catchUp   = 20 * time.Millisecond
	// glance is the pause between two looks at a family that is ending, beside those that SIGCHLD asks for.
	glance = 100 * time.Millisecond
)

// IsKeeper tells whether a process with these arguments (os.Args, the program's name included) was started to
// be a keeper and has to call Main.
func IsKeeper(args []string) bool { return len(args) == 2 && args[1] == argument }

// Main is the keeper process. args are os.Args. It returns the exit code of the process, and must be called
// from the main goroutine: the process is to end when Main returns.
func Main(args []string) int {
	// The child's parent-death signal comes when the *thread* that forked it ends, so that thread is tied to this
	// goroutine for the life of the process.
	runtime.LockOSThread()
	var st syscall.Stat_t
	if !IsKeeper(args) || syscall.Fstat(socket, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		fmt.Fprintln(os.Stderr, "keeper: this command is started by tenure itself, as the parent of what it runs")
		return 2
	}
	k, err := newKeeping()
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 1
	}
	if !k.start() {
		return 1
	}
	k.keep()
	return 0
}

type stage uint8

const (
	running stage = iota
	ending        // SIGTERM was sent
	killing       // SIGKILL was sent
)

// keeping is the keeper's side: one family and its deadlines. Everything runs on the goroutine of Main.
type keeping struct {
	clock   clock.Clock
	alarm   *alarm
	in      *gob.Decoder
	out     *gob.Encoder
	inbox   chan message // nil when the agent is gone
	sigchld chan os.Signal
	family  *family
	order   *order
	tty     int // the terminal to give back, or -1

	stage      stage
	cause      Cause
	exited     bool // the leader; others may be left
	term, kill time.Duration
}

func newKeeping() (*keeping, error) {
	syscall.CloseOnExec(socket)
	if err := syscall.SetNonblock(socket, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	a, err := newAlarm()
	if err != nil {
		return nil, err
	}
	wire := os.NewFile(socket, "agent")
	k := &keeping{
		clock: clock.Boot(), alarm: a, tty: -1,
		in: gob.NewDecoder(wire), out: gob.NewEncoder(wire),
		inbox: make(chan message), sigchld: make(chan os.Signal, 1),
	}
	signal.Notify(k.sigchld, syscall.SIGCHLD)
	// What ends or stops a process is for the agent to judge; the keeper stays. Caught, not ignored: a child would
	// inherit that. What was ignored from the start (nohup) stays so for the child.
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return k, nil
}

// start reads the order and starts the child, if its deadline is still ahead.
func (k *keeping) start() bool {
	var m message
	if k.in.Decode(&m) != nil || m.Kind != kindStart || m.Order == nil {
		return false
	}
	k.order, k.term, k.kill = m.Order, m.Term, m.Kill
	if k.clock.Now() >= k.term {
		_ = k.out.Encode(message{Kind: kindPast})
		return false
	}
	if m.Order.Terminal {
		k.tty = keepTerminal(0)
	}
	f, err := newFamily(m.Order)
	if err != nil {
		reply := message{Kind: kindFailed, Why: err.Error()}
		errors.As(err, &reply.Errno)
		_ = k.out.Encode(reply)
		return false
	}
	k.family = f
	dropStandardFiles() // a reader of the child's output sees its end when the child is gone
	_ = k.out.Encode(message{Kind: kindStarted, Pid: f.pid})
	go k.read()
	return true
}

func (k *keeping) read() {
	inbox := k.inbox
	defer close(inbox)
	for {
		var m message
		if k.in.Decode(&m) != nil {
			return
		}
		inbox <- m
	}
}

// keep returns when the whole family is dead and the agent was told.
func (k *keeping) keep() {
	for !k.act() {
		k.alarm.set(k.due())
		select {
		case m, ok := <-k.inbox:
			k.hear(m, ok)
		case <-k.sigchld:
		case <-k.alarm.C:
		}
	}
	if k.tty >= 0 {
		returnTerminal(k.tty, k.family.pid, k.order.Group)
	}
	exit := k.family.exit()
	exit.Cause = k.cause
	_ = k.out.Encode(message{Kind: kindExit, Exit: exit})
}

func (k *keeping) hear(m message, ok bool) {
	if !ok { // The agent is dead. Nobody renews, nobody releases: the child follows, see the package doc.
		k.inbox = nil
		k.end(Orphaned, k.clock.Now()+k.kill-k.term)
		return
	}
	switch m.Kind {
	case kindExtend:
		if k.stage == running {
			k.term, k.kill = max(k.term, m.Term), max(k.kill, m.Kill)
		}
		_ = k.out.Encode(message{Kind: kindExtended})
	case kindStop:
		k.end(Stopped, m.Kill)
	}
}

// end begins the end, with SIGKILL no later than limit; if it has begun, it only brings SIGKILL forward.
func (k *keeping) end(cause Cause, limit time.Duration) {
	k.kill = min(k.kill, limit)
	if k.stage != running {
		return
	}
	k.stage, k.cause = ending, cause
	k.family.signal(syscall.SIGTERM)
	k.family.signal(syscall.SIGCONT) // a stopped process would not see it
	_ = k.out.Encode(message{Kind: kindEnding})
}

// act does what is due and tells whether the family is gone.
func (k *keeping) act() bool {
	if k.stage == running && k.clock.Now() >= k.term+overslept {
		k.hearPending()
	}
	exited, gone := k.family.look()
	if gone {
		return true
	}
	k.exited = exited
	now := k.clock.Now()
	switch {
	case exited && k.stage == running: // it left somebody behind
		k.end(Itself, now+k.kill-k.term)
	case now >= k.term && k.stage == running && now < k.kill:
		k.end(Expired, k.kill)
	case now >= k.term && k.stage == running:
		k.stage, k.cause = killing, Expired
	}
	if now >= k.kill {
		k.stage = killing
		k.family.signal(syscall.SIGKILL)
	}
	return false
}

// hearPending reads what the agent sent while this process was frozen: perhaps the lease was renewed.
func (k *keeping) hearPending() {
	enough := time.After(catchUp)
	for k.inbox != nil && k.stage == running && k.clock.Now() >= k.term {
		select {
		case m, ok := <-k.inbox:
			k.hear(m, ok)
		case <-enough:
			return
		}
	}
}

func (k *keeping) due() time.Duration {
	switch {
	case k.stage == running:
		return k.term
	case k.stage == killing:
		return k.clock.Now() + recheck
	default:
		return min(k.kill, k.clock.Now()+glance)
	}
}
