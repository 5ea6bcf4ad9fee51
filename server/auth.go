package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/tenurehq/tenure"
)

// auth knows the one token that callers must carry; the zero value lets
// everybody in. It keeps the token's hash, so that comparing takes the same
// time for tokens of any length.
type auth struct {
	required bool
	hash     [sha256.Size]byte
}

func readAuth(file string) (auth, error) {
	if file == "" {
		return auth{}, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return auth{}, fmt.Errorf("server: read the token: %w", err)
	}
	token := bytes.TrimSpace(b)
	if len(token) == 0 || bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return auth{}, &tenure.Error{Code: tenure.ErrInvalid, Field: "auth_token_file", Why: file + " must hold one line: a token of printable ASCII without spaces"}
	}
	return auth{required: true, hash: sha256.Sum256(token)}, nil
}

// check judges the values of the authorization header.
func (a auth) check(values []string) error {
	if !a.required {
		return nil
	}
	if len(values) != 1 {
		return &tenure.Error{Code: tenure.ErrDenied, Why: "this server wants a token: send the header Authorization: Bearer TOKEN (--token-file FILE)"}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(hash[:], a.hash[:]) != 1 {
		return &tenure.Error{Code: tenure.ErrDenied, Why: "the token is not this server's"}
	}
	return nil
}

func (a auth) checkRPC(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	return a.check(md.Get("authorization"))
}

// tlsFiles is the certificate to serve with; nil means plaintext.
type tlsFiles struct{ config *tls.Config }

func readTLS(cfg Config) (*tlsFiles, error) {
	if cfg.TLSCert == "" && cfg.TLSKey == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("server: read the certificate: %w", err)
	}
	return &tlsFiles{&tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1", "h2"}, // in order of preference: a client that offers both is curl or a browser
	}}, nil
}
