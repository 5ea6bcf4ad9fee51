package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/testenv"
)

func TestACommandLineThatCannotBeMeantIsRefused(t *testing.T) {
	dir := t.TempDir()
	some := filepath.Join(dir, "file")
	if err := os.WriteFile(some, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		words string // separated by |
	}{
		{"lease", "expected one of"},
		{"lease frobnicate", "unexpected argument frobnicate"},
		{"lease ls --holdr me", "unknown flag --holdr|--holder"},
		{"lease acquire", "<resource>"},
		{"lease acquire a/b --ttl soon", "--ttl|soon|1500ms, 15s, 2m, or none"},
		{"lease acquire a/b --ttl=-1s", "--ttl|negative"},
		{"lease acquire a/b --ttl 1ms", "invalid ttl|100ms"},
		{"lease acquire a/b --wait never", "--wait|or forever"},
		{"lease acquire a/b --reserve=-1s", "invalid reserve"},
		{"lease acquire a/b ,/x", "invalid namespace ,/x"},
		{"lease acquire a/b --operation zz", "invalid operation|32 hexadecimal"},
		{"lease acquire a/b a/b", "invalid|a/b"},
		{"lease release 7", "invalid token"},
		{"lease renew 0-7", "invalid token"},
		{"lease renew 0-7.1 --holder me", "unknown flag --holder"},
		{"lease revoke 0-7.1", "is a token"},
		{"lease ls --state busy", "--state|busy|reserved, active"},
		{"lease ls --from 4.0", "--from goes with --watch"},
		{"lease ls --watch --from x", "invalid from|42.0"},
		{"lease ls --watch --ended", "--ended is for lists"},
		{"lease ls --children", "--children goes with a namespace"},
		{"lease ls ..", "invalid namespace"},
		{"run", "then --, then the command"},
		{"run a/b", "then --, then the command"},
		{"run a/b --", "then --, then the command"},
		{"run -- true", "then --, then the command"},
		{"run -n --wait 5s a/b -- true", "--no-wait|--wait"},
		{"lease acquire a/b -- true", "only tenure run takes a command"},
		{"serve --engine http://x:1", "uses no engine"},
		{"verify --engine wal:x " + dir, "uses no engine"},
		{"verify " + dir + "/none", "no such file"},
		{"serve --listen 0.0.0.0:0 --data " + dir + "/d", "--tls-cert FILE --tls-key FILE --auth-token-file FILE|127.0.0.1"},
		{"serve --listen nowhere --data " + dir + "/d", "HOST:PORT"},
		{"serve --log-level loud", "log-level"},
		{"serve --max-leases 0 --listen 127.0.0.1:0 --data " + dir + "/d", "limits.leases|1 to 100000000"},
		{"bench nothing", "cycles"},
		{"bench --leases 7", "--leases goes with bench renew"},
		{"bench --callers 0", "--callers is 1 to 100000"},
		{"lease ls --engine ftp://x", `"ftp://x" is no engine|wal:DIR`},
		{"lease ls --engine wal:", "wal:./tenure-data"},
		{"lease ls --engine http://x", "HOST:PORT"},
		{"lease ls --engine nats://u:secret@127.0.0.1:1/a/b", "nats://u:xxxxx@127.0.0.1:1/a/b|does not name a bucket"},
		{"lease ls --ca " + some, "--ca and --token-file are for a server"},
		{"doctor --data " + dir, "--data is for a directory that no engine is named for"},
		{"kv init leases", "does not name a bucket"},
	} {
		t.Run(c.args, func(t *testing.T) {
			sh := newShell(t, "wal:"+filepath.Join(dir, "data"))
			if strings.HasPrefix(c.args, "serve") || strings.HasPrefix(c.args, "verify") {
				sh.env = nil
			}
			args := strings.Fields(c.args)
			a := sh.run(args...)
			a.wants(t, exitUsage, strings.Split(c.words, "|")...)
			if a.out != "" {
				t.Errorf("on standard output: %q", a.out)
			}
			if strings.Contains(a.err, "secret") {
				t.Errorf("it shows a password: %s", a.err)
			}
			// The same with --json: one object, of code invalid.
			if args[0] == "run" {
				args = append([]string{"--json"}, args...)
			} else {
				args = append(args, "--json")
			}
			if strings.Contains(c.args, " -- ") {
				return // --json would be the command's
			}
			if o := object(t, sh.run(args...).err); o["code"] != "invalid" || o["why"] == "" || o["field"] == "" {
				t.Errorf("with --json: %v", o)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); !os.IsNotExist(err) {
		t.Errorf("a refused serve left a directory behind: %v", err)
	}
}

func TestHelpNamesEveryCommandAndExitsWell(t *testing.T) {
	sh := newShell(t, "")
	sh.run().wants(t, 0, "serve", "run", "lease acquire", "lease activate", "lease renew", "lease release", "lease revoke", "lease reclaim",
		"lease show", "lease ls", "status", "doctor", "verify", "journal dump", "kv init", "bench", "version", "TENURE_ENGINE")
	sh.run("run", "--help").wants(t, 0, "--no-wait", "--ttl", "TENURE_HOLDER")
	sh.run("version").wants(t, 0, "tenure ")
	if o := sh.object("version"); o["version"] == "" {
		t.Errorf("%v", o)
	}
}

func TestNoEngineIsAnErrorThatShowsHowToStartOne(t *testing.T) {
	sh := newShell(t, "")
	for _, args := range [][]string{{"lease", "ls"}, {"status"}, {"run", "a/b", "--", "true"}, {"bench"}} {
		sh.run(args...).wants(t, exitUsage, "no engine is named", "tenure serve", "--engine http://127.0.0.1:7070", "TENURE_ENGINE")
	}
}

// Each code of the table in docs/OPERATIONS.md, from a real cause.
func TestExitCodes(t *testing.T) {
	sh := newShell(t, "wal:"+filepath.Join(t.TempDir(), "data"))
	first := sh.object("lease", "acquire", "a/b")["token"].(string)
	sh.run("lease", "acquire", "a/b", "--holder", "other").wants(t, exitHeld, "held a/b", "wait, or ask its holder")
	sh.run("lease", "acquire", "a/b", "--holder", "other", "--wait", "10ms").wants(t, exitHeld, "held a/b")
	sh.run("lease", "release", first, "--holder", "other").wants(t, exitOther, "holder_mismatch")
	sh.must("lease", "release", first, "--failed", "no luck")
	sh.run("lease", "renew", first).wants(t, exitLost)
	second := sh.object("lease", "acquire", "a/b")["token"].(string)
	sh.must("lease", "revoke", "a/b", "--reason", "maintenance")
	sh.run("lease", "renew", second).wants(t, exitLost, "stale")
	sh.run("lease", "activate", second).wants(t, exitLost, "stale")
	sh.run("lease", "reclaim", "a/b").wants(t, exitOther, "may still believe in it", "assert that it is dead")
	sh.must("lease", "reclaim", "a/b", "--holder-is-dead")
	sh.run("lease", "show", "a/b").wants(t, exitOther, "not_found")
	sh.run("--engine", "http://127.0.0.1:1", "lease", "ls").wants(t, exitUnavailable, "no Tenure server answers at http://127.0.0.1:1")
	sh.run("--engine", "nats://127.0.0.1:1/leases", "lease", "ls").wants(t, exitUnavailable, "no NATS server answers at nats://127.0.0.1:1")

	unknown := &tenure.Error{Code: tenure.ErrUnknownOutcome, Cause: stopped{syscall.SIGTERM}}
	m := &Main{Stderr: new(output)}
	if code := m.report(&Globals{}, unknown); code != exitUnknown {
		t.Errorf("an interrupted claim of unknown outcome: exit code %d, want %d", code, exitUnknown)
	}
	if code := m.report(&Globals{}, &tenure.Error{Code: tenure.ErrHeld, Cause: stopped{syscall.SIGINT}}); code != 130 {
		t.Errorf("an interrupted wait: exit code %d, want 130", code)
	}
	for _, code := range tenure.Codes() {
		if got := codeOf(&tenure.Error{Code: code}); got < exitOther || got > exitUnavailable {
			t.Errorf("%v: exit code %d", code, got)
		}
	}
}

func TestHoldersAndNames(t *testing.T) {
	sh := newShell(t, "wal:"+filepath.Join(t.TempDir(), "data"))
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	plain := sh.object("lease", "acquire", "nightly")
	if plain["holder"] != host || plain["resources"].([]any)[0] != "default/nightly" {
		t.Errorf("%v", plain)
	}
	sh.env["TENURE_HOLDER"] = "me"
	if l := sh.object("lease", "acquire", "b"); l["holder"] != "me" {
		t.Errorf("TENURE_HOLDER: %v", l)
	}
	if l := sh.object("lease", "acquire", "c", "--holder", "you"); l["holder"] != "you" {
		t.Errorf("--holder: %v", l)
	}
	sh.must("lease", "show", "nightly")
	sh.must("lease", "show", plain["lease_id"].(string))
	sh.run("lease", "ls").wants(t, 0, "LEASE", "default/nightly", "default/b", "default/c", "active")
	if a := sh.must("lease", "ls", "--holder", "you", "--json"); strings.Count(a.out, "\n") != 1 || object(t, a.out)["holder"] != "you" {
		t.Errorf("%q", a.out)
	}
	if a := sh.must("lease", "ls", "other", "--json"); a.out != "" {
		t.Errorf("of an empty namespace: %q", a.out)
	}
}

func TestEveryCallOfTheAPI(t *testing.T) {
	sh := newShell(t, "wal:"+filepath.Join(t.TempDir(), "data"))
	l := sh.object("lease", "acquire", "a/x", "a.b/y", "--ttl", "20s", "--grace", "3s", "--reserve", "1m", "--meta", "why")
	if l["state"] != "reserved" || l["ttl_ms"] != 20000.0 || l["grace_ms"] != 3000.0 || l["meta"] != "d2h5" || l["prior"] != "never" {
		t.Errorf("reserved: %v", l)
	}
	token := l["token"].(string)
	if l := sh.object("lease", "activate", token); l["state"] != "active" || l["token"] != token {
		t.Errorf("activated: %v", l)
	}
	if l := sh.object("lease", "renew", token, "a.b/y"); l["token"] != token || l["expires_in_ms"] == nil {
		t.Errorf("renewed: %v", l)
	}
	sh.run("lease", "show", "a/x").wants(t, 0, token, "20s, grace 3s", "expires in", `"why"`, "a/x a.b/y")
	if a := sh.must("lease", "ls", "a", "--json"); strings.Count(a.out, "\n") != 1 {
		t.Errorf("ls a: %q", a.out)
	}
	if l := sh.object("lease", "release", token, "--failed", "tired"); l["state"] != "released" || l["result"].(map[string]any)["detail"] != "tired" {
		t.Errorf("released: %v", l)
	}
	sh.run("lease", "ls", "--ended").wants(t, 0, "released")
	sh.run("lease", "ls", "--state", "released").wants(t, 0, "released")

	none := sh.object("lease", "acquire", "a/x", "--ttl", "none", "--grace", "none")
	if none["no_ttl"] != true || none["prior"] != "clean" || none["grace_ms"] != nil {
		t.Errorf("without TTL: %v", none)
	}
	op := "00000000000000000000000000000001@" + none["lsn"].(string)
	once := sh.object("lease", "acquire", "a/z", "--operation", op)
	again := sh.object("lease", "acquire", "a/z", "--operation", op)
	if again["token"] != once["token"] || again["replayed"] != true {
		t.Errorf("the same operation: %v, then %v", once, again)
	}
	sh.must("lease", "release", once["token"].(string))
	sh.run("lease", "acquire", "a/z", "--operation", op).wants(t, exitLost, "the operation's lease is over")
}

func TestStatusVerifyAndDump(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	sh := newShell(t, "wal:"+dir)
	sh.must("lease", "acquire", "a/b", "--holder", "me")
	if s := sh.object("status"); s["ready"] != true || s["leases"].(map[string]any)["active"] != 1.0 || s["caps"].(map[string]any)["every_event"] != true {
		t.Errorf("%v", s)
	}
	sh.run("status").wants(t, 0, "engine", dir, "ready", "active", "waiting in line")
	sh.run("verify", dir).wants(t, 0, "1 live leases", "the last stop was clean")
	if v := sh.object("verify", dir); v["sealed"] != true || v["live"] != 1.0 || v["to_lsn"] == nil {
		t.Errorf("%v", v)
	}
	dump := sh.must("journal", "dump", dir)
	dump.wants(t, 0, `"kind":"jump"`, `"kind":"seal"`)
	for line := range strings.Lines(dump.out) {
		o := object(t, line)
		if o["kind"] != "acquire" {
			continue
		}
		cmd := o["command"].(map[string]any)
		if cmd["holder"] != "me" || cmd["ttl_ms"] != 15000.0 || len(cmd["operation"].(string)) < 34 || len(cmd) != 5 {
			t.Errorf("the dump of an acquire: %s", line)
		}
	}
	doctor := sh.run("doctor") // the disk may be slow just now, and the code say so
	doctor.wants(t, doctor.code, "ok  clock", "every record verifies", "sync", "p99", "free")
	if slow := strings.Contains(doctor.out, "BAD "); slow != (doctor.code == exitOther) {
		t.Errorf("exit code %d for\n%s", doctor.code, doctor.out)
	}
	sh.run("verify", t.TempDir()).wants(t, exitUsage, "is no journal of Tenure")
}

func TestBench(t *testing.T) {
	sh := newShell(t, "wal:"+filepath.Join(t.TempDir(), "data"))
	for _, what := range []string{"cycles", "renew", "contend", "handover"} {
		args := []string{"bench", what, "--callers", "4", "--duration", "50ms"}
		if what == "renew" {
			args = append(args, "--leases", "10")
		}
		if b := sh.object(args...); b["what"] != what || b["count"].(float64) < 1 || b["p99_ns"].(float64) < b["p50_ns"].(float64) {
			t.Errorf("%v", b)
		}
	}
	sh.run("lease", "ls", "--json").wants(t, 0)
	if a := sh.must("lease", "ls", "--json"); a.out != "" {
		t.Errorf("a benchmark left leases behind: %s", a.out)
	}
}

func TestAnInterruptedCommandSaysSo(t *testing.T) {
	sh := newShell(t, "wal:"+filepath.Join(t.TempDir(), "data"))
	sh.must("lease", "acquire", "a/b", "--holder", "other")
	for _, args := range [][]string{{"lease", "acquire", "a/b", "--wait", "forever"}, {"run", "a/b", "--", "true"}, {"bench", "handover"}} {
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { stop(stopped{syscall.SIGTERM}) })
		a := sh.runIn(ctx, args...)
		a.wants(t, 143, "interrupted")
		stop(nil)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	out := &output{}
	m := &Main{Stdout: out, Stderr: out, Getenv: func(k string) string { return sh.env[k] }}
	code := make(chan int)
	go func() { code <- m.Run(ctx, []string{"lease", "ls", "--watch"}) }()
	testenv.Eventually(t, waitLong, "the watch stands", func() bool { return strings.Contains(out.String(), "watching") })
	stop(stopped{syscall.SIGINT})
	if c := <-code; c != 0 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("an interrupted watch: exit code %d, %q", c, out.String())
	}
}
