package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv"
)

// underLease starts tenure run with a worker on jobs/x of the engine.
func underLease(t *testing.T, r *record, engine, mode, ttl string, flags ...string) *process {
	t.Helper()
	args := append([]string{"run", "jobs/x", "--engine", engine, "--ttl", ttl, "--grace", "100ms"}, flags...)
	return start(t, r.environment(mode), append(args, "--", os.Args[0])...)
}

// A wall of one, and what stands before it.
func TestRunWaitsAndSaysForWhom(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	first := underLease(t, r, d.url, "polite", "15s", "--holder", "alice")
	one := r.started(1)
	underLease(t, r, d.url, "polite", "15s", "-n").ends().wants(t, exitHeld, "held jobs/x", `"alice"`)
	underLease(t, r, d.url, "polite", "15s", "--wait", "50ms").ends().wants(t, exitHeld, "held jobs/x")
	second := underLease(t, r, d.url, "polite", "15s")
	second.says("waiting for jobs/x, lease " + one.more[2] + " of alice (active)")
	if n := r.starts(); n != 1 {
		t.Errorf("%d workers run", n)
	}
	first.signal(syscall.SIGTERM)
	first.ends().wants(t, 0)
	if two := r.started(2); two.more[1] <= one.more[1] { // tokens rise
		t.Errorf("token %s after %s", two.more[1], one.more[1])
	}
	second.signal(syscall.SIGTERM)
	second.ends().wants(t, 0)
}

func TestRunGivesTheCommandWhatItNeeds(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	long := start(t, nil, "run", "jobs/long", "--engine", d.url, "--ttl", "2s", "--", "sleep", "3")
	p := start(t, r.environment("polite", exitEnv+"=7", "TENURE_TOKEN=0-1.1", "TENURE_RESOURCES=outer/x"),
		"run", "jobs/x", "plain", "--engine", d.url, "--", os.Args[0])
	e := r.started(1)
	token := newShell(t, d.url).object("lease", "show", "jobs/x")["token"].(string)
	if e.more[0] != fmt.Sprint(e.pid) || e.more[1] != token || e.more[2] != strings.TrimSuffix(token, ".1") || e.more[3] != "jobs/x|default/plain" {
		t.Errorf("process %d has group, token, lease, resources %q; the token is %s", e.pid, e.more, token)
	}
	if e.pid == p.cmd.Process.Pid {
		t.Error("the command is the program itself")
	}
	for _, s := range []struct {
		syscall.Signal
		name string
	}{{syscall.SIGHUP, "hangup"}, {syscall.SIGINT, "interrupt"}, {syscall.SIGUSR1, "user"}, {syscall.SIGTERM, "terminated"}} {
		p.signal(s.Signal)
		r.await(1, "signal", s.name)
	}
	p.ends().wants(t, 7)
	newShell(t, d.url).run("lease", "show", e.more[2]).wants(t, 0, "released", "failed exit code 7")

	sh := func(script string) answer {
		p := start(t, nil, "run", "jobs/y", "--engine", d.url, "--", "sh", "-c", script)
		return p.ends()
	}
	if a := sh("echo out; echo err >&2"); a.code != 0 || a.out != "out\n" || a.err != "err\n" {
		t.Errorf("%+v", a)
	}
	sh("kill -KILL $$").wants(t, 137)
	if env := sh("env | grep -c ^TENURE_TOKEN="); env.out != "1\n" {
		t.Errorf("%+v", env)
	}
	// What a command leaves behind is gone before the lease is given back.
	if a := sh("sleep 60 & echo $!"); a.code != 0 || alive(atoi(t, a.out)) {
		t.Errorf("%+v: the rest lives", a)
	}
	long.ends().wants(t, 0) // longer than the TTL
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRunRefusesACommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	d := serve(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/shell\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string) answer {
		return start(t, nil, "run", "jobs/x", "--engine", d.url, "--", name).ends()
	}
	run("no-such-command").wants(t, exitNotFound, "cannot start no-such-command")
	run(script).wants(t, exitNotStarted, "permission denied")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	run(script).wants(t, exitNotFound, "cannot start")
	if a := newShell(t, d.url).must("lease", "ls", "--json"); a.out != "" {
		t.Errorf("a lease is left: %s", a.out)
	}
}

func TestRunInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	sh := newShell(t, d.url)
	token := sh.object("lease", "acquire", "jobs/x", "--ttl", "1m")["token"].(string)
	for s, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		p := underLease(t, r, d.url, "polite", "15s")
		p.says("waiting for")
		p.signal(s)
		p.ends().wants(t, code, "tenure: interrupted")
	}
	sh.must("lease", "release", token)
	if a := sh.must("lease", "ls", "--json"); a.out != "" || r.starts() != 0 {
		t.Errorf("after the interruption: %s, %d workers", a.out, r.starts())
	}
}

// proves: T14
func TestRunEndsTheCommandWhenTheLeaseIsRevoked(t *testing.T) {
	t.Parallel()
	d := serve(t)
	sh := newShell(t, d.url)
	for _, mode := range []string{"polite", "stubborn"} {
		r := newRecord(t)
		p := underLease(t, r, d.url, mode, "2s")
		e := r.started(1)
		next := underLease(t, r, d.url, "polite", "2s")
		next.says("waiting for")
		sh.must("lease", "revoke", "jobs/x", "--reason", "maintenance")
		r.await(1, "signal", "terminated")
		p.ends().wants(t, exitLost, "the lease is lost, the command is being stopped", "tenure: lost jobs/x")
		if alive(e.pid) {
			t.Errorf("%s: the command lives", mode)
		}
		r.started(2)
		next.signal(syscall.SIGTERM)
		next.ends().wants(t, 0)
	}
}

// proves: T14
func TestAFrozenParentsChildIsDeadBeforeItsSuccessorStarts(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for _, mode := range []string{"polite", "stubborn"} {
		r := newRecord(t)
		p := underLease(t, r, d.url, mode, "1500ms")
		e := r.started(1)
		next := underLease(t, r, d.url, "polite", "15s")
		next.says("waiting for")
		p.signal(syscall.SIGSTOP)
		frozen := clock.Boot().Now()
		gone(t, e, frozen+1500*time.Millisecond)
		r.started(2)
		p.signal(syscall.SIGCONT)
		p.ends().wants(t, exitLost, "tenure: lost jobs/x")
		if n := r.starts(); n != 2 {
			t.Errorf("%d workers", n)
		}
		next.signal(syscall.SIGTERM)
		next.ends().wants(t, 0)
	}
}

// unseen is how long a death may go unnoticed on a busy machine. Where there is
// a successor, the lock that both take is the exact judge.
const unseen = 400 * time.Millisecond

// gone waits until a worker is dead, and fails if that was not by a time on the
// boot clock: the last renewal that can have been sent, plus the TTL.
func gone(t *testing.T, e entry, by time.Duration) {
	t.Helper()
	testenv.Eventually(t, waitLong, "the end of the command", func() bool { return !alive(e.pid) })
	if late := clock.Boot().Now() - by; late > unseen {
		t.Errorf("the command lived for %v beyond the TTL", late)
	}
}

func TestTheCommandDiesWithItsParent(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	p := underLease(t, r, d.url, "stubborn", "2s")
	e := r.started(1)
	next := underLease(t, r, d.url, "polite", "15s")
	next.says("waiting for")
	killed := clock.Boot().Now()
	p.kill()
	gone(t, e, killed+2*time.Second)
	r.started(2)
}

// proves: T14
func TestAKilledServersCommandsAreDeadByTheirDeadline(t *testing.T) {
	t.Parallel()
	d := serve(t)
	runs := map[string]*process{}
	var workers []entry
	for _, mode := range []string{"polite", "stubborn"} {
		r := newRecord(t)
		runs[mode] = start(t, r.environment(mode), "run", "jobs/"+mode, "--engine", d.url, "--ttl", "1500ms", "--", os.Args[0])
		workers = append(workers, r.started(1))
	}
	killed := clock.Boot().Now()
	d.kill()
	for _, e := range workers {
		gone(t, e, killed+1500*time.Millisecond)
	}
	for mode, p := range runs {
		p.ends().wants(t, exitLost, "could not renew", "tenure: lost jobs/"+mode)
	}
}

func TestARestartedServerGrantsOnlyAfterTheCommandIsDead(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	p := underLease(t, r, d.url, "stubborn", "2s")
	e := r.started(1)
	next := underLease(t, r, d.url, "polite", "15s")
	next.says("waiting for")

	d.kill() // and back within the TTL: nothing is lost, nobody is let in
	d.restart(t)
	renewed(t, d.url, 2)
	if !alive(e.pid) || r.starts() != 1 {
		t.Errorf("after a short restart: alive %v, %d workers", alive(e.pid), r.starts())
	}

	p.signal(syscall.SIGSTOP) // nobody renews, and the server knows nothing of the time before
	frozen := clock.Boot().Now()
	d.kill()
	d.restart(t)
	gone(t, e, frozen+2*time.Second)
	r.started(2)
	p.signal(syscall.SIGCONT)
	p.ends().wants(t, exitLost)
	next.signal(syscall.SIGTERM)
	next.ends().wants(t, 0)
}

func TestRunOnADirectoryNeedsNoServer(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	engine := "wal:" + filepath.Join(t.TempDir(), "data")
	p := underLease(t, r, engine, "polite", "15s")
	one := r.started(1)
	underLease(t, r, engine, "polite", "15s").ends().wants(t, exitUnavailable, "another process has it open")
	p.signal(syscall.SIGTERM)
	p.ends().wants(t, 0)
	q := underLease(t, r, engine, "polite", "15s")
	two := r.started(2)
	if slices.Compare(one.more[1:2], two.more[1:2]) >= 0 {
		t.Errorf("token %s after %s", two.more[1], one.more[1])
	}
	q.signal(syscall.SIGTERM)
	q.ends().wants(t, 0)
}
