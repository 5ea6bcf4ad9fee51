package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tenurehq/tenure"
)

// Option tunes Dial.
type Option func(*options)

type options struct {
	ca, tokenFile string
	timeout       time.Duration
	dial          func(context.Context, string) (net.Conn, error)
}

// WithCA trusts the certificates in a PEM file, instead of the system's, and
// makes a target without a scheme TLS.
func WithCA(file string) Option { return func(o *options) { o.ca = file } }

// WithTokenFile sends the token in the file with every call. It is read once.
func WithTokenFile(file string) Option { return func(o *options) { o.tokenFile = file } }

// WithDialTimeout bounds Dial, and every later attempt to connect; 5 s by
// default.
func WithDialTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithDialer makes connections in another way than TCP.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// How a connection that was cut without a reset is noticed: pinged after this
// long in silence, given up after this long without an answer.
const (
	pingAfter  = 10 * time.Second // the least that gRPC allows a client
	pingWithin = 5 * time.Second
)

// window is how much may be on its way without being taken, in bytes.
const window = 4 << 20

// maxAnswer bounds one message from the server, in bytes.
const maxAnswer = 8 << 20

// resolve checks the target and the options against each other, and reads the
// files.
func (o *options) resolve(target string) (string, []grpc.DialOption, error) {
	scheme, address, found := strings.Cut(target, "://")
	if !found {
		scheme, address = "http", target
		if o.ca != "" {
			scheme = "https"
		}
	}
	address = strings.TrimSuffix(address, "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.Contains(port, "/") || (scheme != "http" && scheme != "https") {
		return "", nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "target", Why: fmt.Sprintf("%q is no server: write HOST:PORT, http://HOST:PORT or https://HOST:PORT", target)}
	}
	if scheme == "http" && o.ca != "" {
		return "", nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "target", Why: fmt.Sprintf("%s is plaintext, for which a certificate authority means nothing: write https://%s", target, address)}
	}
	secure := scheme == "https"
	settings := []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window), // fixed: see the server
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingWithin, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: o.timeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	}
	if o.dial != nil {
		settings = append(settings, grpc.WithContextDialer(o.dial))
	}
	trust, err := o.trust(secure)
	if err != nil {
		return "", nil, err
	}
	settings = append(settings, grpc.WithTransportCredentials(trust))
	if o.tokenFile == "" {
		return address, settings, nil
	}
	if !secure && !loopback(host) {
		return "", nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "target", Why: fmt.Sprintf("the token would cross the network to %s in plaintext: write https://%s", host, address)}
	}
	token, err := readToken(o.tokenFile)
	if err != nil {
		return "", nil, err
	}
	return address, append(settings, grpc.WithPerRPCCredentials(token)), nil
}

// trust decides whose certificate is good.
func (o *options) trust(secure bool) (credentials.TransportCredentials, error) {
	if !secure {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca == "" {
		return credentials.NewTLS(config), nil
	}
	pem, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, fmt.Errorf("client: read the certificate authority: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "ca", Why: o.ca + " holds no certificate in PEM"}
	}
	return credentials.NewTLS(config), nil
}

// bearer is the token that goes with every call.
type bearer string

func readToken(file string) (bearer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("client: read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &tenure.Error{Code: tenure.ErrInvalid, Field: "token_file", Why: file + " must hold one line: a token of printable ASCII without spaces"}
	}
	return bearer(token), nil
}

// GetRequestMetadata is called for every call.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity is judged in resolve, which knows loopback.
func (bearer) RequireTransportSecurity() bool { return false }

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
