package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/internal/testenv"
)

func TestADirectoryThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	at := func(dir string) answer {
		return start(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", dir).ends()
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "holiday.jpg"), []byte("beach"), 0o600); err != nil {
		t.Fatal(err)
	}
	at(foreign).wants(t, exitUsage, foreign, "is no journal of Tenure", "holiday.jpg", "name an empty directory")
	if names, err := os.ReadDir(foreign); err != nil || len(names) != 1 {
		t.Errorf("a foreign directory was changed: %v (%v)", names, err)
	}
	at(filepath.Join(foreign, "holiday.jpg")).wants(t, exitUsage, "holiday.jpg")

	used := serve(t)
	token := newShell(t, used.url).object("lease", "acquire", "a/b", "--ttl", "1h")["token"].(string)
	used.signal(syscall.SIGTERM)
	used.ends().wants(t, 0)
	name := filepath.Join(used.data, "TENURE")
	marker, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, newerMarker(marker), 0o600); err != nil {
		t.Fatal(err)
	}
	at(used.data).wants(t, exitUsage, "newer", "use the version of tenure that wrote it")
	if err := os.WriteFile(name, marker, 0o600); err != nil {
		t.Fatal(err)
	}
	used.restart(t)
	if l := newShell(t, used.url).object("lease", "show", "a/b"); l["token"] != token {
		t.Errorf("after the refusals: %v, want %s", l, token)
	}
}

// nobody is a user who owns nothing.
const nobody = 65534

func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testenv.Need(t, "root, to become another user")
	}
	d := serve(t)
	token := newShell(t, d.url).object("lease", "acquire", "a/b", "--ttl", "1h")["token"].(string)
	d.signal(syscall.SIGTERM)
	d.ends().wants(t, 0)
	for dir := d.data; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{t: t, cmd: exec.Command(publicBinary(t), "serve", "--listen", "127.0.0.1:0", "--data", d.data), done: make(chan struct{})}
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	p.begin()
	p.ends().wants(t, exitOther, "permission", "let the user that runs this process own the directory")
	d.restart(t)
	if l := newShell(t, d.url).object("lease", "show", "a/b"); l["token"] != token {
		t.Errorf("after the refusal: %v, want %s", l, token)
	}
}

// publicBinary is a copy that another user may execute.
func publicBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for up := dir; len(up) > len(os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(testenv.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "tenure")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// proves: T11
func TestAFullDiskHaltsTheServerAndLosesNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testenv.Need(t, "root, to mount a file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tenure-test", dir, "tmpfs", 0, "size=65m"); err != nil { // one segment, and no second
		testenv.Need(t, "a tmpfs mount ("+err.Error()+")")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	d := &daemon{data: filepath.Join(dir, "data"), flags: []string{"--listen", "127.0.0.1:0"}}
	d.restart(t)
	acknowledged, err := fill(t, d.url)
	if !errors.Is(err, tenure.ErrHalted) && !errors.Is(err, tenure.ErrUnknownOutcome) {
		t.Errorf("the first failure is %v", err)
	}
	newShell(t, d.url).run("lease", "acquire", "a/b").wants(t, exitUnavailable, "halted", "no space left", "open")
	newShell(t, d.url).run("status").wants(t, exitUnavailable, "ready", "false", "no space left")
	if got := get(t, d.url+"/readyz"); !strings.Contains(got, "no space left") {
		t.Errorf("readyz: %s", got)
	}
	metric(t, d.url, "tenure_halted 1")
	d.signal(syscall.SIGTERM)
	d.ends().wants(t, exitUnavailable)

	again := start(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", d.data).ends() // still full
	again.wants(t, exitOther, "there is no space left: make some, or use another disk")
	if err := syscall.Mount("tenure-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=300m"); err != nil {
		t.Fatal(err)
	}
	d.restart(t)
	c, err := client.Dial(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for l, err := range c.List(t.Context(), tenure.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := acknowledged[l.Resource]; ok && l.Token != want {
			t.Errorf("%s: token %v, want %v", l.Resource, l.Token, want)
		}
		delete(acknowledged, l.Resource)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged leases are lost", len(acknowledged))
	}
	if _, err := c.Acquire(t.Context(), tenure.On("a/b")); err != nil {
		t.Error(err)
	}
}

// fill acquires large leases until that fails: what was acknowledged, and the
// first failure.
func fill(t *testing.T, url string) (map[tenure.Resource]tenure.Token, error) {
	t.Helper()
	c, err := client.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	acknowledged := make(map[tenure.Resource]tenure.Token)
	var count atomic.Int64
	var first error
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 64 {
		all.Go(func() {
			for ctx.Err() == nil {
				claim := tenure.On(fmt.Sprintf("fill/%d", count.Add(1)))
				claim.TTL, claim.Meta = tenure.NoTTL, make([]byte, tenure.MaxMetaBytes)
				l, err := c.Acquire(ctx, claim)
				mu.Lock()
				if err == nil {
					acknowledged[l.Resource] = l.Token
				} else if first == nil {
					first = err
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return acknowledged, first
}

// newerMarker is the marker of a format that is yet to come.
func newerMarker(marker []byte) []byte {
	text, _, _ := strings.Cut(strings.Replace(string(marker), "format: 1\n", "format: 99\n", 1), "check: ")
	sum := sha256.Sum256([]byte(text))
	return fmt.Appendf(nil, "%scheck: %x\n", text, sum[:16])
}
