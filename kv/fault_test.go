package kv_test

import (
	"context"
	"errors"
	"sync"

	"github.com/tenurehq/tenure/kv"
)

// fault is what becomes of one request.
type fault uint8

const (
	none       fault = iota
	lostBefore       // not executed, and nobody knows
	lostAfter        // executed, the answer is lost
	refused          // not executed, and that is known
	darkBefore       // as lostBefore, and nothing is answered any more
	darkAfter        // as lostAfter, and nothing is answered any more
	held             // executed, the answer comes when ctx has ended
)

var errLost = errors.New("the answer was lost")

// faulty is a store whose next requests fail as told.
type faulty struct {
	kv.Store
	mu     sync.Mutex
	writes []fault
	always fault // of everything, reads too, until it is none again
	asked  int   // requests, watches apart
	sent   chan struct{}
	before func() // happens once, before the next write arrives
}

func (f *faulty) fail(faults ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = faults
}

func (f *faulty) outage(all fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always = all
}

func (f *faulty) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *faulty) next(write bool) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.always != none || !write || len(f.writes) == 0 {
		return f.always
	}
	now := f.writes[0]
	f.writes = f.writes[1:]
	return now
}

func (f *faulty) Get(ctx context.Context, key string) (kv.Entry, error) {
	if f.next(false) != none {
		return kv.Entry{}, errLost
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return f.write(ctx, func() (uint64, error) { return f.Store.Create(ctx, key, value) })
}

func (f *faulty) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return f.write(ctx, func() (uint64, error) { return f.Store.Update(ctx, key, value, revision) })
}

func (f *faulty) write(ctx context.Context, do func() (uint64, error)) (uint64, error) {
	if meanwhile := f.before; meanwhile != nil {
		f.before = nil
		meanwhile()
	}
	switch f.next(true) {
	case lostBefore:
		return 0, errLost
	case lostAfter:
		_, _ = do()
		return 0, errLost
	case darkBefore:
		f.outage(lostBefore)
		return 0, errLost
	case darkAfter:
		_, _ = do()
		f.outage(lostBefore)
		return 0, errLost
	case refused:
		return 0, kv.ErrNotWritten
	case held:
		_, _ = do()
		close(f.sent)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return do()
}
