package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenurehq/tenure"
)

// Config tunes a server. The zero value serves plaintext on loopback.
type Config struct {
	Version string // what Status reports

	TLSCert, TLSKey string // files in PEM; both or neither
	AuthTokenFile   string // file with the bearer token that every call must carry; read once

	// Stats counts leases for Status; nil leaves them out.
	Stats func() Stats
	// Ready says why no calls can be served, for example that the engine has
	// halted; nil means always ready.
	Ready func() error

	Metrics *prometheus.Registry // where the server's metrics go, and what /metrics shows; nil means one of its own
	Logger  *slog.Logger         // nil discards

	// Bounds (T12); 0 means the default.
	MaxMessage int // bytes in one request body or stream message: 1 MiB
	MaxConns   int // connections: 10,000; more are closed at once
	MaxStreams int // calls and streams on one connection: 128
	MaxCalls   int // calls in flight in one packed stream, waits aside: 4,096
	MaxWaits   int // claims that wait on one connection: 10,000

	HeaderTimeout time.Duration // for TLS, headers, and request bodies to arrive: 10 s
	IdleTimeout   time.Duration // a connection without calls is closed after it: 5 min
	DrainTimeout  time.Duration // calls in flight are abandoned after it: 10 s
}

// Stats is what an engine counts of itself.
type Stats struct {
	LSN    tenure.LSN
	Leases map[tenure.State]int // live leases by state
}

func (c Config) withDefaults() Config {
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, bound := range []struct {
		field *int
		usual int
	}{
		{&c.MaxMessage, 1 << 20},
		{&c.MaxConns, 10_000},
		{&c.MaxStreams, 128},
		{&c.MaxCalls, 4_096},
		{&c.MaxWaits, 10_000},
	} {
		if *bound.field <= 0 {
			*bound.field = bound.usual
		}
	}
	for _, limit := range []struct {
		field *time.Duration
		usual time.Duration
	}{
		{&c.HeaderTimeout, 10 * time.Second},
		{&c.IdleTimeout, 5 * time.Minute},
		{&c.DrainTimeout, 10 * time.Second},
	} {
		if *limit.field <= 0 {
			*limit.field = limit.usual
		}
	}
	return c
}

// CheckListen refuses, with an [tenure.Error] of code ErrInvalid that spells
// the flags out, to serve where others than this machine reach the port,
// unless TLS and a token are configured.
func CheckListen(addr string, cfg Config) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "listen", Why: fmt.Sprintf("%q is not an address: write HOST:PORT, for example 127.0.0.1:7070", addr)}
	}
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		return &tenure.Error{Code: tenure.ErrInvalid, Field: "tls", Why: "a certificate and its key go together: give --tls-cert FILE and --tls-key FILE"}
	}
	if loopback(host) || cfg.TLSCert != "" && cfg.AuthTokenFile != "" {
		return nil
	}
	var missing []string
	if cfg.TLSCert == "" {
		missing = append(missing, "--tls-cert FILE", "--tls-key FILE")
	}
	if cfg.AuthTokenFile == "" {
		missing = append(missing, "--auth-token-file FILE")
	}
	return &tenure.Error{Code: tenure.ErrInvalid, Field: "listen", Why: fmt.Sprintf(
		"%s can be reached from other machines, and whoever reaches it could take any lease: add %s, or listen on 127.0.0.1",
		addr, strings.Join(missing, " "))}
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
