package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
)

// Exit codes; docs/OPERATIONS.md has them for users.
const (
	exitOther       = 1
	exitUsage       = 2
	exitHeld        = 3
	exitLost        = 4
	exitUnknown     = 5
	exitUnavailable = 6
)

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
	return exitOther
}

// printError says what went wrong: a line for people, the API's object with
// --json. Both go to standard error; standard output stays what was asked for.
func (m *Main) printError(g *Globals, err error) {
	var e *tenure.Error
	if g.JSON && errors.As(err, &e) {
		if b, failed := wire.MarshalJSON(wire.FromError(e)); failed == nil {
			fmt.Fprintf(m.Stderr, "%s\n", b)
			return
		}
	}
	if errors.Is(err, context.Canceled) && e == nil {
		fmt.Fprintln(m.Stderr, "tenure: interrupted")
		return
	}
	text := err.Error()
	if !errors.As(err, &e) {
		text = "tenure: " + text
	}
	fmt.Fprintln(m.Stderr, text)
}
