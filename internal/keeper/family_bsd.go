//go:build darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// family is the keeper's view of the child's process group; descendants outside it are not known here.
type family struct {
	pid    int
	exited bool
	status unix.WaitStatus
}

func newFamily(o *order) (*family, error) {
	pid, err := syscall.ForkExec(o.Path, o.Args, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	return &family{pid: pid}, nil
}

func (f *family) signal(s syscall.Signal) { _ = unix.Kill(-f.pid, s) }

// look reaps the leader. A group number is not given away while the group has a member, and gone is final.
func (f *family) look() (exited, gone bool) {
	if !f.exited {
		pid, _ := retry(func() (int, error) { return unix.Wait4(f.pid, &f.status, unix.WNOHANG, nil) })
		f.exited = pid == f.pid
	}
	return f.exited, f.exited && unix.Kill(-f.pid, 0) == unix.ESRCH
}

func (f *family) exit() Exit {
	if f.status.Signaled() {
		return Exit{Code: 128 + int(f.status.Signal()), Signal: f.status.Signal()}
	}
	return Exit{Code: f.status.ExitStatus()}
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
