//go:build darwin || freebsd || openbsd || dragonfly

package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// self is the file of this binary.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func ownsTerminal(in, out *os.File) bool { return false }

func keepTerminal(uintptr) int { return -1 }

func returnTerminal(tty, from, group int) {}

// dropStandardFiles puts the null device in the place of stdin, stdout and stderr.
func dropStandardFiles() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	for fd := range 3 {
		_ = unix.Dup2(null, fd)
	}
}
