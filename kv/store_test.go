package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/testenv/natstest"
	"github.com/tenurehq/tenure/kv"
)

// subject is a store, and how an operator deletes a key in it.
type subject struct {
	kv.Store
	remove func(key string)
	erase  func(key string)
}

// TestStores holds every store to the contract of kv.Store.
func TestStores(t *testing.T) {
	server := natstest.Start(t)
	stores := map[string]func(t *testing.T) subject{
		"memory": func(*testing.T) subject {
			m := kv.Memory()
			return subject{m, m.Delete, m.Erase}
		},
		"nats": func(t *testing.T) subject {
			bucket := bucketFor(t)
			initBucket(t, server, bucket)
			values, err := connect(t, server).KeyValue(t.Context(), bucket)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := connect(t, server).Stream(t.Context(), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			return subject{openBucket(t, server, bucket),
				func(key string) { must(values.Delete(context.Background(), key)) },
				func(string) { must(stream.Purge(context.Background())) }}
		},
	}
	for name, open := range stores {
		for what, check := range map[string]func(*testing.T, subject){
			"conditions": storeConditions, "deletion": storeDeletion, "watch": storeWatch, "ended": storeEnded,
		} {
			t.Run(name+"/"+what, func(t *testing.T) { check(t, open(t)) })
		}
	}
}

func storeConditions(t *testing.T, s subject) {
	ctx := t.Context()
	if e, err := s.Get(ctx, "a/x"); err != nil || !e.Absent || e.Revision != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := s.Update(ctx, "a/x", []byte("1"), 7); !errors.Is(err, kv.ErrRevision) {
		t.Errorf("update of nothing: %v", err)
	}
	first, err := s.Create(ctx, "a/x", []byte("1"))
	if err != nil || first == 0 {
		t.Fatalf("%d, %v", first, err)
	}
	if _, err := s.Create(ctx, "a/x", []byte("2")); !errors.Is(err, kv.ErrRevision) {
		t.Errorf("create over a value: %v", err)
	}
	second, err := s.Update(ctx, "a/x", []byte("2"), first)
	if err != nil || second <= first {
		t.Fatalf("%d after %d, %v", second, first, err)
	}
	if _, err := s.Update(ctx, "a/x", []byte("3"), first); !errors.Is(err, kv.ErrRevision) {
		t.Errorf("update of an old revision: %v", err)
	}
	if _, err := s.Create(ctx, "a/x/y", []byte("other")); err != nil {
		t.Errorf("another key: %v", err)
	}
	e, err := s.Get(ctx, "a/x")
	if err != nil || string(e.Value) != "2" || e.Revision != second || e.Absent || time.Since(e.Created) > time.Minute {
		t.Errorf("%+v, %v", e, err)
	}
}

func storeDeletion(t *testing.T, s subject) {
	ctx := t.Context()
	first, err := s.Create(ctx, "a/x", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	s.remove("a/x")
	mark, err := s.Get(ctx, "a/x")
	if err != nil || !mark.Absent || mark.Revision <= first {
		t.Fatalf("%+v, %v: a deletion leaves a mark", mark, err)
	}
	if _, err := s.Create(ctx, "a/x", []byte("2")); !errors.Is(err, kv.ErrRevision) {
		t.Errorf("create over the mark: %v", err)
	}
	if _, err := s.Update(ctx, "a/x", []byte("2"), first); !errors.Is(err, kv.ErrRevision) {
		t.Errorf("update of what was deleted: %v", err)
	}
	if _, err := s.Update(ctx, "a/x", []byte("2"), mark.Revision); err != nil {
		t.Errorf("update of the mark: %v", err)
	}
	s.erase("a/x")
	if e, err := s.Get(ctx, "a/x"); err != nil || !e.Absent || e.Revision != 0 {
		t.Errorf("%+v, %v: nothing is left", e, err)
	}
	if again, err := s.Create(ctx, "a/x", []byte("3")); err != nil || again <= mark.Revision {
		t.Errorf("%d after %d, %v", again, mark.Revision, err)
	}
}

func storeWatch(t *testing.T, s subject) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, key := range []string{"a/x", "a/y"} {
		if _, err := s.Create(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	seen, synced := map[string]bool{}, false
	for e, err := range s.Watch(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Synced {
			synced = true
			s.remove("a/y")
			continue
		}
		if seen[e.Key] = true; synced {
			if e.Key != "a/y" || !e.Absent {
				t.Errorf("%+v", e)
			}
			break
		}
	}
	if len(seen) != 2 {
		t.Errorf("seen %v", seen)
	}
	for e, err := range s.Watch(ctx, "a/x") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Synced {
			break
		}
		if e.Key != "a/x" || string(e.Value) != "a/x" {
			t.Errorf("%+v", e)
		}
	}
}

func storeEnded(t *testing.T, s subject) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("enough")
	var last error
	for e, err := range s.Watch(ctx, "") {
		if e.Synced {
			cancel(cause)
		}
		last = err
	}
	if !errors.Is(last, cause) {
		t.Errorf("the watch ended with %v", last)
	}
	if _, err := s.Create(ctx, "a/x", []byte("1")); !errors.Is(err, kv.ErrNotWritten) {
		t.Errorf("a write that was never sent: %v", err)
	}
	if _, err := s.Get(ctx, "a/x"); err == nil {
		t.Error("a read that was never sent")
	}
}
