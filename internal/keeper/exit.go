package keeper

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// Exit tells how a child ended. By then all its descendants are dead too.
type Exit struct {
	Code   int            // 0 to 255 as it exited, or 128 + Signal
	Signal syscall.Signal // what killed it; 0 if it exited
	Cause  Cause          // who began the end
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("killed by %v, %v", e.Signal, e.Cause)
	}
	return fmt.Sprintf("exit code %d, %v", e.Code, e.Cause)
}

// Cause tells who began the end of a child.
type Cause uint8

const (
	Itself   Cause = iota // it ended before anyone told it to, or by a signal that was passed on to it
	Stopped               // Stop
	Expired               // the term deadline passed
	Orphaned              // its agent died; an agent never sees it
	Unkept                // its keeper died or froze
)

func (c Cause) String() string {
	names := [...]string{"by itself", "stopped", "deadline passed", "agent died", "keeper died"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

var (
	// ErrPast: the term deadline passed before the child was known to run, so nothing is left running.
	ErrPast = errors.New("keeper: the deadline has passed: nothing is left running")
	// ErrExpired: the extension came after the term deadline or after Stop.
	ErrExpired = errors.New("keeper: the child is ending: its deadline cannot be extended")
	// ErrKeeperLost: the keeper process died or stopped answering.
	ErrKeeperLost = errors.New("keeper: the keeper process is gone")
)

// StartError says that a program could not be started: nothing ran. Unwrap gives the system's error, or
// exec.ErrNotFound for a name that is not in PATH; errors.Is with fs.ErrNotExist and fs.ErrPermission works.
type StartError struct {
	Name string
	Err  error
}

func (e *StartError) Error() string {
	if errors.Is(e.Err, syscall.ENOEXEC) {
		return fmt.Sprintf("cannot start %s: %v (a script needs a #! line)", e.Name, e.Err)
	}
	return fmt.Sprintf("cannot start %s: %v", e.Name, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// lookupCause takes the cause out of what exec.LookPath returns, which repeats the name.
func lookupCause(err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return lookup.Err
	}
	return err
}
