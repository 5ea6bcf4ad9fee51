package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure/internal/keeper"
	"github.com/tenurehq/tenure/internal/testenv"
)

func TestMain(m *testing.M) {
	if keeper.IsKeeper(os.Args) { // of a run in this process
		os.Exit(keeper.Main(os.Args))
	}
	if mode := os.Getenv(workerEnv); mode != "" {
		os.Exit(work(mode))
	}
	if signal.Ignored(syscall.SIGINT) { // in the background of a script; the programs under test are to hear it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
	os.Exit(testenv.Main(m))
}

// output takes what a program writes, while others read it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// answer is what a command came to.
type answer struct {
	code     int
	out, err string
}

// shell runs commands in this process, on one engine and one environment.
type shell struct {
	t   *testing.T
	env map[string]string
}

func newShell(t *testing.T, engine string) *shell {
	return &shell{t: t, env: map[string]string{"TENURE_ENGINE": engine}}
}

func (s *shell) run(args ...string) answer { return s.runIn(context.Background(), args...) }

func (s *shell) runIn(ctx context.Context, args ...string) answer {
	var out, err output
	m := &Main{Stdout: &out, Stderr: &err, Getenv: func(k string) string { return s.env[k] }}
	code := m.Run(ctx, args)
	return answer{code: code, out: out.String(), err: err.String()}
}

// must runs a command that has to succeed.
func (s *shell) must(args ...string) answer {
	s.t.Helper()
	a := s.run(args...)
	if a.code != 0 {
		s.t.Fatalf("tenure %s: exit code %d\n%s%s", strings.Join(args, " "), a.code, a.out, a.err)
	}
	return a
}

// object runs a command with --json and reads the one object that it prints.
func (s *shell) object(args ...string) map[string]any {
	s.t.Helper()
	return object(s.t, s.must(append(args, "--json")...).out)
}

func object(t *testing.T, line string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		t.Fatalf("%q is not one JSON object: %v", line, err)
	}
	return o
}

// wants fails unless the command ended with the code, and said every word.
func (a answer) wants(t *testing.T, code int, words ...string) {
	t.Helper()
	if a.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", a.code, code, a.out, a.err)
	}
	for _, w := range words {
		if !strings.Contains(a.out+a.err, w) {
			t.Errorf("it does not say %q:\n%s%s", w, a.out, a.err)
		}
	}
}
