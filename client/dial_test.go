package client_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/server"
)

func TestDialSaysWhatIsWrong(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	_ = free.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("two words"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target string
		opts   []client.Option
		code   tenure.Code
		says   string
	}{
		{nobody, nil, tenure.ErrUnavailable, nobody},
		{"http://" + nobody, nil, tenure.ErrUnavailable, "tenure serve"},
		{"https://" + nobody + "/", nil, tenure.ErrUnavailable, nobody},
		{silent.Addr().String(), []client.Option{client.WithDialTimeout(50 * time.Millisecond)}, tenure.ErrUnavailable, silent.Addr().String()},
		{web.URL, nil, tenure.ErrUnavailable, web.URL},
		{"", nil, tenure.ErrInvalid, "HOST:PORT"},
		{"127.0.0.1", nil, tenure.ErrInvalid, "HOST:PORT"},
		{":7070", nil, tenure.ErrInvalid, "HOST:PORT"},
		{"nats://127.0.0.1:4222", nil, tenure.ErrInvalid, "HOST:PORT"},
		{"http://127.0.0.1:7070/path", nil, tenure.ErrInvalid, "HOST:PORT"},
		{"http://" + nobody, []client.Option{client.WithCA("x")}, tenure.ErrInvalid, "https://"},
		{"http://example.com:7070", []client.Option{client.WithTokenFile(token)}, tenure.ErrInvalid, "plaintext"},
		{nobody, []client.Option{client.WithTokenFile(token)}, tenure.ErrInvalid, token},
		{nobody, []client.Option{client.WithCA(token)}, tenure.ErrInvalid, token},
		{nobody, []client.Option{client.WithCA(token + "x")}, 0, token + "x"},
		{nobody, []client.Option{client.WithTokenFile(token + "x")}, 0, token + "x"},
	} {
		_, err := client.Dial(t.Context(), c.target, c.opts...)
		if err == nil || tenure.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v and %q", c.target, err, c.code, c.says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Dial(ctx, silent.Addr().String()); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestTLSAndToken(t *testing.T) {
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
	cfg := server.Config{
		TLSCert:       write("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})),
		TLSKey:        write("key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		AuthTokenFile: write("token", []byte("s3cret\n")),
	}
	wrong := write("wrong", []byte("s3cret2"))
	address, _ := serve(t, memory(t), cfg)

	for _, target := range []string{address, "https://" + address} {
		c := dial(t, target, client.WithCA(cfg.TLSCert), client.WithTokenFile(cfg.AuthTokenFile))
		l, err := c.Acquire(t.Context(), on("a/1", "me"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), tenure.Release{Ref: l.Ref, Holder: "me"}); err != nil {
			t.Fatal(err)
		}
		for ev, err := range c.Watch(t.Context(), tenure.Filter{}) {
			if err != nil || ev.Kind != tenure.EventWatching {
				t.Fatalf("%v %v", ev.Kind, err)
			}
			break
		}
	}
	for name, c := range map[string]struct {
		code tenure.Code
		opts []client.Option
	}{
		"no token":    {tenure.ErrDenied, []client.Option{client.WithCA(cfg.TLSCert)}},
		"wrong token": {tenure.ErrDenied, []client.Option{client.WithCA(cfg.TLSCert), client.WithTokenFile(wrong)}},
		"no trust":    {tenure.ErrUnavailable, []client.Option{client.WithTokenFile(wrong)}},
	} {
		if _, err := client.Dial(t.Context(), "https://"+address, c.opts...); tenure.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.Dial(t.Context(), "http://"+address); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("plaintext: %v", err)
	}
}

func TestDialer(t *testing.T) {
	address, _ := serve(t, memory(t), server.Config{})
	c := dial(t, "lease.example:7070", client.WithDialer(func(ctx context.Context, to string) (net.Conn, error) {
		if to != "lease.example:7070" {
			t.Errorf("dialled %s", to)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}))
	if _, err := c.Acquire(t.Context(), on("a/1", "me")); err != nil {
		t.Fatal(err)
	}
}

// Close ends what is under way, and what comes after it.
func TestClose(t *testing.T) {
	asked := make(chan struct{}, 2)
	e := &scripted{acquire: func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return tenure.Lease{}, &tenure.Error{Code: tenure.ErrHeld}
	}}
	c := scriptedClient(t, e)
	failed := make(chan error, 1)
	go func() {
		claim := on("a/1", "me")
		claim.Wait = tenure.WaitForever
		_, err := c.Acquire(t.Context(), claim)
		failed <- err
	}()
	<-asked
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var e1 *tenure.Error
	if err := <-failed; !errors.As(err, &e1) || e1.Code != tenure.ErrUnknownOutcome || e1.Op.IsZero() {
		t.Errorf("a wait under way: %v", err)
	}
	if _, err := c.Acquire(t.Context(), on("a/1", "me")); !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("a claim after Close: %v", err)
	}
	for _, err := range c.Watch(t.Context(), tenure.Filter{}) {
		if !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a watch after Close: %v", err)
		}
	}
}
