package faultfs

import (
	"io"
	"io/fs"
	"syscall"
)

// file is an open file.
type file struct {
	fs     *FS
	n      *node
	name   string
	write  bool
	life   int
	closed bool
}

const errNotDir = syscall.ENOTDIR

// usable is the error of a file that is closed, or whose process was killed.
func (f *file) usable(write bool) error {
	switch {
	case f.life != f.fs.life:
		return ErrKilled
	case f.closed:
		return fs.ErrClosed
	case write && !f.write:
		return pathError("write", f.name, fs.ErrPermission)
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.look(Read, f.name); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(false); err != nil {
		return 0, err
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	err := f.fs.do(Write, f.name, func(fault Fault) error {
		if err := f.usable(true); err != nil {
			return err
		}
		n = len(p)
		if fault.Err != nil && !fault.Done {
			n = min(n, fault.Part)
		}
		f.n.write(p[:n], off)
		return nil
	})
	return n, err
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.n.data)), f.usable(false)
}

func (f *file) Preallocate(size int64) error {
	return f.fs.do(Reserve, f.name, func(Fault) error {
		if err := f.usable(true); err != nil {
			return err
		}
		f.n.grow(size)
		return nil
	})
}

func (f *file) Truncate(size int64) error {
	return f.fs.do(Truncate, f.name, func(Fault) error {
		if err := f.usable(true); err != nil {
			return err
		}
		f.n.truncate(size)
		f.n.grow(size)
		return nil
	})
}

func (f *file) Sync() error {
	return f.fs.do(Sync, f.name, func(fault Fault) error {
		if err := f.usable(true); err != nil {
			return err
		}
		switch {
		case fault.Lost:
			f.n.forget()
		case !fault.Lie && (fault.Err == nil || fault.Done):
			f.n.sync()
		}
		return nil
	})
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}
