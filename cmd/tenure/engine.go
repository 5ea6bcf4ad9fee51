package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/journal"
)

// withEngine opens the engine that the flags name, runs f on it, and closes it.
func (m *Main) withEngine(ctx context.Context, g *Globals, f func(tenure.Engine) error) error {
	eng, done, err := m.open(ctx, g)
	if err != nil {
		return err
	}
	return errors.Join(f(eng), done())
}

// open opens the engine that the flags name. This is the one place where
// engines are told apart.
func (m *Main) open(ctx context.Context, g *Globals) (eng tenure.Engine, done func() error, err error) {
	kind, rest, _ := strings.Cut(g.Engine, ":")
	switch kind {
	case "":
		return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: "no engine is named. " +
			"Start a server (tenure serve), then give --engine http://127.0.0.1:7070 or set TENURE_ENGINE to it; " +
			"wal:DIR keeps leases in a directory for one process, nats://HOST/BUCKET in a NATS bucket"}
	case "http", "https":
		c, err := client.Dial(ctx, g.Engine, g.dialOptions()...)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	case "wal":
		if rest == "" {
			return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: "write wal:DIR, for example wal:./tenure-data"}
		}
		e, err := journal.Open(rest, journal.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, nil, err
		}
		return e, e.Close, nil
	case "nats", "tls":
		return m.openNATS(ctx, g.Engine)
	}
	return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: quoted(g.Engine) +
		" is no engine: write http://HOST:PORT, https://HOST:PORT, wal:DIR, or nats://HOST/BUCKET"}
}

func (g *Globals) dialOptions() []client.Option {
	var opts []client.Option
	if g.CA != "" {
		opts = append(opts, client.WithCA(g.CA))
	}
	if g.TokenFile != "" {
		opts = append(opts, client.WithTokenFile(g.TokenFile))
	}
	return opts
}
