package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

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

// patience is how long a command waits for an engine that has stopped
// answering, beyond what it waits for a holder.
const patience = 5 * time.Second

// errSilent is why it does not wait longer.
var errSilent = fmt.Errorf("the engine has not answered for %v", patience)

// bounded ends a call to an engine that does not answer, which would otherwise
// be repeated until it does. One that judges late takes its time, and bounds
// each of its requests itself.
func bounded(ctx context.Context, eng tenure.Engine, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == tenure.WaitForever || eng.Caps().JudgesLate {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, wait+patience, errSilent)
}

// open opens the engine that the flags name. This is the one place where
// engines are told apart.
func (m *Main) open(ctx context.Context, g *Globals) (eng tenure.Engine, done func() error, err error) {
	kind, rest, _ := strings.Cut(g.Engine, ":")
	if (g.CA != "" || g.TokenFile != "") && kind != "http" && kind != "https" {
		return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: "--ca and --token-file are for a server: give --engine https://HOST:PORT, or leave them out"}
	}
	switch kind {
	case "":
		return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: "no engine is named. " +
			"Start a server (tenure serve), then give --engine http://127.0.0.1:7070 or set TENURE_ENGINE to it; " +
			"wal:DIR keeps leases in a directory for one process, nats://HOST:PORT/BUCKET in a NATS bucket"}
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
	case "nats":
		return openNATS(ctx, g.Engine)
	}
	return nil, nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "engine", Why: strconv.Quote(g.shown()) +
		" is no engine: write http://HOST:PORT, https://HOST:PORT, wal:DIR, or nats://HOST:PORT/BUCKET"}
}

// shown is the engine's name without a password in it.
func (g *Globals) shown() string {
	u, err := url.Parse(g.Engine)
	if err != nil || u.User == nil {
		return g.Engine
	}
	return u.Redacted()
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
