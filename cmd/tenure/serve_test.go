package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/internal/testenv"
)

// proves: T7, T11
func TestAGrantItsTokenAndAResumedWatchSurviveAKilledServer(t *testing.T) {
	t.Parallel()
	d := serve(t)
	sh := newShell(t, d.url)
	c, err := client.Dial(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events := make(chan tenure.Event)
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(events)
		for ev, err := range c.Watch(watching, tenure.Filter{Namespace: "a"}) {
			if err != nil {
				return
			}
			events <- ev
		}
	}()
	next := func(kind tenure.EventKind) tenure.Event {
		t.Helper()
		select {
		case ev := <-events:
			if ev.Kind != kind {
				t.Fatalf("%v %v, want %v", ev.Kind, ev.Lease.ID, kind)
			}
			return ev
		case <-time.After(waitLong):
			t.Fatalf("no event %v", kind)
		}
		return tenure.Event{}
	}
	next(tenure.EventWatching)
	token := sh.object("lease", "acquire", "a/b", "--ttl", "1m")["token"].(string)
	if ev := next(tenure.EventGranted); ev.Lease.Token.String() != token {
		t.Fatalf("granted %v, want %s", ev.Lease.Token, token)
	}
	seen := sh.object("lease", "acquire", "a/c", "--ttl", "1m")
	position := next(tenure.EventGranted).Position

	d.kill()
	newShell(t, "wal:"+d.data).must("lease", "acquire", "a/d", "--ttl", "1m") // while nobody can watch
	d.restart(t)
	if ev := next(tenure.EventGranted); ev.Lease.Resource != "a/d" { // the watch goes on by itself
		t.Errorf("after the restart it tells of %s", ev.Lease.Resource)
	}
	if l := sh.object("lease", "show", "a/b"); l["token"] != token || l["state"] != "active" {
		t.Errorf("after the restart: %v, want token %s", l, token)
	}
	sh.must("lease", "renew", token)
	sh.must("lease", "release", token)
	next(tenure.EventReleased) // and repeats nothing
	if l := sh.object("lease", "acquire", "a/b"); l["prior"] != "clean" || l["token"].(string) <= token {
		t.Errorf("the next grant: %v, after %s", l, token)
	}
	next(tenure.EventGranted)

	// Another process, after the last position it had seen before.
	ls := start(t, nil, "lease", "ls", "a", "--watch", "--json", "--from", position.String(), "--engine", d.url)
	testenv.Eventually(t, waitLong, "four events", func() bool { return strings.Count(ls.out.String(), "\n") == 4 })
	ls.signal(syscall.SIGINT)
	a := ls.ends()
	a.wants(t, 0, `"released"`, `"granted"`)
	if strings.Contains(a.out, seen["lease_id"].(string)) {
		t.Errorf("events from before the position:\n%s", a.out)
	}
}

func TestAServerDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	d := serve(t)
	sh := newShell(t, d.url)
	sh.must("lease", "acquire", "a/b", "--ttl", "1m")
	waiter := start(t, nil, "lease", "acquire", "a/b", "--holder", "next", "--wait", "1s", "--engine", d.url)
	watch := start(t, nil, "lease", "ls", "--watch", "--engine", d.url)
	metric(t, d.url, "tenure_server_waiters 1")
	metric(t, d.url, "tenure_watchers 1")
	d.signal(syscall.SIGTERM)
	d.ends().wants(t, 0, "drained and closed")
	waiter.ends().wants(t, exitUnknown, "the engine has not answered for 5s", "there is no connection", "--operation ")
	if watch.ended() {
		t.Errorf("the watch does not wait for the server to come back: %+v", watch.ends())
	}
	newShell(t, "").run("verify", d.data).wants(t, 0, "1 live leases", "the last stop was clean")
}

func TestServeRefusesWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	d := serve(t)
	_, address, _ := strings.Cut(d.url, "://")
	start(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", d.data).ends().
		wants(t, exitUnavailable, d.data, "another process has it open", "use another directory")
	start(t, nil, "serve", "--listen", address, "--data", filepath.Join(d.data, "other")).ends().
		wants(t, exitUnavailable, "address already in use", "choose another --listen")
	start(t, nil, "serve", "--listen", "0.0.0.0:0", "--data", t.TempDir()).ends().
		wants(t, exitUsage, "--tls-cert FILE --tls-key FILE --auth-token-file FILE")
	newShell(t, "").run("verify", d.data).wants(t, exitUnavailable, "another process has it open")
	sh := newShell(t, d.url) // the one that was there serves on
	sh.must("lease", "acquire", "a/b")
	sh.must("doctor")
	if a := sh.run("doctor", "--engine", "wal:"+d.data); !strings.Contains(a.out, "ok  directory  in use") {
		t.Errorf("%+v", a)
	}
}

// metric waits until the server's metrics have this line, or a line that
// begins with it.
func metric(t *testing.T, url, line string) {
	t.Helper()
	testenv.Eventually(t, waitLong, "metric "+line, func() bool {
		return strings.Contains("\n"+get(t, url+"/metrics"), "\n"+line)
	})
}

// renewed waits until the server has answered at least n renewals.
func renewed(t *testing.T, url string, n int) {
	t.Helper()
	testenv.Eventually(t, waitLong, fmt.Sprintf("%d renewals", n), func() bool {
		_, rest, _ := strings.Cut(get(t, url+"/metrics"), `tenure_renewals_total{answer="yes"} `)
		line, _, _ := strings.Cut(rest, "\n")
		count, err := strconv.Atoi(line)
		return err == nil && count >= n
	})
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOperatorsSeeWhatTheyNeed(t *testing.T) {
	t.Parallel()
	d := serve(t, "--log-format", "json")
	sh := newShell(t, d.url)
	sh.must("lease", "acquire", "a/b", "--ttl", "1m")
	sh.run("lease", "acquire", "a/b", "--holder", "other").wants(t, exitHeld)
	r := newRecord(t)
	run := start(t, r.environment("polite"), "run", "a/c", "--ttl", "2s", "--engine", d.url, "--", os.Args[0])
	r.started(1)
	renewed(t, d.url, 1)
	next := start(t, nil, "lease", "acquire", "a/c", "--wait", "20s", "--ttl", "1m", "--engine", d.url)
	metric(t, d.url, `tenure_waiters 1`)
	run.signal(syscall.SIGTERM)
	run.ends().wants(t, 0)
	next.ends().wants(t, 0, "token")
	for _, line := range []string{
		`tenure_events_total{kind="granted"} 3`, // grants
		`tenure_events_total{kind="released"} 1`,
		`tenure_refusals_total{code="held"} 1`,
		`tenure_leases{state="active"} 2`,
		`tenure_leases{state="revoking"} 0`,
		`tenure_renewals_total`,
		`tenure_renewal_lag_ratio_bucket`,
		`tenure_batch_commands_count`,
		`tenure_commit_seconds_count`,
		`tenure_handover_seconds_count 1`,
		`tenure_waiters 0`,
		`tenure_watch_lag_commands_bucket`,
		`tenure_snapshot_age_seconds`,
		`tenure_halted 0`,
		`go_goroutines`,
		`process_open_fds`,
	} {
		metric(t, d.url, line)
	}
	if got := get(t, d.url+"/healthz") + get(t, d.url+"/readyz"); got != "ok\nok\n" {
		t.Errorf("healthz and readyz: %q", got)
	}
	logs := bufio.NewScanner(strings.NewReader(d.err.String()))
	if !logs.Scan() || !json.Valid(logs.Bytes()) {
		t.Errorf("the log is not JSON: %q", d.err.String())
	}
	d.signal(syscall.SIGTERM)
	d.ends().wants(t, 0)
}
