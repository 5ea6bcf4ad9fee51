//go:build darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the agent's view of the child's process group: its number.
type group struct {
	pid    int
	keeper int
	mark   string
	dead   chan struct{} // never closed: the death of another's child cannot be waited for

	mu   sync.Mutex
	over bool // nothing may be sent any more
}

func newGroup(pid, keeper int, o *order, _ *os.File) *group {
	return &group{pid: pid, keeper: keeper, mark: o.Mark}
}

func (g *group) signal(s syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.pid == 0 {
		return os.ErrProcessDone
	}
	err := unix.Kill(-g.pid, s)
	if err == unix.ESRCH {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("kill", err)
}

func (g *group) terminate() {
	_ = g.signal(syscall.SIGTERM)
	_ = g.signal(syscall.SIGCONT)
}

// sweep cannot tell a zombie that a frozen keeper does not reap from a live process. So nobody counts as live
// while the keeper is there; it is killed soon after, and init reaps.
func (g *group) sweep() (live bool) {
	return g.signal(syscall.SIGKILL) == nil && g.keeper == 0
}

func (g *group) returnTerminal() {}

func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}
