package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenurehq/tenure"
)

// Memory is a store that forgets with the process: for what the process keeps in
// memory, and for tests. It remembers at most a million resources, and refuses
// further ones with [tenure.ErrFull].
func Memory() Store { return &memory{marks: map[tenure.Resource]*mark{}, limit: 1_000_000} }

type memory struct {
	mu    sync.Mutex
	marks map[tenure.Resource]*mark
	limit int
}

// mark is what is known of one resource. Whatever is running runs under one
// token, which is below the highest while a newer holder waits.
type mark struct {
	highest tenure.Token
	admits  tenure.Token
	running int
	idle    chan struct{} // closed, and replaced, when the last of them ends
}

func (m *memory) Do(ctx context.Context, r tenure.Resource, token tenure.Token, fn func(context.Context) error) error {
	if err := validate(r, token); err != nil {
		return err
	}
	k, err := m.enter(ctx, r, token)
	if err != nil {
		return err
	}
	defer m.leave(k)
	return fn(ctx)
}

func (m *memory) enter(ctx context.Context, r tenure.Resource, token tenure.Token) (*mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.marks[r]
	if k == nil {
		if len(m.marks) >= m.limit {
			return nil, &tenure.Error{Code: tenure.ErrFull, Resource: r, Field: "marks", Why: fmt.Sprintf("tokens of %d resources are remembered, and none can be forgotten", m.limit)}
		}
		k = &mark{idle: make(chan struct{})}
		m.marks[r] = k
	}
	for {
		if token.Compare(k.highest) < 0 {
			return nil, stale(r, token, k.highest)
		}
		k.highest = token // lower ones are refused from now on, also while this one waits
		if k.running == 0 || k.admits == token {
			k.admits = token
			k.running++
			return k, nil
		}
		if err := m.wait(ctx, k.idle); err != nil {
			return nil, busy(ctx, r, token)
		}
	}
}

// wait lets go of the lock meanwhile.
func (m *memory) wait(ctx context.Context, idle <-chan struct{}) error {
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *memory) leave(k *mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.running--; k.running == 0 {
		close(k.idle)
		k.idle = make(chan struct{})
	}
}
