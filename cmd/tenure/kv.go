package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/tenurehq/tenure"
)

// kvCmd looks after NATS buckets.
type kvCmd struct {
	Init kvInitCmd `cmd:"" help:"Create a bucket that is fit for leases, or check one."`
}

type kvInitCmd struct {
	URL      string `arg:"" help:"nats://HOST:PORT/BUCKET"`
	Replicas int    `default:"1" help:"Copies that the cluster keeps: 1, 3 or 5."`
}

// bucketURL splits nats://host:port/bucket into what to dial and the bucket.
func bucketURL(s string) (server, bucket string, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" || strings.Contains(strings.Trim(u.Path, "/"), "/") {
		return "", "", &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: fmt.Sprintf("%q does not name a bucket: write nats://HOST:PORT/BUCKET", s)}
	}
	bucket = strings.Trim(u.Path, "/")
	u.Path = ""
	return u.String(), bucket, nil
}

func (m *Main) openNATS(ctx context.Context, engine string) (tenure.Engine, func() error, error) {
	return nil, nil, &tenure.Error{Code: tenure.ErrUnsupported, Field: "engine", Why: "not built yet"}
}

// Run creates or checks.
func (c *kvInitCmd) Run(ctx context.Context, m *Main) error { return nil }
