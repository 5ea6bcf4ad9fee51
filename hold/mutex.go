package hold

import (
	"context"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// Mutex is a lock across processes. Unlike a [sync.Mutex] it can be lost: work
// under it runs with the context that Lock returned. Within one process, too, a
// locked Mutex keeps others out.
type Mutex struct {
	eng   tenure.Engine
	claim tenure.Claim
	opts  []Option

	turn chan struct{} // full while somebody locks, or has locked
	mu   sync.Mutex
	held *Hold
}

// NewMutex is an unlocked mutex on the claim's resources. The claim's Op and
// Wait are the mutex's own business and are ignored: every Lock is an operation
// of its own.
func NewMutex(eng tenure.Engine, claim tenure.Claim, opts ...Option) *Mutex {
	claim.Op = tenure.Op{}
	return &Mutex{eng: eng, claim: claim, opts: opts, turn: make(chan struct{}, 1)}
}

// Lock waits until the lock is free or ctx ends. The context it returns is that
// of [Hold.Context].
func (m *Mutex) Lock(ctx context.Context) (context.Context, error) {
	select {
	case m.turn <- struct{}{}:
		return m.lock(ctx, tenure.WaitForever)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TryLock locks, or returns [tenure.ErrHeld], without waiting for a live holder.
// Where [tenure.Caps].JudgesLate that can take the lease's TTL and grace, for
// which the engine watches whether its holder lives: bound it by ctx.
func (m *Mutex) TryLock(ctx context.Context) (context.Context, error) {
	select {
	case m.turn <- struct{}{}:
		return m.lock(ctx, 0)
	default:
		e := &tenure.Error{Code: tenure.ErrHeld, Holder: m.claim.Holder, Why: "it is locked in this process"}
		if len(m.claim.Resources) > 0 {
			e.Resource = m.claim.Resources[0]
		}
		return nil, e
	}
}

// Unlock releases the lock; call it after the work has stopped. It returns what
// [Hold.Release] returns, and [tenure.ErrInvalidState] if the mutex is not
// locked.
func (m *Mutex) Unlock() error {
	m.mu.Lock()
	h := m.held
	m.held = nil
	m.mu.Unlock()
	if h == nil {
		return &tenure.Error{Code: tenure.ErrInvalidState, Why: "unlock of a mutex that is not locked"}
	}
	defer func() { <-m.turn }()
	return h.Release()
}

func (m *Mutex) lock(ctx context.Context, wait time.Duration) (context.Context, error) {
	claim := m.claim
	claim.Wait = wait
	h, err := Acquire(ctx, m.eng, claim, m.opts...)
	if err != nil {
		<-m.turn
		return nil, err
	}
	m.mu.Lock()
	m.held = h
	m.mu.Unlock()
	return h.Context(), nil
}
