package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv"
	"github.com/tenurehq/tenure/internal/testenv/natstest"
)

// The same commands, with no server of ours.
func TestRunOnNATS(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	url := server.URL() + "/leases"
	sh := newShell(t, url)
	sh.run("lease", "ls").wants(t, exitUnavailable, "tenure kv init")
	sh.run("doctor").wants(t, exitOther, "BAD bucket", "create it: tenure kv init")
	sh.env = nil
	sh.run("kv", "init", url, "--replicas", "3").wants(t, exitUnavailable, "3 replicas")
	sh.must("kv", "init", url).wants(t, 0, `bucket "leases": file storage, 1 replicas`)
	sh.must("kv", "init", url) // again: it is checked
	sh.env = map[string]string{"TENURE_ENGINE": url}
	sh.must("doctor").wants(t, 0, "clock", `bucket "leases": file storage`, "answers")
	sh.must("status").wants(t, 0, "ready", "judges late")

	r := newRecord(t)
	p := underLease(t, r, url, "stubborn", "2s")
	e := r.started(1)
	sh.run("run", "jobs/x", "-n", "--", "true").wants(t, exitHeld, "held jobs/x")
	next := underLease(t, r, url, "polite", "3s")
	next.says("waiting for jobs/x")
	p.signal(syscall.SIGSTOP)
	frozen := clock.Boot().Now()
	gone(t, e, frozen+2*time.Second)
	r.started(2)
	p.signal(syscall.SIGCONT)
	p.ends().wants(t, exitLost, "tenure: lost jobs/x")

	server.Restart()
	restarted := clock.Boot().Now()
	testenv.Eventually(t, waitLong, "a TTL since the restart", func() bool { return clock.Boot().Now() > restarted+3*time.Second })
	next.signal(syscall.SIGTERM)
	next.ends().wants(t, 0)

	token := sh.object("lease", "acquire", "a/b", "--ttl", "1s")["token"].(string)
	sh.must("lease", "renew", token, "a/b")
	sh.run("lease", "renew", token).wants(t, exitUsage, "name the resource")
	sh.must("lease", "revoke", "a/b")
	sh.run("lease", "acquire", "a/x", "a/y").wants(t, exitUsage, "Bundles")
}

func TestAnUnsafeBucketIsRefused(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "memory", Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, url+"/memory")
	sh.run("lease", "acquire", "a/b").wants(t, exitUsage, `bucket "memory" is not safe for leases`, "kept in memory", "tenure kv init")
	sh.run("doctor").wants(t, exitOther, "BAD engine", "kept in memory")
	sh.env = nil
	sh.run("kv", "init", url+"/memory").wants(t, exitUsage, "kept in memory")
}
