package keeper

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
)

// An agent that is wrong about the time, or whose message was long on its way, must not bring back a child that
// was told to end.
func TestKeeperIgnoresAnExtensionAfterSIGTERM(t *testing.T) {
	t.Parallel()
	now := clock.Boot().Now()
	term, kill := now+soon, now+soon+300*time.Millisecond
	c := Command{Args: []string{"sh", "-c", stubborn}}
	o, err := c.order(term, kill)
	if err != nil {
		t.Fatal(err)
	}
	k, wire, err := launch(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer abandon(k, wire, o.Mark)
	_ = wire.SetDeadline(time.Now().Add(limit))
	out, in := gob.NewEncoder(wire), gob.NewDecoder(wire)
	if err := out.Encode(message{Kind: kindStart, Order: o, Term: term, Kill: kill}); err != nil {
		t.Fatal(err)
	}
	next := func(want kind) message {
		t.Helper()
		var m message
		if err := in.Decode(&m); err != nil || m.Kind != want {
			t.Fatalf("the keeper says %v (%v), want %v", m.Kind, err, want)
		}
		return m
	}
	next(kindStarted)
	next(kindEnding)
	if err := out.Encode(message{Kind: kindExtend, Term: now + long, Kill: now + long}); err != nil {
		t.Fatal(err)
	}
	next(kindExtended)
	if m := next(kindExit); m.Exit.Signal != syscall.SIGKILL || m.Exit.Cause != Expired {
		t.Errorf("ended with %v", m.Exit)
	}
}

// A frozen keeper reads nothing: the agent must never fill the socket.
func TestAgentHasOneExtensionInFlight(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	c := &Child{out: gob.NewEncoder(&sent)}
	for i := range time.Duration(10) {
		c.tell(i+1, i+2, false)
	}
	c.heard(message{Kind: kindExtended})
	c.tell(20, 21, false)
	c.tell(20, 21, false)
	in := gob.NewDecoder(&sent)
	for _, want := range []time.Duration{1, 20} {
		var m message
		if err := in.Decode(&m); err != nil || m.Kind != kindExtend || m.Term != want {
			t.Errorf("sent %v with term %v (%v), want an extension to %v", m.Kind, m.Term, err, want)
		}
	}
	if err := in.Decode(new(message)); !errors.Is(err, io.EOF) {
		t.Errorf("sent more than two extensions (%v)", err)
	}
}

// Without its keeper, and without process-group pidfds, a group is still swept, whatever its environment.
func TestSweepFindsTheGroupInTheProcessTable(t *testing.T) {
	t.Parallel()
	c, b := begin(t, stubborn, long, long)
	b.expect("ready")
	g := &group{pid: c.group.pid, session: c.group.session, mark: "NOBODY=1", pidfd: -1}
	if !g.sweep() {
		t.Error("sweep says that nobody lives")
	}
	expectExit(t, c, Exit{Code: 137, Signal: syscall.SIGKILL})
	if g.sweep() {
		t.Error("sweep says that somebody lives")
	}
}

// The deadline that the agent waits for is the lease's, whichever side notices it first; that of the caller is
// the caller's.
func TestADeadlineThatPassesDuringTheStartIsPast(t *testing.T) {
	t.Parallel()
	touched := filepath.Join(t.TempDir(), "touched")
	c := Command{Args: []string{"touch", touched}}
	now := clock.Boot().Now()
	if _, err := Start(t.Context(), c, now+time.Millisecond, now+long); !errors.Is(err, ErrPast) { // a keeper needs longer to be there
		t.Errorf("the term deadline: %v, want ErrPast", err)
	}
	if _, err := os.Stat(touched); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command ran (%v)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := Start(ctx, c, now+long, now+long); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPast) {
		t.Errorf("the caller's own: %v, want its end", err)
	}
}
