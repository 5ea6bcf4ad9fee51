package kv

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// MemoryStore is a [Store] in this process's memory. It begins with a past:
// nobody can have purged a key of it unseen, so a key that is not there is
// free at once. It behaves like a bucket of NATS: one count of revisions for
// all keys, deletions that leave a mark, and an operator's doings besides.
type MemoryStore struct {
	now func() time.Time

	mu      sync.Mutex
	created time.Time
	last    uint64
	entries map[string]Entry
	lives   int           // how often it was created anew
	changed chan struct{} // closed at the next change
}

// Memory is a store whose revisions are dated by time.Now.
func Memory() *MemoryStore { return MemoryAt(time.Now) }

// MemoryAt is a store with the given wall clock.
func MemoryAt(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now, entries: map[string]Entry{}, changed: make(chan struct{})}
}

// Get is [Store].Get.
func (m *MemoryStore) Get(ctx context.Context, key string) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, found := m.entries[key]
	if !found {
		return Entry{Key: key, Absent: true}, nil
	}
	return e, nil
}

// Create is [Store].Create.
func (m *MemoryStore) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return m.Update(ctx, key, value, 0)
}

// Update is [Store].Update.
func (m *MemoryStore) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotWritten, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.entries[key].Revision; at != revision {
		return 0, fmt.Errorf("%w: %s is at %d, not at %d", ErrRevision, key, at, revision)
	}
	return m.put(Entry{Key: key, Value: slices.Clone(value)}), nil
}

// Bucket is [Store].Bucket.
func (m *MemoryStore) Bucket(ctx context.Context) (Bucket, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Bucket{Created: m.created, Now: m.now()}, ctx.Err()
}

// Watch is [Store].Watch.
func (m *MemoryStore) Watch(ctx context.Context, key string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m.mu.Lock()
		life := m.lives
		m.mu.Unlock()
		for seen, synced := uint64(0), false; ; synced = true {
			news, changed, ok := m.since(key, seen, life)
			if !ok {
				yield(Entry{}, fmt.Errorf("kv: the memory store was created anew"))
				return
			}
			for _, e := range news {
				seen = e.Revision
				if !yield(e, nil) {
					return
				}
			}
			if !synced && !yield(Entry{Synced: true}, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Entry{}, context.Cause(ctx))
				return
			}
		}
	}
}

// since is what was written after a revision, in its order, and a channel that
// tells of more.
func (m *MemoryStore) since(key string, revision uint64, life int) ([]Entry, <-chan struct{}, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var news []Entry
	for _, e := range m.entries {
		if e.Revision > revision && (key == "" || e.Key == key) {
			news = append(news, e)
		}
	}
	slices.SortFunc(news, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	return news, m.changed, life == m.lives
}

// Put writes without a condition, as an operator's hand can; an engine never
// does.
func (m *MemoryStore) Put(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(Entry{Key: key, Value: slices.Clone(value)})
}

// Delete removes a value and leaves the mark of it, like "nats kv del".
func (m *MemoryStore) Delete(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(Entry{Key: key, Absent: true})
}

// Erase removes every trace of a key. Watchers are not told.
func (m *MemoryStore) Erase(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// Recreate empties the store and lets it be born now. Its revisions go on, as
// those of a bucket that InitNATS creates anew do; watches end.
func (m *MemoryStore) Recreate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created, m.entries = m.now(), map[string]Entry{}
	m.lives++
	m.tell()
}

func (m *MemoryStore) put(e Entry) uint64 {
	m.last++
	e.Revision, e.Created = m.last, m.now()
	m.entries[e.Key] = e
	m.tell()
	return m.last
}

func (m *MemoryStore) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}
