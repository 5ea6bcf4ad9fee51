package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// recorder is a test that only notes how Need ends it.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.end("fail: ", format, args) }

func (r *recorder) Skipf(format string, args ...any) { r.end("skip: ", format, args) }

func (r *recorder) end(how, format string, args []any) {
	r.ended = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestNeed(t *testing.T) {
	for _, c := range []struct{ required, want string }{
		{"", "skip: testenv: left out: iptables is missing"},
		{"all", "fail: testenv: iptables is missing"},
		{"ip, iptables", "fail: testenv: iptables is missing"},
		{"ip,tables", "skip: "},
		{",", "skip: "},
	} {
		t.Setenv(RequireEnv, c.required)
		r := &recorder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Need(r, "iptables")
		}()
		<-done
		if !strings.HasPrefix(r.ended, c.want) {
			t.Errorf("%s=%q: %q, want %q", RequireEnv, c.required, r.ended, c.want)
		}
	}
}

func TestModuleRoot(t *testing.T) {
	goTool, err := goCommand()
	if err != nil {
		Need(t, "go")
	}
	got, err := moduleRoot(goTool)
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("module root %q, want %q", got, want)
	}
}

// fileSize reports a file that is gone as 0 bytes.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

type runner func() int

func (r runner) Run() int { return r() }

func TestBinaryIsBuiltOnceAndRemoved(t *testing.T) {
	var first, second string
	code := Main(runner(func() int {
		t.Run("first", func(t *testing.T) { first = Binary(t) })
		t.Run("second", func(t *testing.T) { second = Binary(t) })
		if fileSize(second) == 0 {
			t.Error("the binary is gone before the last test has ended")
		}
		return 3
	}))
	if code != 3 {
		t.Errorf("exit code %d, want that of the tests", code)
	}
	if first == "" || first != second {
		t.Errorf("built twice: %q, %q", first, second)
	}
	if fileSize(first) != 0 {
		t.Error("the binary is still there after the last test")
	}
}

func TestEventually(t *testing.T) {
	looks := 0
	Eventually(t, time.Minute, "a third look", func() bool { looks++; return looks == 3 })
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(r, time.Millisecond, "the moon falls", func() bool { return false })
	}()
	<-done
	if r.ended != "fail: not within 1ms: the moon falls" {
		t.Errorf("it ended with %q", r.ended)
	}
}
