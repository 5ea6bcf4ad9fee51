package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenurehq/tenure/bench/bare"
)

// machine is where and when it was measured.
type machine struct {
	When       string            `json:"when"`
	CPU        string            `json:"cpu"`
	Cores      int               `json:"cores"`
	MemoryMiB  int               `json:"memory_mib"`
	Kernel     string            `json:"kernel"`
	Filesystem string            `json:"filesystem"`
	Sync       [2]time.Duration  `json:"fdatasync_p50_p99_ns"` // of 128 bytes
	Load       float64           `json:"load_before"`          // one-minute average
	Go         string            `json:"go"`
	Commit     string            `json:"commit,omitempty"`
	Modules    map[string]string `json:"modules"` // the peers' clients
}

// quiet is the load average below which a machine counts as unused.
const quiet = 1.0

func describe(dir string) machine {
	m := machine{
		When: time.Now().UTC().Format("2006-01-02 15:04 UTC"), Cores: runtime.NumCPU(), Go: runtime.Version(),
		CPU: field("/proc/cpuinfo", "model name"), Filesystem: filesystem(dir), Modules: modules(),
	}
	m.Load, _ = strconv.ParseFloat(word("/proc/loadavg"), 64)
	if kb, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryMiB = kb >> 10
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	m.Commit = commit()
	m.Sync = syncs(dir)
	return m
}

// commit is what the working tree is at; "" outside of a repository.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	at := strings.TrimSpace(string(head))
	if changes, err := exec.Command("git", "status", "--porcelain", "--", ":/").Output(); err != nil || len(changes) > 0 {
		at += " with changes"
	}
	return at
}

func modules() map[string]string {
	all := map[string]string{}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return all
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/redis/go-redis/v9", "github.com/redis/rueidis", "go.etcd.io/etcd/client/v3", "google.golang.org/grpc":
			all[d.Path] = d.Version
		}
	}
	return all
}

// syncs is what a sync alone takes: p50 and p99 of 500; zero if it failed.
func syncs(dir string) (quantiles [2]time.Duration) {
	scratch, err := os.MkdirTemp(dir, "sync-")
	if err != nil {
		return
	}
	defer os.RemoveAll(scratch)
	log, err := bare.Open(scratch, bare.Options{})
	if err != nil {
		return
	}
	defer log.Close()
	woken, p := make(chan error, 1), make([]byte, 128)
	all := make([]time.Duration, 500)
	for i := range all {
		start := time.Now()
		if log.Commit(p, woken) != nil {
			return
		}
		all[i] = time.Since(start)
	}
	slices.Sort(all)
	return [2]time.Duration{all[len(all)/2], all[len(all)*99/100]}
}

// filesystem is the type of the one that a directory is on.
func filesystem(dir string) string {
	mounts, _ := os.ReadFile("/proc/mounts")
	best, kind := "", "unknown"
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line) // device, directory, type, …
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if rel, err := filepath.Rel(f[1], dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}

func field(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		key, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func word(file string) string {
	b, _ := os.ReadFile(file)
	if f := strings.Fields(string(b)); len(f) > 0 {
		return f[0]
	}
	return ""
}

func (m *machine) String() string {
	return fmt.Sprintf("%s, %d cores, %d MiB; %s, %s, fdatasync p50 %v, p99 %v; %s; load average before: %.2f",
		m.CPU, m.Cores, m.MemoryMiB, m.Kernel, m.Filesystem, short(m.Sync[0]), short(m.Sync[1]), m.Go, m.Load)
}
