package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

// serveCmd is the server: a journal behind the network API.
type serveCmd struct {
	Listen        string        `default:"127.0.0.1:7070" help:"Address to listen on."`
	Data          string        `default:"./tenure-data" type:"path" help:"Directory of the journal; created if it is not there."`
	TLSCert       string        `name:"tls-cert" type:"existingfile" placeholder:"FILE" help:"Certificate (PEM); needed beyond loopback."`
	TLSKey        string        `name:"tls-key" type:"existingfile" placeholder:"FILE" help:"Its key (PEM)."`
	AuthTokenFile string        `type:"existingfile" placeholder:"FILE" help:"File with the bearer token that every call must carry; needed beyond loopback."`
	Drain         time.Duration `default:"10s" help:"How long calls in flight may take when the server is asked to stop."`
	LogFormat     string        `default:"text" enum:"text,json" help:"How logs are written: text or json."`
	LogLevel      slog.Level    `default:"info" help:"Least severe logs to write: debug, info, warn or error."`

	MaxLeases  int           `default:"1000000" help:"Live leases at most."`
	MaxBundle  int           `default:"64" help:"Resources in one lease at most."`
	MaxTTL     time.Duration `name:"max-ttl" default:"24h" help:"The longest TTL."`
	MaxGrace   time.Duration `default:"24h" help:"The longest grace."`
	History    int           `default:"1000000" help:"Ended leases kept at most."`
	HistoryAge time.Duration `default:"24h" help:"How long ended leases are kept at most."`
}

// Run serves until it is asked to stop, then drains.
func (c *serveCmd) Run(ctx context.Context, m *Main) error {
	log := c.logger(m)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg := server.Config{
		Version: version(), TLSCert: c.TLSCert, TLSKey: c.TLSKey, AuthTokenFile: c.AuthTokenFile,
		Metrics: registry, Logger: log, DrainTimeout: c.Drain,
	}
	// Before a directory is created for nothing.
	if err := errors.Join(server.CheckListen(c.Listen, cfg), c.limits().Validate()); err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return &tenure.Error{Code: tenure.ErrUnavailable, Field: "listen", Cause: err, Why: "another server may be running: stop it, or choose another --listen"}
	}
	eng, err := journal.Open(c.Data, journal.Config{Limits: c.limits(), Logger: log, Registerer: registry})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	cfg.Ready = eng.Halted
	cfg.Stats = func() server.Stats { return server.Stats{LSN: eng.LSN(), Leases: eng.Counts()} }
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(m.Stdout, "tenure: serving on %s://%s\n", scheme, l.Addr())
	err = server.New(eng, cfg).Serve(ctx, l)
	err = errors.Join(err, eng.Halted(), eng.Close())
	if err == nil {
		log.Info("drained and closed")
	}
	return err
}

func (c *serveCmd) limits() tenure.Limits {
	l := tenure.DefaultLimits()
	l.Leases, l.Bundle, l.MaxTTL, l.MaxGrace = c.MaxLeases, c.MaxBundle, c.MaxTTL, c.MaxGrace
	l.History, l.HistoryAge = c.History, c.HistoryAge
	return l
}

func (c *serveCmd) logger(m *Main) *slog.Logger {
	opt := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(m.Stderr, opt))
	}
	return slog.New(slog.NewTextHandler(m.Stderr, opt))
}
