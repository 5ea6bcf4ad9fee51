// Package bare is the least that a durable log can be: callers hand in bytes,
// one goroutine writes what has gathered and syncs it, and they are woken. It
// knows no record, checks nothing, and cannot be read back. What an engine on
// the same disk reaches is to be compared with it.
package bare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Log is a log with group commit. It is safe for concurrent use.
type Log struct {
	dir  string
	opt  Options
	wake chan struct{}
	done chan struct{}

	mu      sync.Mutex
	pending []byte
	callers []chan<- error
	closed  bool

	// The writer's.
	file *os.File
	seq  int
	end  int64
}

// Options say what the files are like.
type Options struct {
	Segment int64 // size that a file is given beforehand, in bytes; 0 means 64 MiB
	Frame   int   // bytes that go before each write
	Zeroed  bool  // the file is written once before it is used, not only allocated
}

// Open makes a log in a directory that is there.
func Open(dir string, opt Options) (*Log, error) {
	if opt.Segment == 0 {
		opt.Segment = 64 << 20
	}
	l := &Log{dir: dir, opt: opt, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := l.next(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// Commit returns when p is on the disk. Woken is the caller's own, with room
// for one.
func (l *Log) Commit(p []byte, woken chan error) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return os.ErrClosed
	}
	if len(l.pending) == 0 {
		l.pending = append(l.pending, make([]byte, l.opt.Frame)...)
	}
	l.pending = append(l.pending, p...)
	l.callers = append(l.callers, woken)
	l.mu.Unlock()
	l.poke()
	return <-woken
}

// Close ends the log when everything handed in is on the disk.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.poke()
	<-l.done
	return l.file.Close()
}

func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Log) run() {
	defer close(l.done)
	var spare []byte
	var woken []chan<- error
	for range l.wake {
		l.mu.Lock()
		batch, callers, closed := l.pending, l.callers, l.closed
		l.pending, l.callers = spare[:0], woken[:0]
		l.mu.Unlock()
		if len(batch) > 0 {
			err := l.write(batch)
			for _, c := range callers {
				c <- err
			}
		}
		if closed {
			return
		}
		spare, woken = batch, callers
	}
}

func (l *Log) write(batch []byte) error {
	if l.end+int64(len(batch)) > l.opt.Segment {
		if err := l.next(); err != nil {
			return err
		}
	}
	if _, err := l.file.WriteAt(batch, l.end); err != nil {
		return err
	}
	l.end += int64(len(batch))
	return unix.Fdatasync(int(l.file.Fd()))
}

// next goes on in a new file.
func (l *Log) next() error {
	if l.file != nil {
		if err := l.file.Close(); err != nil {
			return err
		}
	}
	l.seq++
	l.end = 0
	var err error
	if l.file, err = os.Create(filepath.Join(l.dir, fmt.Sprintf("%06d.bare", l.seq))); err != nil {
		return err
	}
	if err := unix.Fallocate(int(l.file.Fd()), 0, 0, l.opt.Segment); err != nil {
		return fmt.Errorf("allocate %s: %w", l.file.Name(), err)
	}
	if l.opt.Zeroed {
		_, err = l.file.WriteAt(make([]byte, l.opt.Segment), 0)
	}
	return errors.Join(err, l.file.Sync())
}
