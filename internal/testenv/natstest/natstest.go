// Package natstest runs a real NATS server inside a test: JetStream on, every
// write synced before it is answered, on a free port of the loopback interface.
package natstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is one NATS server with a store that survives [Server.Restart]. Its
// methods are called from one goroutine.
type Server struct {
	t       testing.TB
	options server.Options
	running *server.Server // nil while it is stopped
	url     string
}

// ready bounds how long a server may take until it answers.
const ready = 30 * time.Second

// Start runs a server until the test ends. Each edit may change the options
// before the first start; the store is a temporary directory of the test, and
// the port stays the same over restarts, so that clients find it again.
//
// The server has no cluster: durable means synced to this one disk.
func Start(t testing.TB, edits ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{
		ServerName: "natstest",
		Host:       "127.0.0.1",
		Port:       server.RANDOM_PORT,
		JetStream:  true,
		StoreDir:   t.TempDir(),
		SyncAlways: true,
		NoLog:      true,
		NoSigs:     true,
	}}
	for _, edit := range edits {
		edit(&s.options)
	}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// URL is where clients connect, such as nats://127.0.0.1:41234. It holds over
// restarts.
func (s *Server) URL() string { return s.url }

// Stop ends the server and closes every connection to it. Stopping a stopped
// server does nothing.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Restart stops the server if it runs, and starts it on the same port and store.
// A server that does not become ready fails the test.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		s.t.Fatalf("natstest: %v", err)
	}
}

func (s *Server) start() error {
	options := s.options // a server writes into its options
	running, err := server.NewServer(&options)
	if err != nil {
		return err
	}
	running.Start()
	if !running.ReadyForConnections(ready) {
		running.Shutdown()
		return fmt.Errorf("the server is not ready after %v", ready)
	}
	s.running = running
	if s.url == "" {
		s.url = running.ClientURL()
		s.options.Port = options.Port
	}
	return nil
}
