package keeper

import (
	"context"
	"encoding/gob"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenurehq/tenure/internal/clock"
)

const (
	// stubborn ignores SIGTERM and says when it is ready for it.
	stubborn = `trap '' TERM; echo ready; while :; do sleep 60; done`
	// nap waits in a way that a trap interrupts. The shell loses a signal that comes while it forks, so this goes
	// on when sleep runs.
	nap = `sleep 60 & until grep -q sleep /proc/$!/comm; do :; done; `
	// polite says when it gets SIGTERM, and ends.
	polite = nap + `trap 'echo term; exit 3' TERM; echo ready; wait`
)

// proves: T14
func TestChildIsTermedAndKilledOnTime(t *testing.T) {
	t.Parallel()
	now := clock.Boot().Now()
	c, b := begin(t, `trap 'echo term' TERM; echo ready; while :; do sleep 60 & wait; done`, soon, soon+2*time.Second)
	b.expect("ready")
	b.expect("term")
	if at := clock.Boot().Now(); at < now+soon {
		t.Errorf("SIGTERM came %v early", now+soon-at)
	}
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Expired})
	if at := clock.Boot().Now(); at < now+soon+2*time.Second {
		t.Errorf("SIGKILL came %v early", now+soon+2*time.Second-at)
	}
	if more := b.rest(); more != "" {
		t.Errorf("the child got more than one SIGTERM: it also wrote %q", more)
	}
	expectDead(t, c.Pid())
}

func TestChildThatEndsAtSIGTERMKeepsItsCode(t *testing.T) {
	t.Parallel()
	c, b := begin(t, polite, soon, long)
	b.expect("ready")
	b.expect("term")
	expectExit(t, c, Exit{Code: 3, Cause: Expired})
}

func TestExtendMovesOnlyForward(t *testing.T) {
	t.Parallel()
	now := clock.Boot().Now()
	c, b := begin(t, stubborn, soon, soon+100*time.Millisecond)
	b.expect("ready")
	last := now + soon + 600*time.Millisecond
	for _, at := range []time.Duration{now + soon + 300*time.Millisecond, last, now + time.Millisecond} {
		if err := c.Extend(at-100*time.Millisecond, at); err != nil {
			t.Fatal(err)
		}
	}
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Expired})
	if at := clock.Boot().Now(); at < last || at > last+5*time.Second {
		t.Errorf("ended at %v, want soon after %v", at-now, last-now)
	}
	if err := c.Extend(last+long, last+long); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Extend after the end says %v", err)
	}
}

func TestExtendDoesNotReviveAnEndingChild(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, soon, soon+1500*time.Millisecond)
	b.expect("ready")
	now := clock.Boot().Now()
	until(t, now+soon+50*time.Millisecond)
	if err := c.Extend(now+long, now+long); !errors.Is(err, ErrExpired) {
		t.Errorf("Extend after term says %v, want ErrExpired", err)
	}
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Expired})
}

func TestExtendRefusesKillBeforeTerm(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, long, long)
	b.expect("ready")
	now := clock.Boot().Now()
	if err := c.Extend(now+2*long, now+long); err == nil {
		t.Error("accepted")
	}
}

// proves: T14
func TestFrozenAgentsChildDiesOnTime(t *testing.T) {
	t.Parallel()
	a := beginAgent(t, stubborn, soon, soon+200*time.Millisecond, nil)
	a.board.expect("ready")
	child := watchProcess(t, a.child)
	freeze(t, a.cmd.Process.Pid)
	child.died()
	if at := clock.Boot().Now(); at < a.kill || at > a.kill+5*time.Second {
		t.Errorf("died %v after the kill deadline", at-a.kill)
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.report.expect("exit killed by killed, deadline passed <nil>")
}

func TestKilledAgentsChildIsTermedAndThenKilled(t *testing.T) {
	t.Parallel()
	script := `trap 'echo term' TERM; (trap '' TERM; echo $$; exec sleep 60) & echo ready; while :; do sleep 60 & wait; done`
	a := beginAgent(t, script, long, long+300*time.Millisecond, nil)
	child, keeper := watchProcess(t, a.child), watchProcess(t, a.keeper)
	for range 2 {
		a.board.line()
	}
	started := clock.Boot().Now()
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.board.expect("term")
	child.died()
	keeper.died()
	if took := clock.Boot().Now() - started; took < 300*time.Millisecond {
		t.Errorf("SIGKILL came after %v, want 300ms between SIGTERM and SIGKILL", took)
	}
	if more := a.board.rest(); more != "" {
		t.Errorf("more was written: %q", more)
	}
}

func TestKilledAgentDoesNotProlongTheKillDeadline(t *testing.T) {
	t.Parallel()
	a := beginAgent(t, stubborn, soon, soon+2*time.Second, nil)
	a.board.expect("ready")
	child := watchProcess(t, a.child)
	until(t, a.kill-500*time.Millisecond) // in the middle between term and kill
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.died()
	if late := clock.Boot().Now() - a.kill; late > 1200*time.Millisecond {
		t.Errorf("died %v after the kill deadline", late)
	}
}

// family3 writes the numbers of the command, a child in its group, one in a session of its own, and one forked
// away twice.
const family3 = `trap '' TERM
sh -c 'echo group $$; exec sleep 60' &
setsid sh -c 'echo session $$; exec sleep 60' &
(setsid sh -c 'echo daemon $$; exec sleep 60 >/dev/null' &)
`

func members(t *testing.T, b *board) []int {
	t.Helper()
	var pids []int
	for range 3 {
		words := strings.Fields(b.line())
		if len(words) != 2 {
			t.Fatalf("unexpected line %q", words)
		}
		pids = append(pids, atoi(t, words[1]))
	}
	return pids
}

func TestKilledKeeperTakesTheWholeFamilyAlong(t *testing.T) {
	t.Parallel()
	c, b := begin(t, family3+`wait; while :; do sleep 60; done`, long, long)
	pids := append(members(t, b), c.Pid())
	if err := unix.Kill(c.keeper.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit, err := ended(t, c)
	if !errors.Is(err, ErrKeeperLost) || exit.Cause != Unkept || exit.Code != 137 {
		t.Errorf("ended with %v (%v)", exit, err)
	}
	expectDead(t, pids...)
}

// Two faults: the parent-death signal remains for the command itself, and the agent does the rest when it wakes.
func TestChildDiesWithAKilledKeeperWhileTheAgentIsFrozen(t *testing.T) {
	t.Parallel()
	a := beginAgent(t, stubborn, long, long, nil)
	a.board.expect("ready")
	child := watchProcess(t, a.child)
	freeze(t, a.cmd.Process.Pid)
	if err := unix.Kill(a.keeper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	child.died()
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line := a.report.line(); !strings.Contains(line, ErrKeeperLost.Error()) {
		t.Errorf("the agent reports %q", line)
	}
	for _, p := range processes() {
		if p.group == a.child && p.alive() {
			t.Errorf("%+v still lives", p)
		}
	}
}

// proves: T14
func TestFrozenKeepersChildDiesOnTime(t *testing.T) {
	t.Parallel()
	kill := clock.Boot().Now() + soon + 400*time.Millisecond
	c, b := begin(t, family3+`echo ready; while :; do sleep 60; done`, soon, soon+400*time.Millisecond)
	var pids []int
	for len(pids) < 3 {
		if words := strings.Fields(b.line()); len(words) == 2 {
			pids = append(pids, atoi(t, words[1]))
		}
	}
	freeze(t, c.keeper.Process.Pid)
	child := watchProcess(t, c.Pid())
	child.died()
	if at := clock.Boot().Now(); at < kill || at > kill+5*time.Second {
		t.Errorf("died %v after the kill deadline", at-kill)
	}
	exit, err := ended(t, c)
	if !errors.Is(err, ErrKeeperLost) || exit.Cause != Unkept {
		t.Errorf("ended with %v (%v)", exit, err)
	}
	expectDead(t, append(pids, c.Pid(), c.keeper.Process.Pid)...)
}

func TestFrozenKeepersChildGetsSIGTERMFromTheAgent(t *testing.T) {
	t.Parallel()
	c, b := begin(t, polite, soon, soon+500*time.Millisecond)
	b.expect("ready")
	freeze(t, c.keeper.Process.Pid)
	b.expect("term")
	if _, err := ended(t, c); !errors.Is(err, ErrKeeperLost) {
		t.Errorf("ended with %v", err)
	}
}

// The keeper cannot report the end, and the lease is renewed for ever: the agent has to notice.
func TestFrozenKeepersChildIsSeenToEndByItself(t *testing.T) {
	t.Parallel()
	c, b := begin(t, `echo ready; exec sleep 60`, long, long+100*time.Millisecond)
	b.expect("ready")
	freeze(t, c.keeper.Process.Pid)
	if err := c.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := ended(t, c); !errors.Is(err, ErrKeeperLost) {
		t.Errorf("ended with %v", err)
	}
}

func TestFrozenKeeperDoesNotLetStopPassTheKillDeadline(t *testing.T) {
	t.Parallel()
	kill := clock.Boot().Now() + soon + 100*time.Millisecond
	c, b := begin(t, stubborn, soon, soon+100*time.Millisecond)
	b.expect("ready")
	freeze(t, c.keeper.Process.Pid)
	child := watchProcess(t, c.Pid())
	c.Stop(long)
	child.died()
	if late := clock.Boot().Now() - kill; late > 5*time.Second {
		t.Errorf("died %v after the kill deadline", late)
	}
}

func TestThawedKeeperReadsTheExtensionBeforeItActs(t *testing.T) {
	t.Parallel()
	c, b := begin(t, polite, soon, soon+100*time.Millisecond)
	b.expect("ready")
	freeze(t, c.keeper.Process.Pid)
	now := clock.Boot().Now()
	for i := range 1000 { // a frozen keeper must not block the agent
		if err := c.Extend(now+long, now+long+time.Duration(i)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, now+soon+300*time.Millisecond)
	if err := unix.Kill(c.keeper.Process.Pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, clock.Boot().Now()+200*time.Millisecond)
	select {
	case <-c.Done():
		t.Fatal("the keeper ended a child whose lease was renewed in time")
	default:
	}
	c.Stop(long)
	b.expect("term")
	expectExit(t, c, Exit{Code: 3, Cause: Stopped})
}

func TestNoDescendantOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"exits": "exit 5", "is killed": "wait; sleep 60"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, b := begin(t, family3+end, long, long+100*time.Millisecond)
			pids := append(members(t, b), c.Pid())
			if name == "is killed" {
				c.Stop(100 * time.Millisecond)
			}
			exit, err := ended(t, c)
			if err != nil || name == "exits" && exit.Code != 5 {
				t.Errorf("ended with %v (%v)", exit, err)
			}
			expectDead(t, pids...)
		})
	}
}

func TestDescendantsLeftBehindAreAskedFirst(t *testing.T) {
	t.Parallel()
	left := `sh -c '` + nap + `trap "echo cleaned; exit" TERM; echo ready; wait'`
	for name, script := range map[string]string{"group": left + ` & read x; exit 0`, "session": `setsid ` + left + ` & read x; exit 0`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, now := newBoard(t), clock.Boot().Now()
			c, err := Start(t.Context(), Command{Args: []string{"sh", "-c", script}, Stdin: r, Stdout: b.w}, now+long, now+2*long)
			if err != nil {
				t.Fatal(err)
			}
			b.expect("ready")
			w.Close() // ends the command
			b.expect("cleaned")
			expectExit(t, c, Exit{Cause: Itself})
		})
	}
}

func TestExitIsReportedExactly(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Exit{
		"exit 0":        {Code: 0},
		"exit 7":        {Code: 7},
		"exit 255":      {Code: 255},
		"kill -KILL $$": {Code: 137, Signal: syscall.SIGKILL},
		"kill -SEGV $$": {Code: 139, Signal: syscall.SIGSEGV},
		"exit 143":      {Code: 143},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c, _ := begin(t, script, long, long)
			expectExit(t, c, want)
			if err := c.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("Signal after the end says %v", err)
			}
		})
	}
}

func TestWhatCannotBeStartedIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name    string
		command Command
		want    error
	}{
		{"unknown name", Command{Args: []string{"no-such-program-at-all"}}, exec.ErrNotFound},
		{"unknown path", Command{Path: dir + "/none", Args: []string{"none"}}, fs.ErrNotExist},
		{"not executable", Command{Path: file("plain", "#!/bin/sh\n", 0o644), Args: []string{"plain"}}, fs.ErrPermission},
		{"a directory", Command{Path: dir, Args: []string{"dir"}}, fs.ErrPermission},
		{"no interpreter", Command{Path: file("text", "just text\n", 0o755), Args: []string{"text"}}, syscall.ENOEXEC},
		{"unknown directory", Command{Args: []string{"true"}, Dir: dir + "/none"}, fs.ErrNotExist},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := clock.Boot().Now()
			_, err := Start(t.Context(), c.command, now+long, now+long)
			var start *StartError
			if !errors.As(err, &start) || !errors.Is(err, c.want) {
				t.Errorf("got %v, want a *StartError that is %v", err, c.want)
			}
		})
	}
	if _, err := Start(t.Context(), Command{}, long, long); err == nil {
		t.Error("an empty command was started")
	}
}

func TestNothingStartsAfterTheDeadline(t *testing.T) {
	t.Parallel()
	touched := filepath.Join(t.TempDir(), "touched")
	c := Command{Args: []string{"touch", touched}}
	now := clock.Boot().Now()
	if _, err := Start(t.Context(), c, now, now+long); !errors.Is(err, ErrPast) {
		t.Errorf("the agent says %v, want ErrPast", err)
	}
	// The keeper judges for itself, as the agent may have been frozen on the way.
	o, err := c.order(now, now+long)
	if err != nil {
		t.Fatal(err)
	}
	k, wire, err := launch(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer abandon(k, wire, o.Mark)
	if err := gob.NewEncoder(wire).Encode(message{Kind: kindStart, Order: o, Term: now, Kill: now + long}); err != nil {
		t.Fatal(err)
	}
	var reply message
	if err := gob.NewDecoder(wire).Decode(&reply); err != nil || reply.Kind != kindPast {
		t.Errorf("the keeper answers %v (%v), want kindPast", reply.Kind, err)
	}
	if _, err := os.Stat(touched); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the command ran")
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	now := clock.Boot().Now()
	if _, err := Start(ctx, Command{Args: []string{"sleep", "60"}}, now+long, now+long); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
}

func TestArgumentsEnvironmentAndDirectoryArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	dir, b, now := t.TempDir(), newBoard(t), clock.Boot().Now()
	c, err := Start(t.Context(), Command{
		Args: []string{"sh", "-c", `printf '%s|' "$0" "$@" "$TOKEN" "$HOME" "$PWD"`, "a b", "\xff\xfe", ""},
		Env:  []string{"TOKEN=0-42.1\xff"}, Dir: dir, Stdout: b.w,
	}, now+long, now+long)
	if err != nil {
		t.Fatal(err)
	}
	expectExit(t, c, Exit{})
	if got, want := b.rest(), "a b|\xff\xfe||0-42.1\xff||"+dir+"|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSignalReachesTheWholeGroup(t *testing.T) {
	t.Parallel()
	script := `trap 'echo one' USR1; sh -c 'trap "echo two; exit" USR1; echo ready; while :; do sleep 60 & wait; done' & while :; do wait; done`
	c, b := begin(t, script, long, long)
	b.expect("ready")
	if err := c.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{b.line(): true, b.line(): true}
	if !got["one"] || !got["two"] {
		t.Errorf("got %v", got)
	}
	if err := c.Signal(syscall.Signal(1000)); err == nil {
		t.Error("signal 1000 was accepted")
	}
}

// Without process-group pidfds (Linux before 6.9) the members are found in /proc.
func TestSignalMembersReachesTheGroupAndNobodyElse(t *testing.T) {
	t.Parallel()
	c, b := begin(t, family3+`trap 'exit 9' USR1; wait; wait; wait; read x`, long, long)
	members(t, b)
	c.group.signalMembers(syscall.SIGUSR1)
	if exit, err := ended(t, c); err != nil || exit.Code != 9 && exit.Signal != syscall.SIGUSR1 {
		t.Errorf("ended with %v (%v)", exit, err)
	}
}

func TestProcessSignalSparesALaterProcessOfTheSameNumber(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, long, long)
	b.expect("ready")
	p, ok := readProcess(c.Pid())
	if !ok {
		t.Fatal("no such process")
	}
	before := p
	before.start--
	before.signal(syscall.SIGKILL)
	select {
	case <-c.Done():
		t.Fatal("killed a process that started at another time")
	case <-time.After(100 * time.Millisecond):
	}
	p.signal(syscall.SIGKILL)
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL})
}

func TestStopAsksAndThenKills(t *testing.T) {
	t.Parallel()
	c, b := begin(t, `trap 'echo term' TERM; echo ready; while :; do sleep 60 & wait; done`, long, long)
	b.expect("ready")
	now := clock.Boot().Now()
	c.Stop(300 * time.Millisecond)
	b.expect("term")
	if err := c.Extend(now+2*long, now+2*long); !errors.Is(err, ErrExpired) {
		t.Errorf("Extend after Stop says %v", err)
	}
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Stopped})
	if took := clock.Boot().Now() - now; took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("took %v, want a little more than 300ms", took)
	}
}

func TestStopContinuesAStoppedChild(t *testing.T) {
	t.Parallel()
	c, b := begin(t, polite, long, long)
	b.expect("ready")
	freeze(t, c.Pid())
	c.Stop(long)
	expectExit(t, c, Exit{Code: 3, Cause: Stopped})
}

func TestStopNeverPassesTheKillDeadline(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, soon, soon+300*time.Millisecond)
	b.expect("ready")
	c.Stop(long)
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Stopped})
}

func TestSecondStopBringsTheKillForward(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, long, long)
	b.expect("ready")
	c.Stop(long)
	c.Stop(0)
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Stopped})
}

func TestKeeperStandsApartFromTheAgent(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, long, long)
	b.expect("ready")
	k, _ := readProcess(c.keeper.Process.Pid)
	p, _ := readProcess(c.Pid())
	if k.session == unix.Getpgrp() || k.session != k.pid || p.group != p.pid || p.group == k.group {
		t.Errorf("keeper %+v, child %+v", k, p)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGTSTP} {
		if err := unix.Kill(k.pid, s); err != nil {
			t.Fatal(err)
		}
	}
	c.Stop(0)
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL, Cause: Stopped})
}

func TestKeeperDoesNotHoldTheChildsOutputOpen(t *testing.T) {
	t.Parallel()
	c, b := begin(t, `exec >/dev/null; exec sleep 60`, long, long)
	if text := b.rest(); text != "" {
		t.Errorf("got %q", text)
	}
	select {
	case <-c.Done():
		t.Error("the child has ended")
	default:
	}
}

func TestMainByHandIsRefused(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("/proc/self/exe", argument).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "started by tenure itself") {
		t.Errorf("got %v and %q", err, out)
	}
}
