package fence

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tenurehq/tenure"
)

// The headers of a guarded request. Names of resources are percent-encoded
// where they are not plain ASCII; a '%' and a ',' always are, since whatever
// passes a request on may join several lines of a header with commas (RFC 9110,
// section 5.3).
const (
	TokenHeader    = "Tenure-Token"    // once: 0-42.1
	ResourceHeader = "Tenure-Resource" // each resource that the request touches: a line each, or joined with ","
)

const (
	maxResources   = 128 // the widest bundle that any engine accepts
	maxEncodedName = 3 * tenure.MaxResourceBytes
)

// Handler lets a request through to next if its token is not below the highest
// that the store has seen for each of the resources it names, and answers for
// next otherwise: 428 if a header is missing, 400 if one is malformed or names a
// resource that is not accepted, 412 with both tokens named if the token is
// stale, 503 if requests under an earlier token were still running when the
// client gave up, 507 if the store is full, 500 if it failed.
//
// While next serves, no request under another token for these resources is
// served, by any process that shares the store; see the package comment.
func Handler(next http.Handler, store Store, opts ...Option) http.Handler {
	h := &handler{
		next:   next,
		store:  store,
		accept: func(*http.Request, tenure.Resource) bool { return true },
		log:    slog.Default(),
	}
	for _, o := range opts {
		o(h)
	}
	return h
}

// Option changes what a [Handler] does.
type Option func(*handler)

// WithAccept tells which resources a request may name. Without it every name is
// good, also one that has nothing to do with what the request writes to, and the
// store grows with each.
func WithAccept(accept func(*http.Request, tenure.Resource) bool) Option {
	return func(h *handler) { h.accept = accept }
}

// WithLogger sends failures of the store there; [slog.Default] otherwise.
func WithLogger(l *slog.Logger) Option {
	return func(h *handler) { h.log = l }
}

// SetHeader writes the token and the resources into the headers of a request to
// a guarded service.
func SetHeader(h http.Header, token tenure.Token, resources ...tenure.Resource) {
	h.Set(TokenHeader, token.String())
	h.Del(ResourceHeader)
	for _, r := range resources {
		h.Add(ResourceHeader, strings.ReplaceAll(url.PathEscape(string(r)), "%2F", "/"))
	}
}

type handler struct {
	next   http.Handler
	store  Store
	accept func(*http.Request, tenure.Resource) bool
	log    *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, resources, status, err := h.read(r)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	served := false
	err = h.do(r.Context(), resources, token, func(ctx context.Context) error {
		served = true
		h.next.ServeHTTP(w, r.WithContext(ctx))
		return nil
	})
	if err == nil || served {
		return
	}
	status = statusOf(err)
	if status == http.StatusInternalServerError {
		h.log.Error("tenure: fence failed", "resources", resources, "token", token, "err", err)
		err = fmt.Errorf("tenure: the highest token seen cannot be told or kept, so nothing passes: see the service's log")
	}
	http.Error(w, err.Error(), status)
}

// do passes through the fences one after another, in one order for all.
func (h *handler) do(ctx context.Context, resources []tenure.Resource, token tenure.Token, fn func(context.Context) error) error {
	if len(resources) == 0 {
		return fn(ctx)
	}
	return h.store.Do(ctx, resources[0], token, func(ctx context.Context) error {
		return h.do(ctx, resources[1:], token, fn)
	})
}

func (h *handler) read(r *http.Request) (token tenure.Token, resources []tenure.Resource, status int, err error) {
	tokens, names := r.Header.Values(TokenHeader), split(r.Header.Values(ResourceHeader))
	switch {
	case len(tokens) == 0 || len(names) == 0:
		return token, nil, http.StatusPreconditionRequired, fmt.Errorf("tenure: this is guarded: name the resource in %s and the lease's token in %s", ResourceHeader, TokenHeader)
	case len(tokens) > 1 || len(names) > maxResources:
		return token, nil, http.StatusBadRequest, fmt.Errorf("tenure: %d tokens for %d resources: one token, and at most %d resources", len(tokens), len(names), maxResources)
	}
	if token, err = tenure.ParseToken(tokens[0]); err != nil {
		return token, nil, http.StatusBadRequest, err
	}
	for _, name := range names {
		resource, err := readResource(name)
		if err != nil {
			return token, nil, http.StatusBadRequest, err
		}
		if !h.accept(r, resource) {
			return token, nil, http.StatusBadRequest, &tenure.Error{Code: tenure.ErrInvalid, Field: ResourceHeader, Resource: resource, Why: "this service does not guard it, or not for this request"}
		}
		resources = append(resources, resource)
	}
	slices.Sort(resources)
	return token, slices.Compact(resources), 0, nil
}

// split undoes what an intermediary joined.
func split(lines []string) (names []string) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.Trim(name, " \t"))
		}
	}
	return names
}

func readResource(name string) (tenure.Resource, error) {
	if len(name) > maxEncodedName {
		return "", fmt.Errorf("tenure: %s has %d bytes, at most %d are allowed", ResourceHeader, len(name), maxEncodedName)
	}
	plain, err := url.PathUnescape(name)
	if err != nil {
		return "", fmt.Errorf("tenure: %s is not percent-encoded: %w", ResourceHeader, err)
	}
	return tenure.ParseResource(plain)
}

func statusOf(err error) int {
	switch tenure.CodeOf(err) {
	case tenure.ErrStale:
		return http.StatusPreconditionFailed
	case tenure.ErrInvalid:
		return http.StatusBadRequest
	case tenure.ErrUnavailable:
		return http.StatusServiceUnavailable
	case tenure.ErrFull:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
