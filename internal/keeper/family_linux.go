package keeper

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// family is the keeper's view of the child and all its descendants. The keeper is their subreaper: a descendant
// whose parent dies becomes the keeper's own child, even after setsid. So when the keeper has no child left,
// it has no descendant left, and that is the proof of death, not a walk over /proc, which can miss a process
// that forks meanwhile.
//
// The leader stays unreaped until a walk finds nobody else. Until then its number, which is the group's, cannot
// be given to another process, and kill(-pid) hits nobody else.
type family struct {
	pid      int
	terminal bool
	exited   bool // the leader
	reaped   bool // the leader
	status   unix.WaitStatus
}

func newFamily(o *order) (*family, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot become a subreaper: %w", err)
	}
	pid, err := syscall.ForkExec(o.Path, o.Args, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{
			Setpgid: true, Pdeathsig: syscall.SIGKILL, // the caller has locked its thread
			Foreground: o.Terminal, Ctty: 0, // done in the child with signals blocked, before it runs
		},
	})
	if err != nil {
		return nil, err
	}
	return &family{pid: pid, terminal: o.Terminal}, nil
}

// signal sends s to the whole group at once and to every descendant that left the group.
func (f *family) signal(s syscall.Signal) {
	if !f.reaped {
		_ = unix.Kill(-f.pid, s)
	}
	for _, p := range descendants(processes(), os.Getpid()) {
		if f.reaped || p.group != f.pid {
			p.signal(s)
		}
	}
}

// look reaps who died and tells whether the leader has exited, and whether all are gone.
func (f *family) look() (exited, gone bool) {
	f.refuseSuspend()
	for !f.exited {
		pid := peek()
		if pid == 0 {
			return false, false
		}
		if pid == f.pid {
			f.exited = true
			break
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	if !f.reaped && !f.othersLive() {
		if _, err := retry(func() (int, error) { return unix.Wait4(f.pid, &f.status, 0, nil) }); err != nil {
			panic(fmt.Sprintf("keeper: cannot reap process %d, which has exited: %v", f.pid, err))
		}
		f.reaped = true
	}
	for f.reaped {
		pid, err := retry(func() (int, error) { return unix.Wait4(-1, nil, unix.WNOHANG, nil) })
		if err == unix.ECHILD {
			return true, true
		}
		if err != nil || pid == 0 {
			break
		}
	}
	return true, false
}

func (f *family) othersLive() bool {
	for _, p := range descendants(processes(), os.Getpid()) {
		if p.pid != f.pid && p.alive() {
			return true
		}
	}
	return false
}

// refuseSuspend undoes ^Z at the terminal that was handed to the child: there is no shell in between that could
// bring it back.
func (f *family) refuseSuspend() {
	if !f.terminal || f.exited {
		return
	}
	var info childInfo
	if waitid(unix.P_PID, f.pid, &info, unix.WSTOPPED|unix.WNOHANG) != nil || info.Pid == 0 {
		return
	}
	if unix.Signal(info.Status) == unix.SIGTSTP {
		_ = unix.Kill(-f.pid, unix.SIGCONT)
	}
}

// exit is valid once look says gone.
func (f *family) exit() Exit {
	if f.status.Signaled() {
		return Exit{Code: 128 + int(f.status.Signal()), Signal: f.status.Signal()}
	}
	return Exit{Code: f.status.ExitStatus()}
}

// childInfo is siginfo_t as waitid fills it in; its union is aligned as a pointer is.
type childInfo struct {
	Signo, Errno, Code int32
	_                  [0]uintptr
	Pid                int32
	Uid                uint32
	Status             int32
	_                  [128]byte
}

// peek returns a child that has exited and leaves it unreaped; 0 if there is none.
func peek() int {
	var info childInfo
	if waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT) != nil {
		return 0
	}
	return int(info.Pid)
}

func waitid(which, id int, info *childInfo, options int) error {
	_, err := retry(func() (int, error) {
		return 0, unix.Waitid(which, id, (*unix.Siginfo)(unsafe.Pointer(info)), options, nil)
	})
	return err
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
