package fence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/fence"
)

func ExampleHandler() {
	write := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "written") })
	guarded := fence.Handler(write, fence.Memory())

	for _, tok := range []string{"0-42.1", "0-57.1", "0-42.1"} {
		r := httptest.NewRequest("PUT", "/orders/42", nil)
		r.Header.Set("Tenure-Resource", "orders/42")
		r.Header.Set("Tenure-Token", tok)
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		fmt.Println(tok, w.Code)
	}
	// Output:
	// 0-42.1 200
	// 0-57.1 200
	// 0-42.1 412
}

type counter int

func (c *counter) ServeHTTP(http.ResponseWriter, *http.Request) { *c++ }

func request(tokens, resources []string) *http.Request {
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header["Tenure-Token"], r.Header["Tenure-Resource"] = tokens, resources
	return r
}

func TestHandlerReadsItsHeaders(t *testing.T) {
	one, res := []string{"0-42.1"}, []string{"orders/42"}
	many := make([]string, 129)
	for i := range many {
		many[i] = "orders/42"
	}
	for name, c := range map[string]struct {
		tokens, resources []string
		want              int
	}{
		"good":                  {one, res, 200},
		"several resources":     {one, []string{"orders/2", "orders/1", "orders/2"}, 200},
		"most resources":        {one, many[:128], 200},
		"not ASCII, encoded":    {one, []string{"orders/gr%C3%B6%C3%9Fe%25"}, 200},
		"not ASCII, as it is":   {one, []string{"orders/größe"}, 200},
		"all encoded":           {one, []string{"orders%2F42"}, 200},
		"nothing":               {nil, nil, 428},
		"no token":              {nil, res, 428},
		"no resource":           {one, nil, 428},
		"empty token":           {[]string{""}, res, 400},
		"empty resource":        {one, []string{""}, 400},
		"two tokens":            {[]string{"0-42.1", "0-42.1"}, res, 400},
		"too many resources":    {one, many, 400},
		"token with zeros":      {[]string{"0-042.1"}, res, 400},
		"token with a space":    {[]string{" 0-42.1"}, res, 400},
		"epoch 0":               {[]string{"0-42.0"}, res, 400},
		"LSN of 64 bits":        {[]string{"0-9223372036854775808.1"}, res, 400},
		"huge token":            {[]string{strings.Repeat("9", 1<<16)}, res, 400},
		"no namespace":          {one, []string{"42"}, 400},
		"control character":     {one, []string{"orders/4\x012"}, 400},
		"control, encoded":      {one, []string{"orders/4%0A2"}, 400},
		"broken escape":         {one, []string{"orders/100%"}, 400},
		"not UTF-8":             {one, []string{"orders/%FF"}, 400},
		"longest key":           {one, []string{"orders/" + strings.Repeat("x", 512)}, 200},
		"longest key, encoded":  {one, []string{"orders/" + strings.Repeat("%20", 512)}, 200},
		"key too long":          {one, []string{"orders/" + strings.Repeat("x", 513)}, 400},
		"header too long":       {one, []string{"orders/" + strings.Repeat("x", 1<<16)}, 400},
		"one of several is bad": {one, []string{"orders/42", "42"}, 400},
		"one of joined is bad":  {one, []string{"orders/42, 42"}, 400},
		"joined with nothing":   {one, []string{"orders/42,"}, 400},
		"too many, joined":      {one, []string{strings.Join(many, ",")}, 400},
		"two tokens, joined":    {[]string{"0-42.1, 0-42.1"}, res, 400},
	} {
		t.Run(name, func(t *testing.T) {
			var served counter
			w := httptest.NewRecorder()
			fence.Handler(&served, fence.Memory()).ServeHTTP(w, request(c.tokens, c.resources))
			if w.Code != c.want || (served == 1) != (c.want == 200) {
				t.Errorf("%d, served %d times, want %d: %s", w.Code, served, c.want, w.Body)
			}
			if c.want != 200 && (!strings.HasPrefix(w.Body.String(), "tenure: ") || w.Body.Len() > 600) {
				t.Errorf("says %q", w.Body)
			}
		})
	}
}

// proves: T5
func TestHandlerNamesBothTokensOfAStaleRequest(t *testing.T) {
	var served counter
	h := fence.Handler(&served, fence.Memory())
	for i, c := range []struct {
		token     string
		resources []string
		want      int
	}{
		{"0-9.1", []string{"orders/1", "orders/2"}, 200},
		{"0-10.1", []string{"orders/2"}, 200},
		{"0-9.1", []string{"orders/1"}, 200},
		{"0-9.1", []string{"orders/1", "orders/2"}, 412}, // one lost member of a bundle is enough
		{"0-9.1", []string{"orders/2", "orders/1"}, 412},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request([]string{c.token}, c.resources))
		if w.Code != c.want {
			t.Errorf("request %d: %d, want %d", i, w.Code, c.want)
		}
		if body := w.Body.String(); c.want == 412 && (!strings.Contains(body, "0-9.1") || !strings.Contains(body, "0-10.1") || !strings.Contains(body, "orders/2")) {
			t.Errorf("request %d does not name both tokens and the resource: %s", i, body)
		}
	}
	if served != 3 {
		t.Errorf("served %d requests, want 3", served)
	}
}

func TestHandlerAcceptsOnlyWhatTheServiceGuards(t *testing.T) {
	var served counter
	h := fence.Handler(&served, fence.Memory(), fence.WithAccept(func(r *http.Request, res tenure.Resource) bool {
		return r.Method == "PUT" && res.Namespace() == "orders"
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request([]string{"0-42.1"}, []string{"orders/42"}))
	if w.Code != 200 {
		t.Errorf("its own: %d", w.Code)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request([]string{"0-42.1"}, []string{"orders/42", "elsewhere/42"}))
	if w.Code != 400 || served != 1 || !strings.Contains(w.Body.String(), "elsewhere/42") {
		t.Errorf("another's: %d %s", w.Code, w.Body)
	}
}

// failing is a store that answers an error.
type failing struct{ err error }

func (f failing) Do(context.Context, tenure.Resource, tenure.Token, func(context.Context) error) error {
	return f.err
}

func TestHandlerAnswersForAStoreThatCannotJudge(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"full":     {&tenure.Error{Code: tenure.ErrFull}, 507},
		"busy":     {&tenure.Error{Code: tenure.ErrUnavailable}, 503},
		"damaged":  {fmt.Errorf("%w: /secret/path", fence.ErrDamaged), 500},
		"anything": {errors.New("input/output error at /secret/path"), 500},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var served counter
			w := httptest.NewRecorder()
			h := fence.Handler(&served, failing{c.err}, fence.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			h.ServeHTTP(w, request([]string{"0-42.1"}, []string{"orders/42"}))
			if w.Code != c.want || served != 0 || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d, served %d times, want %d: %s", w.Code, served, c.want, w.Body)
			}
			if c.want == 500 && !strings.Contains(log.String(), "/secret/path") {
				t.Errorf("the log does not say what failed: %s", log.String())
			}
		})
	}
}

func TestHandlerGuardsWhileItServes(t *testing.T) {
	store := fence.Memory()
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
		defer cancel()
		if err := fence.Check(ctx, store, order, token("0-43.1")); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a newer holder was let in while an older one's request is served: %v", err)
		}
	})
	fence.Handler(next, store).ServeHTTP(httptest.NewRecorder(), request([]string{"0-42.1"}, []string{"orders/42"}))
	if err := fence.Check(t.Context(), store, order, token("0-43.1")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestSetHeaderIsReadBack(t *testing.T) {
	names := []tenure.Resource{"orders/42", "orders/100% größer/\"x\" ü", "a.b/c?d#e&f;g+h", "orders/1,orders/2"}
	seen := map[tenure.Resource]bool{}
	r := request([]string{"0-1.1"}, []string{"orders/1"}) // replaced
	fence.SetHeader(r.Header, token("0-42.1"), names...)
	h := fence.Handler(new(counter), fence.Memory(), fence.WithAccept(func(_ *http.Request, res tenure.Resource) bool {
		seen[res] = true
		return true
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, name := range names {
		if !seen[name] {
			t.Errorf("%q was not read back: %v", name, seen)
		}
	}
	if w.Code != 200 || len(seen) != len(names) || r.Header.Get("Tenure-Token") != "0-42.1" {
		t.Errorf("%d, %v, %v", w.Code, seen, r.Header)
	}
	if got := r.Header.Values("Tenure-Resource")[0]; got != "orders/42" {
		t.Errorf("a plain name is written %q", got)
	}
}

// A proxy may join the lines of a header with commas: what it made of two names
// is still two names, and not one that nobody else ever writes.
//
// proves: T5
func TestResourcesThatAnIntermediaryJoinedAreEachGuarded(t *testing.T) {
	for name, joined := range map[string]string{"and a space": "orders/1, orders/2", "alone": "orders/1,orders/2", "and tabs": "orders/1\t,\torders/2"} {
		t.Run("comma "+name, func(t *testing.T) {
			var served counter
			h := fence.Handler(&served, fence.Memory())
			for _, c := range []struct {
				token, resource string
				want            int
			}{{"0-9.1", "orders/1", 200}, {"0-5.1", joined, 412}, {"0-10.1", joined, 200}, {"0-9.1", "orders/2", 412}} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request([]string{c.token}, []string{c.resource}))
				if w.Code != c.want {
					t.Errorf("%s for %q: %d, want %d: %s", c.token, c.resource, w.Code, c.want, w.Body)
				}
			}
		})
	}
}
