package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Server serves one engine. It is used for one [Server.Serve] and does not
// close the engine.
type Server struct {
	engine  tenure.Engine
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	auth    auth

	waits    quota
	listings *listings
	seen     atomic.Uint64 // the highest LSN in any answer of the engine

	// base is over when calls are to be abandoned, draining when no more are
	// taken. Draining ends first.
	base     context.Context
	stop     context.CancelFunc
	draining context.Context
	drain    context.CancelFunc

	rpc  *grpc.Server
	http *http.Server
	used atomic.Bool
}

// New returns a server for the engine. Files named in the configuration are
// read by [Server.Serve].
func New(engine tenure.Engine, cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{engine: engine, cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics)}
	s.base, s.stop = context.WithCancel(context.Background())
	s.draining, s.drain = context.WithCancel(s.base)
	s.waits = quota{most: cfg.MaxWaits, used: make(map[string]int)}
	s.listings = newListings(s.base, engine)
	return s
}

// Serve takes connections from l until ctx ends; then it drains: no new
// connections or calls, waits and watches end, calls in flight are finished,
// for at most [Config].DrainTimeout. It closes l. It returns nil after a drain,
// and otherwise why it could not serve. See [CheckListen] for addresses that
// it refuses.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.used.Swap(true) {
		return errors.New("server: it has served before: make a new one")
	}
	defer s.stop()
	secure, err := s.prepare(l)
	if err != nil {
		_ = l.Close()
		return err
	}
	door := newDoor(l, secure, s.cfg, s.metrics, s.log)
	s.build()

	failed := make(chan error, 3)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- door.accept() })
	serving.Go(func() { failed <- s.rpc.Serve(door.rpc) })
	serving.Go(func() {
		if err := s.http.Serve(door.http); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	select {
	case <-ctx.Done():
	case err = <-failed:
		if err == nil {
			err = errors.New("the listener was closed")
		}
	}
	s.finish(door)
	serving.Wait()
	s.listings.close()
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// prepare reads the files and checks that the address may be served.
func (s *Server) prepare(l net.Listener) (*tlsFiles, error) {
	if _, tcp := l.Addr().(*net.TCPAddr); tcp {
		if err := CheckListen(l.Addr().String(), s.cfg); err != nil {
			return nil, err
		}
	}
	var err error
	if s.auth, err = readAuth(s.cfg.AuthTokenFile); err != nil {
		return nil, err
	}
	return readTLS(s.cfg)
}

// build makes the two servers that share the door.
func (s *Server) build() {
	s.rpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(s.cfg.MaxMessage),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.MaxHeaderListSize(maxHeader),
		// Fixed windows: measuring the bandwidth for growing ones pings on every
		// message, which is a quarter of a small call's time.
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.ConnectionTimeout(s.cfg.HeaderTimeout),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: s.cfg.IdleTimeout,
			Time:              pingAfter,
			Timeout:           pingWithin,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingAfter, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	)
	pb.RegisterLeaseServiceServer(s.rpc, &leases{Server: s})
	pb.RegisterAdminServiceServer(s.rpc, &admin{Server: s})
	s.http = &http.Server{
		Handler:           s.prompt(s.routes()),
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
}

// finish ends everything, in bounded time.
func (s *Server) finish(door *door) {
	s.drain()
	door.close()
	bounded, cancel := context.WithTimeout(s.base, s.cfg.DrainTimeout)
	defer cancel()
	var done sync.WaitGroup
	done.Go(s.rpc.GracefulStop)
	done.Go(func() { _ = s.http.Shutdown(bounded) })
	drained := make(chan struct{})
	go func() {
		done.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-bounded.Done():
		s.log.Warn("calls in flight were abandoned", "after", s.cfg.DrainTimeout)
		s.stop()
		_ = s.http.Close()
		s.rpc.Stop()
		<-drained
	}
}

// closing is the answer to calls that come while the server drains, and to
// waits that it ends.
func closing() error {
	return &tenure.Error{Code: tenure.ErrUnavailable, Why: "the server is closing: try again when it is back"}
}

// waiting is the context of a call that waits: it ends with the caller's, and
// when the server drains.
func (s *Server) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.draining, func() { cancel(closing()) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// observed notes what the engine answered, and returns the highest LSN so far.
func (s *Server) observed(lsn tenure.LSN) uint64 {
	for {
		seen := s.seen.Load()
		if seen >= uint64(lsn) || s.seen.CompareAndSwap(seen, uint64(lsn)) {
			return max(seen, uint64(lsn))
		}
	}
}

// refused notes what an error says the engine observed.
func (s *Server) refused(err error) error {
	var e *tenure.Error
	if errors.As(err, &e) {
		s.observed(e.LSN)
	}
	return err
}

// How a connection that was cut without a reset is noticed: pinged after this
// long in silence, given up after this long without an answer.
const (
	pingAfter  = 5 * time.Second
	pingWithin = 5 * time.Second
)

// maxHeader bounds the header of one request, in bytes.
// window is how much a client may have sent that was not taken yet, in bytes, on
// one stream and on one connection.
const window = 1 << 20

const maxHeader = 32 << 10
