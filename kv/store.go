package kv

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Store is the narrowest thing a lease can live in: keys with one value each,
// written on condition of a revision. It is safe for concurrent use.
//
// A write that returns nil is as durable as the store makes it. One that
// returns an error matching [ErrRevision] or [ErrNotWritten] changed nothing.
// After any other error it may have been written, or may be written yet.
type Store interface {
	// Get reads the latest value, from whoever orders the writes. A key that
	// is not there is no error: the entry says so.
	Get(ctx context.Context, key string) (Entry, error)

	// Create writes a key for which nothing stands, not even the mark of a
	// deletion, and returns its revision.
	Create(ctx context.Context, key string, value []byte) (uint64, error)

	// Update writes over exactly the given revision, which may be the mark of
	// a deletion, and returns the new revision.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// Watch yields the present entry of the key, or of every key if key is
	// empty, then one entry with Synced and nothing else, then what changes,
	// until ctx ends or an error does. It may skip all but the latest of a
	// key, and need not report a key that vanished without a mark.
	Watch(ctx context.Context, key string) iter.Seq2[Entry, error]

	// Bucket says how old the store is.
	Bucket(ctx context.Context) (Bucket, error)
}

// Entry is what stands under one key.
type Entry struct {
	Key      string
	Value    []byte    // not to be changed
	Revision uint64    // 0: nothing has ever been written, or every trace of it is gone
	Created  time.Time // by the store's wall clock, for people
	Absent   bool      // there is no value: never written, or (Revision > 0) deleted
	Synced   bool      // Watch only: the present is told, what follows are changes
}

// Bucket is the age of a store: both times come from one answer of it, so that
// their difference means something.
type Bucket struct {
	Created time.Time
	Now     time.Time
}

// What a store knows of a write that did not succeed.
var (
	ErrRevision   = errors.New("kv: the key stands at another revision")
	ErrNotWritten = errors.New("kv: nothing was written")
)
