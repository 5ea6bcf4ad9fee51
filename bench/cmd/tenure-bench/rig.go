package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tenurehq/tenure/bench/load"
	"github.com/tenurehq/tenure/bench/peers"
)

// rig is what runs: the servers, of which only the measured one is not paused.
type rig struct {
	opt      options
	servers  map[string]*peers.Server
	fresh    int // directories given out
	profiled int // profiles that the server was asked for
}

// assemble starts the servers that the plan needs.
func assemble(ctx context.Context, o options, plan []measure) (*rig, error) {
	r := &rig{opt: o, servers: map[string]*peers.Server{}}
	start := map[string]func() (*peers.Server, error){
		"redis":        func() (*peers.Server, error) { return peers.Redis(ctx, o.dir) },
		"redis-memory": func() (*peers.Server, error) { return peers.RedisMemory(ctx, o.dir) },
		"etcd":         func() (*peers.Server, error) { return peers.Etcd(ctx, o.dir) },
		"tenure": func() (*peers.Server, error) {
			binary, err := o.tenure(ctx)
			if err != nil {
				return nil, err
			}
			return peers.Tenure(ctx, o.dir, binary)
		},
	}
	for _, m := range plan {
		for _, c := range m.chosen {
			name := c.subject.server
			if name == "" || r.servers[name] != nil {
				continue
			}
			s, err := start[name]()
			if err != nil {
				return nil, errors.Join(err, r.stop())
			}
			r.servers[name] = s
			if err := s.Pause(); err != nil {
				return nil, errors.Join(err, r.stop())
			}
		}
	}
	return r, nil
}

// tenure is the command to measure, built from this repository if none is
// named.
func (o options) tenure(ctx context.Context) (string, error) {
	if o.binary != "" {
		return filepath.Abs(o.binary)
	}
	binary := filepath.Join(o.dir, "tenure-under-test")
	module, pkg := "github.com/tenurehq/tenure", "./cmd/tenure"
	if o.profile != "" {
		module, pkg = module+"/bench", "./cmd/profiled"
	}
	at, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w: run this in bench/", module, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg)
	build.Dir = strings.TrimSpace(string(at))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tenure: %w\n%s", err, out)
	}
	return binary, nil
}

func (r *rig) stop() error {
	var err error
	for _, s := range r.servers {
		err = errors.Join(err, s.Stop())
	}
	return err
}

func (r *rig) addr(server string) string { return r.servers[server].Addr }

func (r *rig) versions() map[string]string {
	all := map[string]string{}
	for name, s := range r.servers {
		if s.Version != "" {
			all[name] = s.Version
		}
	}
	return all
}

// directory is a new one on the disk that is measured.
func (r *rig) directory() (string, error) {
	r.fresh++
	dir := filepath.Join(r.opt.dir, fmt.Sprintf("embedded-%d", r.fresh))
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

// measure fills the report, round by round. Each round begins with another
// subject, so that none is always measured in the shadow of the same other.
func (r *rig) measure(ctx context.Context, plan []measure, into *report) error {
	for round := range r.opt.rounds {
		for _, m := range plan {
			for _, n := range m.callers {
				cells := slices.DeleteFunc(slices.Clone(m.chosen), func(c cell) bool { return c.callers != n })
				for i := range cells {
					c := cells[(i+round)%len(cells)]
					if err := r.one(ctx, m, c, round, into); err != nil {
						return fmt.Errorf("%s, %d callers, %s: %w", m.name, n, c.subject.name, err)
					}
				}
			}
		}
	}
	return nil
}

// one measures one subject once.
func (r *rig) one(ctx context.Context, m measure, c cell, round int, into *report) (err error) {
	unix.Sync() // nobody pays for what another has left
	server, durability := 0, c.subject.durability
	if c.subject.server != "" {
		s := r.servers[c.subject.server]
		if err := s.Resume(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Pause()) }()
		server = s.PID()
		if durability == "" {
			durability = s.Durability
		}
	}
	w, err := c.subject.open(ctx, r, c.callers)
	if err != nil {
		return err
	}
	profiled, err := r.profile(m, c, round, server)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	result, err := load.Run(ctx, w, c.callers, r.opt.warm, r.opt.duration, server)
	err = errors.Join(err, profiled(), w.Close())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "round %d  %-9s %5d  %-30s %9.0f/s  p50 %v\n", round+1, m.name, c.callers, c.subject.name, result.PerSec, result.P50)
	into.Results = append(into.Results, figure{
		Measure: m.name, Callers: c.callers, Subject: c.subject.name, Durability: durability, Round: round + 1, Result: result,
	})
	return nil
}
