package wal

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// OS is the operating system's file system. Directories are made for their
// owner alone, and so are files: leases may carry what is nobody else's
// business.
type OS struct{}

var _ FS = OS{}

// Open implements [FS].
func (OS) Open(name string, write bool) (File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return openOS(name, flag)
}

// Create implements [FS].
func (OS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Rename implements [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements [FS].
func (OS) Remove(name string) error { return os.Remove(name) }

// Mkdir implements [FS].
func (OS) Mkdir(dir string) error { return os.Mkdir(dir, 0o700) }

// List implements [FS].
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// SyncDir implements [FS].
func (OS) SyncDir(dir string) error { return syncDir(dir) }

// Lock implements [FS] with the operating system's lock of an open file.
func (OS) Lock(name string, shared bool) (io.Closer, error) {
	flag := os.O_RDONLY
	if !shared {
		flag = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	taken, err := lockFile(f, shared)
	if taken {
		err = &InUse{Name: name, PID: owner(f)}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if !shared {
		note(f)
	}
	return f, nil
}

// note writes who has the lock, for the message of whoever comes too late. The
// lock holds without it, so a failure does not matter.
func note(f *os.File) {
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

func owner(f *os.File) int {
	b, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

type osFile struct{ *os.File }

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Preallocate(size int64) error { return preallocate(f.File, size) }

func (f osFile) Sync() error { return syncData(f.File) }
