package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/kv"
)

// kvCmd looks after NATS buckets.
type kvCmd struct {
	Init kvInitCmd `cmd:"" help:"Create a bucket that is fit for leases, or check one."`
}

type kvInitCmd struct {
	URL      string `arg:"" help:"nats://HOST:PORT/BUCKET"`
	Replicas int    `default:"1" help:"Copies that the cluster keeps: 1 to 5; more than half of them must live."`
}

// Run creates or checks.
func (c *kvInitCmd) Run(ctx context.Context, m *Main, g *Globals) error {
	b, err := dialBucket(c.URL)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	if err := kv.InitNATS(ctx, b.js, b.name, kv.NATSOptions{Replicas: c.Replicas}); err != nil {
		return err
	}
	f := checkBucket(ctx, c.URL)
	if g.JSON {
		return m.printJSON(f)
	}
	fmt.Fprintln(m.Stdout, f.Found)
	return nil
}

// bucket is a connection to a NATS server, and the bucket that is meant there.
type bucket struct {
	conn *nats.Conn
	js   jetstream.JetStream
	name string
}

// dialBucket connects to the server in nats://host:port/bucket.
func dialBucket(engine string) (*bucket, error) {
	server, name, err := bucketURL(engine)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(server.String(), nats.Name("tenure"), nats.Timeout(5*time.Second),
		nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond),
		nats.ReconnectBufSize(-1)) // what cannot be sent now must not be sent later
	if err != nil {
		return nil, &tenure.Error{Code: tenure.ErrUnavailable, Cause: err,
			Why: fmt.Sprintf("no NATS server answers at %s: check the address and that it runs", server.Redacted())}
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &bucket{conn: conn, js: js, name: name}, nil
}

// bucketURL splits nats://host:port/bucket into what to dial and the bucket.
func bucketURL(s string) (server *url.URL, name string, err error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, "", &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: "it is no URL: write nats://HOST:PORT/BUCKET"}
	}
	name = strings.Trim(u.Path, "/")
	if u.Scheme != "nats" || u.Host == "" || name == "" || strings.Contains(name, "/") || u.RawQuery != "" {
		return nil, "", &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: fmt.Sprintf("%q does not name a bucket: write nats://HOST:PORT/BUCKET", u.Redacted())}
	}
	u.Path = ""
	return u, name, nil
}

func openNATS(ctx context.Context, engine string) (tenure.Engine, func() error, error) {
	b, err := dialBucket(engine)
	if err != nil {
		return nil, nil, err
	}
	eng, err := kv.NATS(ctx, b.js, b.name, kv.NATSOptions{})
	if err != nil {
		b.conn.Close()
		return nil, nil, err
	}
	return eng, func() error { b.conn.Close(); return nil }, nil
}

// checkBucket looks at how a bucket is stored; whether it is fit for leases is
// for the engine to judge.
func checkBucket(ctx context.Context, engine string) finding {
	f := finding{Check: "bucket"}
	b, err := dialBucket(engine)
	if err != nil {
		f.Found, f.Do = err.Error(), "see docs/OPERATIONS.md"
		return f
	}
	defer b.conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	values, err := b.js.KeyValue(ctx, b.name)
	if err != nil {
		f.Found, f.Do = fmt.Sprintf("bucket %q: %v", b.name, err), "create it: tenure kv init nats://HOST:PORT/"+b.name
		return f
	}
	s, err := values.Status(ctx)
	if err != nil {
		f.Found, f.Do = fmt.Sprintf("bucket %q: %v", b.name, err), "see docs/OPERATIONS.md"
		return f
	}
	stream := s.(*jetstream.KeyValueBucketStatus).StreamInfo() // all there is in this package
	c := stream.Config
	f.OK, f.Found = true, fmt.Sprintf("bucket %q: %s storage, %d replicas, %d keys", b.name, strings.ToLower(c.Storage.String()), c.Replicas, s.Values())
	var behind []string
	if stream.Cluster != nil {
		for _, r := range stream.Cluster.Replicas {
			if r.Offline || !r.Current {
				behind = append(behind, r.Name)
			}
		}
	}
	switch {
	case len(behind) > 0:
		f.OK, f.Found, f.Do = false, f.Found+"; not up to date: "+strings.Join(behind, ", "), "bring these servers back: a bucket stops without more than half of its replicas"
	case c.Replicas == 1:
		f.Found += "; they live on one server's disk, and are as durable as its sync_interval"
	}
	return f
}
