// Package peers starts the servers that the benchmarks compare, each as a
// process of its own on loopback with its data in a directory of the caller's
// choice, and stops them. It runs on Linux.
package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Server is one running server.
type Server struct {
	Name       string // "redis"
	Addr       string // of its clients' port: 127.0.0.1:PORT
	Version    string
	Durability string // what its acknowledgement of a write means

	cmd    *exec.Cmd
	exited chan struct{}
	cause  error
}

// command says how a server is started.
type command struct {
	name       string
	durability string
	version    []string // prints its version
	run        func(dir string, port, second int) []string
}

// startTimeout bounds the time until a server takes connections.
const startTimeout = 20 * time.Second

// start runs the server in a fresh directory below dir, and returns when it
// takes connections. Its output goes to a file there. It dies with this
// process.
func (c command) start(ctx context.Context, dir string) (*Server, error) {
	dir = filepath.Join(dir, c.name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, second, err := freePorts()
	if err != nil {
		return nil, err
	}
	args := c.run(dir, port, second)
	output, err := os.Create(filepath.Join(dir, "output.log"))
	if err != nil {
		return nil, err
	}
	defer output.Close() // the process has its own
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (./setup installs the peers)", c.name, err)
	}
	s := &Server{
		Name: c.name, Addr: fmt.Sprintf("127.0.0.1:%d", port), Durability: c.durability,
		cmd: cmd, exited: make(chan struct{}),
	}
	go func() {
		s.cause = cmd.Wait()
		close(s.exited)
	}()
	s.Version, err = version(c.version)
	if err := errors.Join(err, s.await(ctx, output.Name())); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// await returns when the server takes connections.
func (s *Server) await(ctx context.Context, output string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended (%w): see %s", s.Name, s.cause, output)
		case <-ctx.Done():
			return fmt.Errorf("%s takes no connections on %s: %w: see %s", s.Name, s.Addr, err, output)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// PID is its process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Pause freezes the process, so that it takes nothing from the one that is
// measured.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends the process, at the latest after ten seconds by force. Its data
// stays.
func (s *Server) Stop() error {
	_ = s.Resume() // a paused process does not hear the rest
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	err := s.cmd.Process.Kill()
	<-s.exited
	return errors.Join(fmt.Errorf("%s did not stop when asked", s.Name), err)
}

func version(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line), nil
}

func freePorts() (int, int, error) {
	a, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer b.Close()
	return a.Addr().(*net.TCPAddr).Port, b.Addr().(*net.TCPAddr).Port, nil
}
