package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv"
)

// The command that runs under leases here is this test binary. It writes what
// happens to it into a record, and holds a lock on a file beside it as long as
// it lives: one that finds the lock taken has met its predecessor alive.
const (
	workerEnv = "TENURE_TEST_WORKER" // polite: ends on SIGTERM; stubborn: does not
	recordEnv = "TENURE_TEST_RECORD"
	exitEnv   = "TENURE_TEST_EXIT" // a polite worker's exit code
)

func work(mode string) int {
	name := os.Getenv(recordEnv)
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return note(name, "broken", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		note(name, "overlap", err)
	}
	note(name, "start", fmt.Sprintf("%d %s %s %s", syscall.Getpgrp(), os.Getenv("TENURE_TOKEN"), os.Getenv("TENURE_LEASE_ID"), strings.ReplaceAll(os.Getenv("TENURE_RESOURCES"), "\n", "|")))
	tooLong := time.After(time.Minute)
	for {
		select {
		case s := <-asked:
			note(name, "signal", s)
			if s == syscall.SIGTERM && mode == "polite" {
				code, _ := strconv.Atoi(os.Getenv(exitEnv))
				return code
			}
		case <-tooLong:
			return note(name, "broken", "nobody ended it")
		}
	}
}

// note appends a line: what happened, by whom, when, and more.
func note(name, what string, more any) int {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %d %d %v\n", what, os.Getpid(), clock.Boot().Now(), more)
	return 99
}

// record is what workers wrote.
type record struct {
	t    *testing.T
	name string
}

// entry is one line of a record.
type entry struct {
	what string
	pid  int
	at   time.Duration // boot time
	more []string
}

// newRecord is an empty one. At the end of the test nobody may have met anybody
// in it.
func newRecord(t *testing.T) *record {
	r := &record{t: t, name: filepath.Join(t.TempDir(), "record")}
	t.Cleanup(func() {
		for _, e := range r.entries() {
			if e.what == "overlap" || e.what == "broken" {
				t.Errorf("worker %d: %s %v", e.pid, e.what, e.more)
			}
		}
		if t.Failed() {
			b, _ := os.ReadFile(r.name)
			t.Logf("the record:\n%s", b)
		}
	})
	return r
}

func (r *record) entries() []entry {
	b, err := os.ReadFile(r.name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var all []entry
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		pid, _ := strconv.Atoi(f[1])
		at, _ := strconv.ParseInt(f[2], 10, 64)
		all = append(all, entry{what: f[0], pid: pid, at: time.Duration(at), more: f[3:]})
	}
	return all
}

// started waits until n workers have started, and returns the last of them.
func (r *record) started(n int) entry {
	r.t.Helper()
	return r.await(n, "start", "")
}

// await waits for the n-th entry of this kind that says the word, if one is
// given.
func (r *record) await(n int, what, word string) (found entry) {
	r.t.Helper()
	testenv.Eventually(r.t, waitLong, fmt.Sprintf("%d entries %q %q in the record", n, what, word), func() bool {
		count := 0
		for _, e := range r.entries() {
			if e.what == what && (word == "" || slices.Contains(e.more, word)) {
				found = e
				count++
			}
		}
		return count >= n
	})
	return found
}

// starts counts the workers that have started.
func (r *record) starts() (n int) {
	for _, e := range r.entries() {
		if e.what == "start" {
			n++
		}
	}
	return n
}

// environment makes a command a worker.
func (r *record) environment(mode string, more ...string) []string {
	return append([]string{workerEnv + "=" + mode, recordEnv + "=" + r.name}, more...)
}

// alive reports whether the process runs, and is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}
