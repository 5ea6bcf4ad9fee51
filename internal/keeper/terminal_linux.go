package keeper

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// self is this binary, even if its file was replaced or deleted since.
func self() string { return "/proc/self/exe" }

// ownsTerminal tells whether the child should get the terminal: it is both in and out, it is this process's
// controlling terminal, and this process's group is in its foreground. In a pipeline (out is a pipe) the
// other programs of it need the terminal, and in the background it is not ours to give.
func ownsTerminal(in, out *os.File) bool {
	if in == nil || out == nil {
		return false
	}
	if _, err := unix.IoctlGetInt(int(out.Fd()), unix.TIOCGPGRP); err != nil {
		return false
	}
	foreground, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// keepTerminal duplicates a terminal's descriptor to give the terminal back later; -1 if that fails.
func keepTerminal(fd uintptr) int {
	kept, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, socket+1)
	if err != nil {
		return -1
	}
	return kept
}

// returnTerminal makes group the foreground group if from still is, or is gone.
func returnTerminal(tty, from, group int) {
	// A background process that does this is stopped by SIGTTOU unless it blocks it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (uint(unix.SIGTTOU) - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) != nil {
		return
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	if now, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP); err == nil && (now == from || now == 0) {
		_ = unix.IoctlSetPointerInt(tty, unix.TIOCSPGRP, group)
	}
}

// dropStandardFiles puts the null device in the place of stdin, stdout and stderr.
func dropStandardFiles() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	for fd := range 3 {
		_ = unix.Dup3(null, fd, 0)
	}
}
