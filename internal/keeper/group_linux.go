package keeper

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the agent's view of the child's process group. The agent is not the child's parent and cannot keep
// its number from being reused, so it holds a pidfd, opened while the keeper holds the leader unreaped; since
// Linux 6.9 a pidfd also stands for the process group, whoever of it is left.
type group struct {
	pid     int
	keeper  int           // whose descendants belong to it; 0 once the keeper is reaped
	session int           // of the leader
	mark    string        // environment entry of all descendants
	tty     int           // the terminal to take back, or -1
	back    int           // the group that gets it
	dead    chan struct{} // closed when the leader is dead

	mu    sync.RWMutex // against the use of a closed pidfd
	pidfd int          // -1: none
}

func newGroup(pid, keeper int, o *order, stdin *os.File) *group {
	g := &group{pid: pid, keeper: keeper, mark: o.Mark, tty: -1, back: o.Group, dead: make(chan struct{})}
	if p, ok := readProcess(pid); ok {
		g.session = p.session
	}
	if o.Terminal {
		g.tty = keepTerminal(stdin.Fd())
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // Linux before 5.3, or the child has been buried already
		g.pidfd = -1
		return g
	}
	g.pidfd = fd
	go func() {
		defer close(g.dead)
		_, _ = retry(func() (int, error) {
			return unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		})
	}()
	return g
}

// signal reaches every process of the group.
func (g *group) signal(s syscall.Signal) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(g.pidfd, s, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if err == unix.EINVAL {
		g.signalMembers(s)
		return nil
	}
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}

// signalMembers does it on a kernel older than 6.9, process by process.
func (g *group) signalMembers(s syscall.Signal) {
	for _, p := range processes() {
		if p.group == g.pid && p.session == g.session {
			p.signal(s)
		}
	}
}

// terminate asks the group to end; one that is stopped is continued to hear it.
func (g *group) terminate() {
	_ = g.signal(syscall.SIGTERM)
	_ = g.signal(syscall.SIGCONT)
}

// sweep kills the group and every descendant that can be found outside it, and tells whether one was still
// alive. Without a keeper, descendants that left the group are known by their environment alone.
func (g *group) sweep() (live bool) {
	if g.pid != 0 {
		_ = g.signal(syscall.SIGKILL)
	}
	all := processes()
	var family []process
	if g.keeper != 0 {
		family = descendants(all, g.keeper)
	}
	for _, p := range all {
		if g.pid != 0 && p.group == g.pid && p.session == g.session || g.keeper == 0 && p.marked(g.mark) {
			family = append(family, p)
		}
	}
	for _, p := range family {
		if p.alive() {
			p.signal(syscall.SIGKILL)
			live = true
		}
	}
	return live
}

func (g *group) returnTerminal() {
	if g.tty >= 0 {
		returnTerminal(g.tty, g.pid, g.back)
	}
}

// close must not be called before the leader is dead.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pidfd >= 0 {
		<-g.dead
		unix.Close(g.pidfd)
		g.pidfd = -1
	}
	if g.tty >= 0 {
		unix.Close(g.tty)
		g.tty = -1
	}
}
