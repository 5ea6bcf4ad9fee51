package server_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
	"github.com/tenurehq/tenure/server"
)

// secrets writes a certificate for 127.0.0.1, its key and a token to files,
// and returns a configuration that uses them and what trusts the certificate.
func secrets(t testing.TB) (server.Config, *x509.CertPool) {
	t.Helper()
	known := httptest.NewTLSServer(nil)
	defer known.Close()
	key, err := x509.MarshalPKCS8PrivateKey(known.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pool := x509.NewCertPool()
	pool.AddCert(known.Certificate())
	return server.Config{
		TLSCert:       write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})),
		TLSKey:        write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		AuthTokenFile: write("token", []byte("s3cret\n")),
	}, pool
}

// Plaintext gRPC, HTTP/1.1 and HTTP/2 with prior knowledge share a port.
func TestOnePortPlaintext(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	if _, err := rpc(t, r).Acquire(t.Context(), &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}); err != nil {
		t.Error(err)
	}
	if status, o := r.post(t, "LeaseService/Get", `{"resource":"a/1"}`); status != http.StatusOK || o["lease"].(object)["holder"] != "me" {
		t.Errorf("%d %v", status, o)
	}
	// Bytes that arrive one by one are sorted all the same.
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range []byte("PRINT /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		t.Errorf("%q %v", answer, err)
	}
}

func TestOnePortTLS(t *testing.T) {
	cfg, pool := secrets(t)
	r := serve(t, memory(t), cfg)
	creds := credentials.NewTLS(&tls.Config{RootCAs: pool})
	conn, err := grpc.NewClient("passthrough:///"+r.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	if _, err := pb.NewLeaseServiceClient(conn).Acquire(ctx, &pb.AcquireRequest{Resources: []string{"a/1"}, Holder: "me"}); err != nil {
		t.Error(err)
	}
	// A client that offers both, as curl does, and one that offers nothing get HTTP/1.1.
	for name, offers := range map[string][]string{"both": {"h2", "http/1.1"}, "one": {"http/1.1"}, "none": nil} {
		c, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: pool, NextProtos: offers})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got := c.ConnectionState().NegotiatedProtocol; offers != nil && got != "http/1.1" {
			t.Errorf("%s: %q was agreed on", name, got)
		}
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if answer, _ := io.ReadAll(c); !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
			t.Errorf("%s: %q", name, answer)
		}
	}
	res, err := http.Get("http://" + r.address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest || !bytes.Contains(b, []byte("https://")) {
		t.Errorf("plaintext on the TLS port: %d %q", res.StatusCode, b)
	}
}

func TestTokenIsAskedForEverywhere(t *testing.T) {
	cfg, _ := secrets(t)
	cfg.TLSCert, cfg.TLSKey = "", ""
	r := serve(t, memory(t), cfg)
	c := rpc(t, r)
	for name, header := range map[string][]string{
		"none": nil, "wrong": {"Bearer nope"}, "longer": {"Bearer s3crets"}, "shorter": {"Bearer s3cre"}, "empty": {"Bearer "},
		"another scheme": {"Basic s3cret"}, "bare": {"s3cret"}, "two": {"Bearer s3cret", "Bearer s3cret"},
	} {
		ctx := t.Context()
		for _, h := range header {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", h)
		}
		if _, err := c.Get(ctx, &pb.GetRequest{Resource: "a/1"}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: a gRPC call: %v", name, err)
		}
		if call, err := c.Call(ctx); err == nil {
			if _, err = call.Recv(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: the packed stream: %v", name, err)
			}
		}
		if watch, err := c.Watch(ctx, &pb.WatchRequest{}); err == nil {
			if _, err = watch.Recv(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: a watch: %v", name, err)
			}
		}
		for _, path := range []string{"LeaseService/Get", "LeaseService/Watch", "LeaseService/Call", "AdminService/Status"} {
			req := r.request(t, path, strings.NewReader(`{}`))
			req.Header["Authorization"] = header
			if status, o := r.send(t, req); status != http.StatusUnauthorized || o["code"] != "denied" {
				t.Errorf("%s: JSON %s: %d %v", name, path, status, o)
			}
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401} {
		res, err := http.Get("http://" + r.address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	req := r.request(t, "LeaseService/Get", strings.NewReader(`{"resource":"a/1"}`))
	req.Header.Set("Authorization", "bearer s3cret")
	if status, o := r.send(t, req); status != http.StatusNotFound {
		t.Errorf("with the token: %d %v", status, o)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret")
	if _, err := c.Get(ctx, &pb.GetRequest{Resource: "a/1"}); status.Code(err) != codes.NotFound {
		t.Errorf("with the token: %v", err)
	}
}

func TestListenBeyondLoopbackNeedsTLSAndToken(t *testing.T) {
	full := server.Config{TLSCert: "c", TLSKey: "k", AuthTokenFile: "t"}
	for _, c := range []struct {
		addr  string
		cfg   server.Config
		names []string // what the refusal spells out; nil = allowed
	}{
		{"127.0.0.1:7070", server.Config{}, nil},
		{"127.8.9.1:7070", server.Config{}, nil},
		{"[::1]:7070", server.Config{}, nil},
		{"[::ffff:127.0.0.1]:7070", server.Config{}, nil},
		{"localhost:0", server.Config{}, nil},
		{":7070", full, nil},
		{":7070", server.Config{}, []string{"--tls-cert", "--tls-key", "--auth-token-file"}},
		{"0.0.0.0:7070", server.Config{AuthTokenFile: "t"}, []string{"--tls-cert", "--tls-key"}},
		{"[::]:7070", server.Config{TLSCert: "c", TLSKey: "k"}, []string{"--auth-token-file"}},
		{"10.0.0.1:7070", server.Config{}, []string{"--tls-cert"}},
		{"localhost.example:7070", server.Config{}, []string{"--tls-cert"}},
		{"127.0.0.1:7070", server.Config{TLSCert: "c"}, []string{"--tls-key"}},
		{"7070", server.Config{}, []string{"HOST:PORT"}},
	} {
		err := server.CheckListen(c.addr, c.cfg)
		if (err == nil) != (c.names == nil) || err != nil && !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%s %+v: %v", c.addr, c.cfg, err)
		}
		for _, name := range c.names {
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", c.addr, err, name)
			}
		}
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.New(&scripted{}, server.Config{}).Serve(t.Context(), l); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("served on %s: %v", l.Addr(), err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was left open: %v", err)
	}
}

// proves: T12
func TestConnectionsAreBounded(t *testing.T) {
	r := serve(t, memory(t), server.Config{MaxConns: 1})
	first, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	// It is counted once it is answered.
	_, _ = io.WriteString(first, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := first.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n, err := second.Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes on a connection too many", n)
	}
	_ = first.Close()
	for { // the place is free once the server has noticed
		res, err := http.Get("http://" + r.address + "/healthz")
		if err == nil {
			_ = res.Body.Close()
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	var halted atomic.Bool
	cfg := server.Config{
		Ready: func() error {
			if halted.Load() {
				return &tenure.Error{Code: tenure.ErrHalted, Why: "the disk is gone"}
			}
			return nil
		},
		Stats: func() server.Stats {
			return server.Stats{LSN: 1 << 62, Leases: map[tenure.State]int{tenure.StateActive: 3}}
		},
	}
	r := serve(t, memory(t), cfg)
	get := func(path string) (int, string) {
		res, err := http.Get("http://" + r.address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	r.post(t, "LeaseService/Acquire", `{"resources":["a/1"],"holder":"me"}`)
	r.post(t, "LeaseService/Acquire", `{"resources":["a/1"],"holder":"you"}`)
	if _, err := rpc(t, r).Get(t.Context(), &pb.GetRequest{Resource: "a/2"}); err == nil {
		t.Error("there is no a/2")
	}
	r.post(t, "LeaseService/Watch", `{"from":"9223372036854775800.0"}`)
	_, text := get("/metrics")
	for _, line := range []string{
		`tenure_server_requests_total{code="ok",method="Acquire"} 1`,
		`tenure_server_requests_total{code="held",method="Acquire"} 1`,
		`tenure_server_requests_total{code="not_found",method="Get"} 1`,
		`tenure_server_waiters 0`,
		`tenure_server_requests_total{code="compacted",method="Watch"} 1`,
		`tenure_server_requests_total{code="ok",method="Watch"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	if _, o := r.post(t, "AdminService/Status", `{}`); o["lsn"] != "4611686018427387904" || o["leases"].(object)["active"] != 3.0 {
		t.Errorf("status: %v", o)
	}
	if code, _ := get("/readyz"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	halted.Store(true)
	if code, text := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "the disk is gone") {
		t.Errorf("not ready: %d %q", code, text)
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("healthy: %d", code)
	}
}
