package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/keeper"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Exit codes; docs/OPERATIONS.md has them for users. A program that was asked
// to stop before it was done exits with 128 and the signal's number, and run
// with the code of its command.
const (
	exitOther       = 1
	exitUsage       = 2
	exitHeld        = 3
	exitLost        = 4
	exitUnknown     = 5
	exitUnavailable = 6

	// As shells and env(1) have them.
	exitNotStarted = 126 // the command of run is there, and cannot be started
	exitNotFound   = 127 // there is no such command
)

// exitCode ends a command with a code of its own, after it said what it had to.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// report prints err, if there is one, and maps it to the exit code.
func (m *Main) report(g *Globals, err error) int {
	var exit exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	}
	// An outcome that is not known has to be settled, whoever ended the wait
	// for it.
	var by stopped
	if errors.As(err, &by) && tenure.CodeOf(err) != tenure.ErrUnknownOutcome {
		m.printError(g, by)
		return by.exit()
	}
	m.printError(g, err)
	return codeOf(err)
}

// codeOf maps an error to the exit code that scripts branch on.
func codeOf(err error) int {
	switch tenure.CodeOf(err) {
	case tenure.ErrInvalid, tenure.ErrUnsupported:
		return exitUsage
	case tenure.ErrHeld:
		return exitHeld
	case tenure.ErrStale, tenure.ErrEnded, tenure.ErrLost, tenure.ErrRetired:
		return exitLost
	case tenure.ErrUnknownOutcome:
		return exitUnknown
	case tenure.ErrUnavailable, tenure.ErrHalted, tenure.ErrRecovering:
		return exitUnavailable
	}
	var start *keeper.StartError
	switch {
	case !errors.As(err, &start):
		return exitOther
	case errors.Is(start, fs.ErrNotExist), errors.Is(start, exec.ErrNotFound):
		return exitNotFound
	}
	return exitNotStarted
}

// printError says what went wrong: a line for people, the API's object with
// --json. Both go to standard error; standard output stays what was asked for.
func (m *Main) printError(g *Globals, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "tenure: ") {
		text = "tenure: " + text
	}
	if !g.JSON {
		fmt.Fprintln(m.Stderr, text)
		return
	}
	said := proto.Message(&pb.Error{Why: err.Error()}) // not an engine's word: it has no code
	var e *tenure.Error
	if errors.As(err, &e) {
		said = wire.FromError(err)
	}
	b, failed := wire.MarshalJSON(said)
	if failed != nil {
		b = []byte(text)
	}
	fmt.Fprintf(m.Stderr, "%s\n", b)
}
