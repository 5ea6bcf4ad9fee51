package wal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out what nobody needs to find the data again, such as times.
func syncData(f *os.File) error {
	return retry(func() error { return unix.Fdatasync(int(f.Fd())) }, "fdatasync", f)
}

func preallocate(f *os.File, size int64) error {
	err := retry(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }, "fallocate", f)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// retry repeats what a signal interrupted before it began; every other error is
// final.
func retry(call func() error, op string, f *os.File) error {
	for {
		err := call()
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: op, Path: f.Name(), Err: err}
		}
		return nil
	}
}
