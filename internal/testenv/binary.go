package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// binary is the command built for this test process, the directory it is in, and
// how many still need it.
var binary struct {
	sync.Mutex
	users   int
	dir     string
	path    string
	failure error
}

// Binary builds the tenure command without cgo, as it is released, and returns
// the path of the executable. Tests that overlap share one build; to share one in
// the whole test process, run the tests through [Main]. The file is removed when
// nobody needs it any more. A command that does not build fails the test.
func Binary(t testing.TB) string {
	t.Helper()
	binary.Lock()
	defer binary.Unlock()
	if binary.path == "" && binary.failure == nil {
		binary.dir, binary.path, binary.failure = build()
	}
	binary.users++
	t.Cleanup(forget)
	if binary.failure != nil {
		t.Fatal(binary.failure)
	}
	return binary.path
}

// Main runs the tests of a package, keeps what [Binary] built until the last of
// them has ended, and returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
func Main(m interface{ Run() int }) int {
	binary.Lock()
	binary.users++
	binary.Unlock()
	defer forget()
	return m.Run()
}

func forget() {
	binary.Lock()
	defer binary.Unlock()
	if binary.users--; binary.users == 0 {
		_ = os.RemoveAll(binary.dir) // a file left in the temporary directory fails no test
		binary.dir, binary.path, binary.failure = "", "", nil
	}
}

func build() (dir, path string, err error) {
	goTool, err := goCommand()
	if err != nil {
		return "", "", err
	}
	root, err := moduleRoot(goTool)
	if err != nil {
		return "", "", err
	}
	dir, err = os.MkdirTemp("", "tenure-binary-")
	if err != nil {
		return "", "", fmt.Errorf("testenv: %w", err)
	}
	path = filepath.Join(dir, "tenure")
	cmd := exec.Command(goTool, "build", "-o", path, "./cmd/tenure")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, "", fmt.Errorf("testenv: building cmd/tenure: %w\n%s", err, out)
	}
	return dir, path, nil
}

// goCommand prefers the go command whose test runs this: go test puts its own
// directory first in PATH, a test binary run by hand has only what it finds.
func goCommand() (string, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("testenv: no go command to build cmd/tenure with (built by %s): %w", runtime.Version(), err)
	}
	return path, nil
}

func moduleRoot(goTool string) (string, error) {
	out, err := exec.Command(goTool, "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("testenv: go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if filepath.Base(mod) != "go.mod" {
		return "", fmt.Errorf("testenv: not inside a module (GOMOD is %q): cmd/tenure cannot be found", mod)
	}
	return filepath.Dir(mod), nil
}
