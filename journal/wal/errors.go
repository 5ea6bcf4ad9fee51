package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tenurehq/tenure"
)

// ErrDamaged is what errors.Is finds in every [*Damage].
var ErrDamaged = errors.New("wal: damaged")

// Damage is the error of a file whose bytes are not those that were made
// durable. The log refuses to open over it: nothing was changed.
type Damage struct {
	File   string
	Offset int64
	What   string
	Remedy string
	Cause  error // may be nil
}

// remedy is what helps against a damaged log.
const remedy = "nothing was changed: keep the directory as it is for examination, and restore the latest backup into a new one"

// Error names file, offset, what is wrong and what can be done.
func (d *Damage) Error() string {
	what, help := d.What, cmp.Or(d.Remedy, remedy)
	if d.Cause != nil {
		what += ": " + d.Cause.Error()
	}
	return fmt.Sprintf("wal: %s is damaged at offset %d: %s; %s", d.File, d.Offset, what, help)
}

// Is matches [ErrDamaged].
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the cause.
func (d *Damage) Unwrap() error { return d.Cause }

// explain turns an error of the file system into a refusal that says what can
// be done. Errors that already do pass through.
func explain(doing, name string, err error) error {
	var known *tenure.Error
	var damage *Damage
	if err == nil || errors.As(err, &known) || errors.As(err, &damage) {
		return err
	}
	code, remedy := remedyFor(err)
	return &tenure.Error{Code: code, Why: fmt.Sprintf("%s %s: %s", doing, name, remedy), Cause: err}
}

func remedyFor(err error) (tenure.Code, string) {
	var used *InUse
	switch {
	case errors.As(err, &used):
		return tenure.ErrUnavailable, "another process has it open: stop that one, or use another directory"
	case errors.Is(err, syscall.EROFS):
		return tenure.ErrDenied, "the file system is read-only: mount it for writing, or open the journal for reading only"
	case errors.Is(err, fs.ErrPermission):
		return tenure.ErrDenied, "permission is missing: let the user that runs this process own the directory and all files in it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return tenure.ErrFull, "there is no space left: make some, or use another disk, and open the journal again"
	case errors.Is(err, syscall.ENOTDIR):
		return tenure.ErrInvalid, "a file is where the journal's directory should be: move it away, or name another directory"
	case errors.Is(err, fs.ErrNotExist):
		return tenure.ErrNotFound, "it does not exist: check the name of the directory"
	}
	return tenure.ErrUnavailable, "the system refused it: see to the disk, and open the journal again"
}

// foreign refuses a directory that holds something else.
func foreign(dir, why string) error {
	return &tenure.Error{Code: tenure.ErrInvalid, Field: "directory", Why: fmt.Sprintf("%s is no journal of Tenure: %s; name an empty directory, or the one that holds the journal", dir, why)}
}

// newer refuses what a newer program wrote.
func newer(name string, err error) error {
	return &tenure.Error{Code: tenure.ErrUnsupported, Why: name + ": use the version of tenure that wrote it, or a later one", Cause: err}
}

// dead is the error of a log after a write, sync or directory sync failed.
func dead(doing, name string, err error) error {
	_, remedy := remedyFor(err)
	return &tenure.Error{Code: tenure.ErrHalted, Why: fmt.Sprintf("%s %s failed, and the log takes nothing more until it is opened again: %s", doing, name, remedy), Cause: err}
}
