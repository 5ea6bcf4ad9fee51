package keeper

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenurehq/tenure/internal/clock"
)

// The test binary plays three parts: the tests, the keeper, and an agent that a test may freeze or kill.
func TestMain(m *testing.M) {
	switch {
	case IsKeeper(os.Args):
		os.Exit(Main(os.Args))
	case len(os.Args) == 5 && os.Args[1] == "agent":
		os.Exit(agentMain(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

// agentMain starts script with the deadlines term and kill from now, reports on stderr, and waits.
func agentMain(script, term, kill string) int {
	now := clock.Boot().Now()
	deadline := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		return now + d
	}
	c, err := Start(context.Background(), Command{
		Args: []string{"sh", "-c", script}, Stdin: os.Stdin, Stdout: os.Stdout,
	}, deadline(term), deadline(kill))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "child", c.Pid())
	fmt.Fprintln(os.Stderr, "keeper", c.keeper.Process.Pid)
	fmt.Fprintln(os.Stderr, "kill", int64(deadline(kill)))
	exit, err := c.Wait()
	fmt.Fprintln(os.Stderr, "exit", exit, err)
	_, _ = unix.Poll(nil, -1) // the end of a session's leader would take the terminal away
	return 0
}

// long is a deadline that a test which passes never reaches.
const long = time.Minute

// soon is a term deadline that the test waits for. A busy machine takes its time to start three processes.
const soon = 2 * time.Second

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

// board is where the processes of a test write lines.
type board struct {
	t *testing.T
	r *os.File
	w *os.File
	b *bufio.Reader
}

func newBoard(t *testing.T) *board {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &board{t: t, r: r, w: w, b: bufio.NewReader(r)}
}

func (b *board) line() string {
	b.t.Helper()
	_ = b.r.SetReadDeadline(time.Now().Add(limit))
	text, err := b.b.ReadString('\n')
	if err != nil {
		b.t.Fatalf("no line came: %v (got %q)", err, text)
	}
	return strings.TrimSpace(text)
}

func (b *board) expect(want string) {
	b.t.Helper()
	if got := b.line(); got != want {
		b.t.Fatalf("got line %q, want %q", got, want)
	}
}

// number reads a line "word N".
func (b *board) number(word string) int {
	b.t.Helper()
	text := b.line()
	n, err := strconv.Atoi(strings.TrimPrefix(text, word+" "))
	if err != nil {
		b.t.Fatalf("got line %q, want %q and a number", text, word)
	}
	return n
}

// rest returns what is written until every writer is gone.
func (b *board) rest() string {
	b.t.Helper()
	b.w.Close()
	_ = b.r.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(b.b)
	if err != nil {
		b.t.Fatalf("somebody still holds the board: %v", err)
	}
	return string(text)
}

// begin starts script with deadlines from now; its stdout is the board.
func begin(t *testing.T, script string, term, kill time.Duration) (*Child, *board) {
	t.Helper()
	b := newBoard(t)
	now := clock.Boot().Now()
	c, err := Start(t.Context(), Command{Args: []string{"sh", "-c", script}, Stdout: b.w}, now+term, now+kill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(c.keeper.Process.Pid, unix.SIGCONT)
		c.Stop(0)
		<-c.Done()
	})
	return c, b
}

func ended(t *testing.T, c *Child) (Exit, error) {
	t.Helper()
	select {
	case <-c.Done():
		return c.Wait()
	case <-time.After(limit):
		t.Fatal("the child does not end")
		panic("unreachable")
	}
}

func expectExit(t *testing.T, c *Child, want Exit) {
	t.Helper()
	exit, err := ended(t, c)
	if err != nil || exit != want {
		t.Fatalf("ended with %v (%v), want %v", exit, err, want)
	}
}

func expectDead(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if p, ok := readProcess(pid); ok && p.alive() {
			t.Errorf("process %d still lives (state %c)", pid, p.state)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// watcher tells when a process that is nobody's child here dies.
type watcher struct {
	t   *testing.T
	pid int
	fd  int
}

func watchProcess(t *testing.T, pid int) watcher {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return watcher{t, pid, fd}
}

func (w watcher) died() {
	w.t.Helper()
	n, err := retry(func() (int, error) {
		return unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
	})
	if err != nil || n == 0 {
		_ = unix.Kill(w.pid, unix.SIGKILL)
		w.t.Fatalf("process %d does not die (%v)", w.pid, err)
	}
}

// until waits for a reading of clock.Boot.
func until(t *testing.T, at time.Duration) {
	t.Helper()
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for clock.Boot().Now() < at {
		a.set(at)
		<-a.C
	}
}

// freeze returns when the process has stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if p, ok := readProcess(pid); ok && p.state == 'T' {
			return
		}
	}
	t.Fatalf("process %d does not stop", pid)
}

// agent is an agent in a process of its own, with its child.
type agent struct {
	cmd           *exec.Cmd
	child, keeper int
	kill          time.Duration
	report        *board // of the agent
	board         *board // of the child
}

func beginAgent(t *testing.T, script string, term, kill time.Duration, set func(*exec.Cmd)) *agent {
	t.Helper()
	a := &agent{report: newBoard(t), board: newBoard(t)}
	a.cmd = exec.Command("/proc/self/exe", "agent", script, term.String(), kill.String())
	a.cmd.Stdout, a.cmd.Stderr = a.board.w, a.report.w
	if set != nil {
		set(a.cmd)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Signal(syscall.SIGKILL)
		_ = a.cmd.Wait()
	})
	a.child = a.report.number("child")
	a.keeper = a.report.number("keeper")
	a.kill = time.Duration(a.report.number("kill"))
	return a
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
