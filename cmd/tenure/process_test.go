package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/testenv"
)

// waitLong is how long a test waits for what must happen, on a machine that is
// busy.
const waitLong = 20 * time.Second

// process is a program of its own.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // it has ended
}

// start runs the real binary until the test ends.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startCommand(t, env, append([]string{testenv.Binary(t)}, args...)...)
}

func startCommand(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.begin()
	return p
}

func (p *process) begin() {
	p.t.Helper()
	// A frozen keeper or a child must not keep Wait from returning.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its exit code is in ProcessState
		close(p.done)
	}()
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Logf("%s\n%s%s", strings.Join(p.cmd.Args, " "), p.out.String(), p.err.String())
		}
	})
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill is kill -9, and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// ends waits for the end and returns what it came to.
func (p *process) ends() answer {
	p.t.Helper()
	testenv.Eventually(p.t, waitLong, "the end of "+strings.Join(p.cmd.Args, " "), p.ended)
	return answer{code: p.cmd.ProcessState.ExitCode(), out: p.out.String(), err: p.err.String()}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// says waits until the program has written the words to standard error.
func (p *process) says(words string) {
	p.t.Helper()
	testenv.Eventually(p.t, waitLong, "it says "+words, func() bool { return strings.Contains(p.err.String(), words) })
}

// daemon is a server in a process of its own, on a port and a directory that
// stay the same over restarts.
type daemon struct {
	*process
	url   string
	data  string
	flags []string
	via   []string // what stands before the binary, such as ip netns exec
}

// serve starts a server on a free port of the loopback interface.
func serve(t *testing.T, flags ...string) *daemon {
	t.Helper()
	d := &daemon{data: t.TempDir(), flags: append([]string{"--listen", "127.0.0.1:0"}, flags...)}
	d.restart(t)
	return d
}

// restart starts it again; it must have ended.
func (d *daemon) restart(t *testing.T) {
	t.Helper()
	args := append(append([]string{}, d.via...), testenv.Binary(t), "serve", "--data", d.data)
	d.process = &process{t: t, cmd: exec.Command(args[0], append(args[1:], d.flags...)...), done: make(chan struct{})}
	d.cmd.Stderr = &d.err
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d.cmd.Stdout = w
	d.begin()
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(waitLong))
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not say that it serves: %v\n%s", err, d.err.String())
	}
	_, d.url, _ = strings.Cut(strings.TrimSpace(line), "serving on ")
	_, address, _ := strings.Cut(d.url, "://")
	d.flags = append(d.flags, "--listen", address) // the last one counts
}
