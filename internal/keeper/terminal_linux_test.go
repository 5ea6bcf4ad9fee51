package keeper

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new pseudo terminal.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	screen = os.NewFile(uintptr(fd), "screen")
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return screen, terminal
}

// onTerminal makes the agent the leader of a session on the terminal, in its foreground.
func onTerminal(terminal *os.File, alsoOut bool) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Stdin = terminal
		if alsoOut {
			c.Stdout = terminal
		}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
}

// expectScreen reads what was written to the terminal until want comes.
func expectScreen(t *testing.T, screen *os.File, want string) {
	t.Helper()
	_ = screen.SetReadDeadline(time.Now().Add(limit))
	var seen strings.Builder
	for buffer := make([]byte, 1024); !strings.Contains(seen.String(), want); {
		n, err := screen.Read(buffer)
		if err != nil {
			t.Fatalf("%q does not come: %v; the screen shows %q", want, err, seen.String())
		}
		seen.Write(buffer[:n])
	}
}

func press(t *testing.T, screen *os.File, keys string) {
	t.Helper()
	if _, err := screen.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// foregroundOf asks the screen's end, which may ask from outside the session.
func foregroundOf(t *testing.T, screen *os.File) int {
	t.Helper()
	conn, err := screen.SyscallConn() // Fd would make it blocking
	if err != nil {
		t.Fatal(err)
	}
	group := 0
	if failed := conn.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	return group
}

func TestChildOwnsTheTerminalAndGivesItBack(t *testing.T) {
	t.Parallel()
	screen, terminal := openTerminal(t)
	script := `trap 'echo got-interrupt' INT; echo ask-1; read a </dev/tty; echo "you said $a"; echo ask-2; read b; exit 4`
	a := beginAgent(t, script, long, long, onTerminal(terminal, true))
	expectScreen(t, screen, "ask-1")
	if group := foregroundOf(t, screen); group != a.child {
		t.Errorf("group %d is in the foreground, want the child's, %d", group, a.child)
	}
	press(t, screen, "hello\n")
	expectScreen(t, screen, "you said hello\r\nask-2")
	press(t, screen, "\x1a") // ^Z: a stopped child could not answer
	// ^C, and a line, since a shell that is just about to read runs the trap only after it.
	press(t, screen, "\x03x\n")
	expectScreen(t, screen, "got-interrupt")
	a.report.expect("exit exit code 4, by itself <nil>")
	if group := foregroundOf(t, screen); group != a.cmd.Process.Pid {
		t.Errorf("group %d is in the foreground afterwards, want the agent's, %d", group, a.cmd.Process.Pid)
	}
}

func TestAgentTakesTheTerminalBackFromALostKeeper(t *testing.T) {
	t.Parallel()
	screen, terminal := openTerminal(t)
	a := beginAgent(t, `echo ready; read x`, long, long, onTerminal(terminal, true))
	expectScreen(t, screen, "ready")
	if err := unix.Kill(a.keeper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if line := a.report.line(); !strings.Contains(line, ErrKeeperLost.Error()) {
		t.Errorf("the agent reports %q", line)
	}
	if group := foregroundOf(t, screen); group != a.cmd.Process.Pid {
		t.Errorf("group %d is in the foreground afterwards, want the agent's, %d", group, a.cmd.Process.Pid)
	}
}

// In a pipeline the terminal stays with the others of it; the child can read it all the same.
func TestChildInAPipelineReadsTheTerminalWithoutOwningIt(t *testing.T) {
	t.Parallel()
	screen, terminal := openTerminal(t)
	a := beginAgent(t, `echo ready; read a; echo "you said $a"`, long, long, onTerminal(terminal, false))
	a.board.expect("ready")
	if group := foregroundOf(t, screen); group != a.cmd.Process.Pid {
		t.Errorf("group %d is in the foreground, want the agent's, %d", group, a.cmd.Process.Pid)
	}
	press(t, screen, "hello\n")
	a.board.expect("you said hello")
	a.report.expect("exit exit code 0, by itself <nil>")
}
