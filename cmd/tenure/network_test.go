package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/testenv"
)

// secrets are a certificate that signs itself, its key, and a token, in files.
type secrets struct{ cert, key, token string }

func newSecrets(t *testing.T, addresses ...string) secrets {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tenure"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, a := range addresses {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(a))
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := secrets{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), token: filepath.Join(dir, "token")}
	for name, b := range map[string][]byte{
		s.cert:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		s.key:   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		s.token: []byte("open-sesame-0123456789\n"),
	} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s secrets) serve() []string {
	return []string{"--tls-cert", s.cert, "--tls-key", s.key, "--auth-token-file", s.token}
}

func (s secrets) dial(engine string) []string {
	return []string{"--engine", engine, "--ca", s.cert, "--token-file", s.token}
}

func TestTLSAndATokenGuardTheServer(t *testing.T) {
	t.Parallel()
	s := newSecrets(t, "127.0.0.1")
	d := serve(t, append(s.serve(), "--listen", "0.0.0.0:0")...)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(d.url, "https://"))
	url := "https://127.0.0.1:" + port
	sh := newShell(t, "")
	token := sh.object(append(s.dial(url), "lease", "acquire", "a/b")...)["token"].(string)
	sh.must(append(s.dial(url), "lease", "release", token)...)
	sh.run("--engine", url, "--ca", s.cert, "lease", "ls").wants(t, exitOther, "denied")
	sh.run("--engine", url, "lease", "ls").wants(t, exitUnavailable, "certificate")
	sh.run("--engine", "http://127.0.0.1:"+port, "lease", "ls").wants(t, exitUnavailable)

	if _, err := exec.LookPath("curl"); err != nil {
		testenv.Need(t, "curl")
	}
	curl := func(more ...string) string {
		out, err := exec.Command("curl", append([]string{"-sS", "--max-time", "20", "--cacert", s.cert, "-H", "Content-Type: application/json",
			"-d", `{"resources":["a/b"],"holder":"me"}`, url + "/tenure.v1.LeaseService/Acquire"}, more...)...).CombinedOutput()
		if err != nil {
			t.Errorf("curl: %v", err)
		}
		return string(out)
	}
	if out := curl(); !strings.Contains(out, `"denied"`) {
		t.Errorf("curl without a token: %s", out)
	}
	if out := curl("-H", "Authorization: Bearer open-sesame-0123456789"); !strings.Contains(out, `"token":"0-`) {
		t.Errorf("curl with it: %s", out)
	}
}

// island is a machine with a server, and another one behind a wire, each a
// network namespace of its own.
type island struct {
	t           *testing.T
	main, other string // names of the namespaces
	address     string // of the server
}

func newIsland(t *testing.T) *island {
	t.Helper()
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Need(t, tool)
		}
	}
	if os.Getuid() != 0 {
		testenv.Need(t, "root, for network namespaces")
	}
	n := os.Getpid() % 10_000
	i := &island{t: t, main: fmt.Sprintf("tenm%d", n), other: fmt.Sprintf("teno%d", n), address: "10.231.77.1"}
	if out, err := exec.Command("ip", "netns", "add", i.main).CombinedOutput(); err != nil {
		testenv.Need(t, "network namespaces ("+strings.TrimSpace(string(out))+")")
	}
	t.Cleanup(func() { i.ip("netns", "del", i.main) })
	i.ip("netns", "add", i.other)
	t.Cleanup(func() { i.ip("netns", "del", i.other) })
	i.ip("link", "add", "wire0", "netns", i.main, "type", "veth", "peer", "name", "wire1", "netns", i.other)
	for _, end := range []struct{ space, link, address string }{{i.main, "wire0", i.address}, {i.other, "wire1", "10.231.77.2"}} {
		i.ip("-n", end.space, "addr", "add", end.address+"/24", "dev", end.link)
		i.ip("-n", end.space, "link", "set", end.link, "up")
		i.ip("-n", end.space, "link", "set", "lo", "up")
	}
	return i
}

func (i *island) ip(args ...string) {
	i.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		i.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (i *island) in(space string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", space}, args...)
}

// cut drops every packet, so that nobody is told.
func (i *island) cut() {
	i.t.Helper()
	for _, chain := range []string{"INPUT", "OUTPUT"} {
		i.ip("netns", "exec", i.other, "iptables", "-w", "-A", chain, "-j", "DROP")
	}
}

func (i *island) mend() {
	i.t.Helper()
	i.ip("netns", "exec", i.other, "iptables", "-w", "-F")
}

// proves: T14
func TestACutOffRunsCommandIsDeadBeforeItsSuccessorStarts(t *testing.T) {
	t.Parallel()
	i := newIsland(t)
	s := newSecrets(t, i.address)
	d := &daemon{data: t.TempDir(), via: i.in(i.main), flags: append(s.serve(), "--listen", i.address+":7070")}
	d.restart(t)
	for _, mode := range []string{"polite", "stubborn"} {
		r := newRecord(t)
		run := slices.Concat([]string{testenv.Binary(t), "run", "jobs/x", "--ttl", "2s", "--grace", "100ms"}, s.dial(d.url), []string{"--", os.Args[0]})
		p := startCommand(t, r.environment(mode), i.in(i.other, run...)...)
		e := r.started(1)
		next := startCommand(t, r.environment("polite"), i.in(i.main, run...)...)
		next.says("waiting for")
		i.cut()
		cut := clock.Boot().Now()
		gone(t, e, cut+2*time.Second)
		r.started(2)
		p.ends().wants(t, exitLost, "could not renew", "tenure: lost jobs/x")
		i.mend()
		next.signal(syscall.SIGTERM)
		next.ends().wants(t, 0)
	}
}
