//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package fence

import (
	"os"

	"github.com/tenurehq/tenure"
)

const (
	shared    = 1
	exclusive = 2
)

func canLock() error {
	return &tenure.Error{Code: tenure.ErrUnsupported, Why: "this system has no flock, which fence.File needs"}
}

func lock(*os.File, int) (bool, error) { return false, canLock() }
