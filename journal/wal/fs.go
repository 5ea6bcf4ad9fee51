package wal

import (
	"fmt"
	"io"
)

// FS is what the log needs of a file system. [OS] is the real one. Names are
// paths; errors can be told apart as those of package os can.
//
// Nothing is durable before the call that says so: the contents of a file after
// [File.Sync], the names in a directory, creations, renames and removals alike,
// after SyncDir.
type FS interface {
	// Open opens a file that exists, for reading, or for reading and writing.
	Open(name string, write bool) (File, error)
	// Create makes an empty file, in the place of one that exists.
	Create(name string) (File, error)
	// Rename gives a file another name, in one step, in the place of what has it.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Mkdir makes a directory in one that exists.
	Mkdir(dir string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes the lock that the file name stands for, for one owner, or
	// shared among readers; closing it gives it back, and so does the end of the
	// process. An exclusive lock creates the file. If it is taken, the error is
	// an [*InUse].
	Lock(name string, shared bool) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the length in bytes.
	Size() (int64, error)
	// Preallocate makes the file size bytes long, zeros where nothing was
	// written, and reserves the space, so that later writes below size neither
	// grow it nor find the disk full.
	Preallocate(size int64) error
	// Truncate makes the file size bytes long.
	Truncate(size int64) error
	// Sync makes the contents and the size durable. After an error it is not
	// known what is, and no later Sync of the same file can tell.
	Sync() error
}

// InUse is the error of a lock that somebody else has.
type InUse struct {
	Name string
	PID  int // 0 if it is not known
}

func (e *InUse) Error() string {
	if e.PID == 0 {
		return e.Name + " is locked by another process"
	}
	return fmt.Sprintf("%s is locked by process %d", e.Name, e.PID)
}
