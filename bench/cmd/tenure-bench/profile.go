package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// profile records the callers' CPU in this process, and asks the server to
// record its own (see cmd/profiled), until the returned function is called. It
// does so in the first round, for Tenure. What belongs together begins with the
// same number; embedded engines are 00.
func (r *rig) profile(m measure, c cell, round, server int) (func() error, error) {
	if r.opt.profile == "" || round > 0 || !strings.HasPrefix(c.subject.name, "tenure") {
		return func() error { return nil }, nil
	}
	n := 0
	if server != 0 {
		r.profiled++
		n = r.profiled
	}
	name := fmt.Sprintf("%02d-callers-%s-%d.pprof", n, m.name, c.callers)
	f, err := os.Create(filepath.Join(r.opt.profile, name))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if server == 0 {
		return func() error {
			pprof.StopCPUProfile()
			return f.Close()
		}, nil
	}
	if err := syscall.Kill(server, syscall.SIGUSR1); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		err := errors.Join(syscall.Kill(server, syscall.SIGUSR2), f.Close())
		return errors.Join(err, appears(filepath.Join(r.opt.profile, fmt.Sprintf("%02d-server-allocs.pprof", n))))
	}, nil
}

// appears waits for the file that the server writes last.
func appears(name string) error {
	for range 100 {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the server has not written %s", name)
}
