package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure/internal/testenv"
)

// Nobody reads what tenure run says, and the pipe is full: the command is
// stopped all the same when its lease is revoked.
func TestRunStopsTheCommandThoughNobodyListens(t *testing.T) {
	t.Parallel()
	d, r := serve(t), newRecord(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	stuff(t, write)
	cmd := exec.Command(testenv.Binary(t), "run", "jobs/deaf", "--ttl", "none", "--engine", d.url, "--", os.Args[0])
	cmd.Env = append(os.Environ(), r.environment("polite")...)
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		read.Close() // what is still to be said fails now
		_ = cmd.Wait()
	}()
	write.Close()
	worker := r.started(1)
	newShell(t, d.url).must("lease", "revoke", "jobs/deaf")
	testenv.Eventually(t, waitLong, "the command's end", func() bool { return !alive(worker.pid) })
}

// stuff writes until the pipe takes no more.
func stuff(t *testing.T, pipe *os.File) {
	t.Helper()
	raw, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	junk := []byte(strings.Repeat("x", 4096))
	err = raw.Control(func(fd uintptr) {
		if err := syscall.SetNonblock(int(fd), true); err != nil {
			t.Error(err)
		}
		for _, size := range []int{len(junk), 1} {
			for err := error(nil); err == nil; {
				_, err = syscall.Write(int(fd), junk[:size])
			}
		}
		if err := syscall.SetNonblock(int(fd), false); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
