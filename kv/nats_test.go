package kv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/testenv/natstest"
	"github.com/tenurehq/tenure/kv"
)

// short is a claim whose takeover a test can wait for.
func short(h tenure.Holder) tenure.Claim {
	return tenure.Claim{Resources: []tenure.Resource{press}, Holder: h, TTL: 300 * time.Millisecond, Grace: 100 * time.Millisecond}
}

func natsEngine(t *testing.T, s *natstest.Server, bucket string) *kv.Engine {
	t.Helper()
	e, err := kv.NATS(t.Context(), connect(t, s), bucket, kv.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestUnsafeBucketsAreRefused(t *testing.T) {
	server := natstest.Start(t)
	js := connect(t, server)
	good := func(edit func(c *jetstream.StreamConfig)) jetstream.StreamConfig {
		c := jetstream.StreamConfig{Storage: jetstream.FileStorage, Replicas: 1, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			AllowRollup: true, DenyDelete: true, AllowDirect: true, MaxMsgSize: -1}
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		config   jetstream.StreamConfig
		replicas int
		want     string
	}{
		"ttl":      {good(func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), 1, "TTL"},
		"marks":    {good(func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true; c.SubjectDeleteMarkerTTL = time.Minute }), 1, "expire"},
		"memory":   {good(func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }), 1, "memory"},
		"replicas": {good(func(*jetstream.StreamConfig) {}), 3, "1 replicas, 3 are asked for"},
		"dropping": {good(func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld; c.MaxBytes = 1 << 20 }), 1, "drops its oldest"},
		"interest": {good(func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }), 1, "retention"},
		"no-ack":   {good(func(c *jetstream.StreamConfig) { c.NoAck = true }), 1, "acknowledge"},
		"async":    {good(func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode; c.AllowRollup = true }), 1, "before it stores"},
		"no-kv":    {good(func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }), 1, "not a key-value bucket"},
		"small":    {good(func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }), 1, "1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Name, c.config.Subjects = "KV_"+name, []string{"$KV." + name + ".>"}
			if _, err := js.CreateStream(t.Context(), c.config); err != nil {
				t.Fatal(err)
			}
			o := kv.NATSOptions{Replicas: c.replicas}
			_, opened := kv.NATS(t.Context(), js, name, o)
			for what, err := range map[string]error{"open": opened, "init": kv.InitNATS(t.Context(), js, name, o)} {
				if tenure.CodeOf(err) != tenure.ErrInvalid || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v, want the bucket and %q", what, err, c.want)
				}
			}
		})
	}
	_, err := kv.NATS(t.Context(), js, "nowhere", kv.NATSOptions{})
	if tenure.CodeOf(err) != tenure.ErrUnavailable || !strings.Contains(err.Error(), "tenure kv init") {
		t.Errorf("no bucket: %v", err)
	}
	for _, bad := range []string{"", "a.b", "a b", "a/b", strings.Repeat("x", 129)} {
		if err := kv.InitNATS(t.Context(), js, bad, kv.NATSOptions{}); tenure.CodeOf(err) != tenure.ErrInvalid {
			t.Errorf("bucket %q: %v", bad, err)
		}
	}
	if err := kv.InitNATS(t.Context(), js, "a", kv.NATSOptions{Replicas: 6}); tenure.CodeOf(err) != tenure.ErrInvalid {
		t.Errorf("6 replicas: %v", err)
	}
	if err := kv.InitNATS(t.Context(), js, "three", kv.NATSOptions{Replicas: 3}); tenure.CodeOf(err) != tenure.ErrUnavailable {
		t.Errorf("3 replicas on one server: %v", err)
	}
}

// A bucket made with the tools of NATS, and none of ours, is as good if it is safe.
func TestPlainBucketIsAccepted(t *testing.T) {
	server := natstest.Start(t)
	js := connect(t, server)
	values, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "plain", History: 5})
	if err != nil {
		t.Fatal(err)
	}
	initBucket(t, server, "plain")
	store := aged{openBucket(t, server, "plain")}
	e := engineOn(t, store, kv.Config{})
	l, err := e.Acquire(t.Context(), claim("ann"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := values.Get(t.Context(), key)
	if err != nil || !strings.Contains(string(got.Value()), `"holder":"ann"`) {
		t.Errorf("%v: not readable with the tools of NATS", err)
	}
	if _, err := e.Do(t.Context(), release(l)); err != nil {
		t.Error(err)
	}
}

// proves: T7
func TestBucketCreatedAnewRepeatsNoRevision(t *testing.T) {
	server := natstest.Start(t)
	js := connect(t, server)
	initBucket(t, server, "b")
	a := natsEngine(t, server, "b")
	c := short("ann")
	old, err := a.Acquire(t.Context(), c) // watches: the bucket is young
	if err != nil {
		t.Fatal(err)
	}
	before, err := openBucket(t, server, "b").Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	each, err := a.Renew(t.Context(), []tenure.Ref{old.Ref})
	if err != nil || each[0] == nil {
		t.Fatalf("renewed in a bucket that is gone: %v, %v", each, err)
	}
	initBucket(t, server, "b")
	if each, err = a.Renew(t.Context(), []tenure.Ref{old.Ref}); err != nil || tenure.CodeOf(each[0]) != tenure.ErrNotFound {
		t.Errorf("renewed in another bucket: %v, %v", each, err)
	}
	begun := time.Now()
	next, err := natsEngine(t, server, "b").Acquire(t.Context(), c)
	if err != nil || next.Token.Compare(old.Token) <= 0 {
		t.Fatalf("token %v after %v, %v", next.Token, old.Token, err)
	}
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("taken after %v from a bucket that was just created", took)
	}
	after, err := openBucket(t, server, "b").Get(t.Context(), key)
	if err != nil || after.Revision <= before.Revision {
		t.Errorf("revision %d after %d, %v", after.Revision, before.Revision, err)
	}
}

// proves: T6, T14
func TestFailoverOnNATS(t *testing.T) {
	server := natstest.Start(t)
	initBucket(t, server, "b")
	a, b := natsEngine(t, server, "b"), natsEngine(t, server, "b")
	old, err := a.Acquire(t.Context(), short("ann"))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if each, err := a.Renew(t.Context(), []tenure.Ref{old.Ref}); err != nil || each[0] != nil {
		t.Fatal(each, err)
	}
	l, err := b.Acquire(t.Context(), short("bob")) // nobody renews any more
	took := time.Since(begun)
	if err != nil || l.Prior != tenure.EndingTaken || took < 400*time.Millisecond {
		t.Errorf("taken after %v, prior %v, %v", took, l.Prior, err)
	}
	if each, err := a.Renew(t.Context(), []tenure.Ref{old.Ref}); err != nil || tenure.CodeOf(each[0]) != tenure.ErrStale {
		t.Errorf("the old holder: %v, %v", each, err)
	}

	c := short("ann")
	c.Wait, c.TTL = tenure.WaitForever, time.Hour
	type answer struct {
		lease tenure.Lease
		err   error
	}
	done := make(chan answer, 1)
	go func() { l, err := a.Acquire(t.Context(), c); done <- answer{l, err} }()
	if _, err := b.Do(t.Context(), release(l)); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || got.lease.Prior != tenure.EndingClean {
		t.Errorf("prior %v, %v", got.lease.Prior, got.err)
	}
}

func TestWaitOutlivesTheServer(t *testing.T) {
	server := natstest.Start(t)
	initBucket(t, server, "b")
	a, b := natsEngine(t, server, "b"), natsEngine(t, server, "b")
	c := short("ann")
	c.TTL = tenure.NoTTL
	c.Op = tenure.NewOp(0)
	js := connect(t, server)
	if s, err := js.Stream(t.Context(), "KV_b"); err != nil || s.CachedInfo().Created.IsZero() {
		t.Fatal(err)
	}
	l, err := engineOn(t, aged{openBucket(t, server, "b")}, kv.Config{}).Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	wait := short("bob")
	wait.Wait = tenure.WaitForever
	go func() { _, err := b.Acquire(ctx, wait); done <- err }()
	server.Restart()
	for { // the connection comes back by itself
		if _, err = a.Do(ctx, release(l)); err == nil || tenure.CodeOf(err) != tenure.ErrUnavailable && tenure.CodeOf(err) != tenure.ErrUnknownOutcome {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The longest name that the vocabulary allows has a key in NATS.
func TestLongestNameOnNATS(t *testing.T) {
	server := natstest.Start(t)
	initBucket(t, server, "b")
	e := engineOn(t, aged{openBucket(t, server, "b")}, kv.Config{})
	ns := strings.TrimSuffix(strings.Repeat(strings.Repeat("n", tenure.MaxElementBytes)+".", tenure.MaxNamespaceElements), ".")
	r := tenure.Resource(ns + "/" + strings.Repeat("ü", tenure.MaxKeyBytes/2))
	c := claim("ann")
	c.Resources = []tenure.Resource{r}
	l, err := e.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for got, err := range e.List(t.Context(), tenure.Filter{Resource: r}) {
		if n++; err != nil || got.Resource != r {
			t.Errorf("%q, %v", got.Resource, err)
		}
	}
	if n != 1 {
		t.Errorf("%d leases", n)
	}
	if _, err := e.Do(t.Context(), release(l)); err != nil {
		t.Error(err)
	}
}
