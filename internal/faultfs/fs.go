// Package faultfs is a file system in memory that keeps apart what programs see
// and what a crash would leave, and that fails on demand. It is the file system
// of tests of journal/wal.
//
// It promises as little as POSIX does:
//
//   - What was written is durable after a sync of the file; before, each sector
//     of 512 bytes may have any of the contents it had since the last sync, each
//     by itself, and the file any of its sizes.
//   - A creation, rename or removal is durable after a sync of the directory;
//     before, each of them may have happened by itself, whatever the file's
//     contents. A rename happens whole or not at all.
//   - A failed sync may forget what it was to write: reads go on to show it, and
//     later syncs succeed without it ([Fault.Lost]).
//
// What it does not model: a sector that is itself torn, a disk that changes
// bytes by itself (see [FS.Edit]), hard links, renames between directories.
package faultfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tenurehq/tenure/journal/wal"
)

// FS is the file system. Relative and absolute names are the same. It is safe
// for concurrent use; the hooks are set before it is used.
type FS struct {
	// Before is asked before every operation, and says what goes wrong with it.
	Before func(Op) Fault
	// After is told of every operation that was counted, when its effect can be
	// seen and its caller has no answer yet. It may call [FS.Crash].
	After func(Op)

	mu    sync.Mutex
	root  *node
	ops   int
	life  int // counts kills; files and locks of an earlier life are void
	locks map[string]int
}

// New returns an empty file system.
func New() *FS { return &FS{root: newDir(), locks: map[string]int{}} }

var _ wal.FS = (*FS)(nil)

// Op is one operation.
type Op struct {
	N    int // position among those that change something, from 1; 0 for the others
	Kind Kind
	Name string
}

// Kind says what an operation does.
type Kind string

const (
	Open     Kind = "open" // not counted
	Read     Kind = "read" // not counted
	List     Kind = "list" // not counted
	Create   Kind = "create"
	Write    Kind = "write"
	Reserve  Kind = "preallocate"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	Mkdir    Kind = "mkdir"
	SyncDir  Kind = "syncdir"
	Lock     Kind = "lock"
)

// Fault is what goes wrong with an operation. The zero value is nothing.
type Fault struct {
	Err  error // what the caller gets
	Done bool  // the operation takes effect although it fails
	Part int   // this many bytes of a failing write are written
	Lost bool  // a failing sync forgets what it was to make durable
	Lie  bool  // a sync makes nothing durable, and succeeds
}

// ErrKilled is the error of a file whose process was killed.
var ErrKilled = errors.New("faultfs: the process that opened it was killed")

// Ops is how many operations changed something so far.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Kill ends every process that has files open or locks taken: all of them are
// void. What was written stays as it is, synced or not.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.life++
	clear(f.locks)
}

// Keep decides what of the unsynced state a crash leaves. Of n successive
// states of one thing it returns the number of the one that is kept; 0 is the
// synced one.
type Keep func(n int) int

// Nothing keeps only what was synced.
func Nothing(int) int { return 0 }

// Everything keeps all that was done.
func Everything(n int) int { return n }

// Crash returns a file system as a crash at this moment would leave it. f goes
// on unharmed.
func (f *FS) Crash(keep Keep) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := New()
	c.root = f.root.crash(keep, map[*node]*node{})
	return c
}

// Edit changes the contents of a file behind everybody's back, durably.
func (f *FS) Edit(name string, change func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("edit", name)
	if err != nil {
		panic(err)
	}
	n.data = change(n.data)
	n.safe, n.sizes = slices.Clone(n.data), nil
	clear(n.dirty)
}

// Flip changes one bit of a file behind everybody's back, durably, and returns
// the size of the file in bytes. A bit behind the end changes nothing. All of
// the file has to be synced, as it is after [FS.Crash].
func (f *FS) Flip(name string, bit int) (size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("flip", name)
	if err != nil {
		panic(err)
	}
	for _, b := range [][]byte{n.data, n.safe} {
		if bit < len(b)*8 {
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
	return len(n.data)
}

// do runs one counted operation: act takes effect, for a write only as far as
// the fault lets it.
func (f *FS) do(kind Kind, name string, act func(Fault) error) error {
	f.mu.Lock()
	f.ops++
	op := Op{N: f.ops, Kind: kind, Name: name}
	f.mu.Unlock()
	var fault Fault
	if f.Before != nil {
		fault = f.Before(op)
	}
	f.mu.Lock()
	var err error
	if fault.Err == nil || fault.Done || fault.Part > 0 || fault.Lost {
		err = act(fault)
	}
	f.mu.Unlock()
	if f.After != nil {
		f.After(op)
	}
	if fault.Err != nil {
		return fault.Err
	}
	return err
}

// look asks about an operation that changes nothing.
func (f *FS) look(kind Kind, name string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(Op{Kind: kind, Name: name}).Err
}

// find walks to a file or directory. The caller has the lock.
func (f *FS) find(op, name string) (*node, error) {
	n := f.root
	for _, part := range split(name) {
		if !n.dir {
			return nil, pathError(op, name, errNotDir)
		}
		next, ok := n.names[part]
		if !ok {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
		n = next
	}
	return n, nil
}

// above finds the directory that a name is in.
func (f *FS) above(op, name string) (dir *node, last string, err error) {
	dir, err = f.find(op, filepath.Dir(name))
	if err == nil && !dir.dir {
		err = pathError(op, name, errNotDir)
	}
	return dir, filepath.Base(name), err
}

func split(name string) []string {
	name = strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements [wal.FS].
func (f *FS) Open(name string, write bool) (wal.File, error) {
	if err := f.look(Open, name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, n: n, name: name, write: write, life: f.life}, nil
}

// Create implements [wal.FS].
func (f *FS) Create(name string) (wal.File, error) {
	var made *file
	err := f.do(Create, name, func(Fault) error {
		n, err := f.make(name)
		if err != nil {
			return err
		}
		n.truncate(0)
		made = &file{fs: f, n: n, name: name, write: true, life: f.life}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// make finds the file, or makes it. The caller has the lock.
func (f *FS) make(name string) (*node, error) {
	dir, last, err := f.above("create", name)
	if err != nil {
		return nil, err
	}
	if n, ok := dir.names[last]; ok {
		return n, nil
	}
	n := newFile()
	dir.change(change{to: last, node: n})
	return n, nil
}

// Rename implements [wal.FS].
func (f *FS) Rename(from, to string) error {
	return f.do(Rename, to, func(Fault) error {
		dir, last, err := f.above("rename", from)
		if err != nil {
			return err
		}
		other, target, err := f.above("rename", to)
		n, ok := dir.names[last]
		if err != nil || other != dir || !ok {
			return pathError("rename", from, errors.Join(err, fs.ErrNotExist))
		}
		dir.change(change{from: last, to: target, node: n})
		return nil
	})
}

// Remove implements [wal.FS].
func (f *FS) Remove(name string) error {
	return f.do(Remove, name, func(Fault) error {
		dir, last, err := f.above("remove", name)
		if err != nil {
			return err
		}
		if _, ok := dir.names[last]; !ok {
			return pathError("remove", name, fs.ErrNotExist)
		}
		dir.change(change{from: last})
		return nil
	})
}

// Mkdir implements [wal.FS].
func (f *FS) Mkdir(name string) error {
	return f.do(Mkdir, name, func(Fault) error {
		dir, last, err := f.above("mkdir", name)
		if err != nil {
			return err
		}
		if _, ok := dir.names[last]; ok {
			return pathError("mkdir", name, fs.ErrExist)
		}
		dir.change(change{to: last, node: newDir()})
		return nil
	})
}

// List implements [wal.FS].
func (f *FS) List(name string) ([]string, error) {
	if err := f.look(List, name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("list", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, pathError("list", name, errNotDir)
	}
	var names []string
	for name := range n.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir implements [wal.FS].
func (f *FS) SyncDir(name string) error {
	return f.do(SyncDir, name, func(fault Fault) error {
		n, err := f.find("sync", name)
		if err != nil || fault.Lie || fault.Err != nil && !fault.Done {
			return err
		}
		n.pending = nil
		n.safeNames = cloneNames(n.names)
		return nil
	})
}

// Lock implements [wal.FS].
func (f *FS) Lock(name string, shared bool) (io.Closer, error) {
	var l *lock
	err := f.do(Lock, name, func(Fault) error {
		if _, err := f.find("lock", name); shared && err != nil {
			return err
		}
		if _, err := f.make(name); err != nil {
			return err
		}
		held := f.locks[name] // -1: by one owner; else how many readers
		if held < 0 || held > 0 && !shared {
			return &wal.InUse{Name: name}
		}
		f.locks[name] = -1
		if shared {
			f.locks[name] = held + 1
		}
		l = &lock{fs: f, name: name, shared: shared, life: f.life}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

type lock struct {
	fs     *FS
	name   string
	shared bool
	life   int
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.life != l.fs.life {
		return nil
	}
	if l.shared {
		l.fs.locks[l.name]--
		return nil
	}
	delete(l.fs.locks, l.name)
	return nil
}
