package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tenurehq/tenure/server"
)

func TestJSONMakesEveryCall(t *testing.T) {
	r := serve(t, memory(t), server.Config{Version: "v9"})
	next := r.stream(t, "LeaseService/Watch", `{"namespace":"orders"}`)
	if ev := next(); ev["kind"] != "watching" || ev["position"] == nil || ev["lsn"] == nil {
		t.Fatalf("the first event is %v", ev)
	}
	ok := func(method, body string) object {
		t.Helper()
		status, o := r.post(t, "LeaseService/"+method, body)
		if status != http.StatusOK || o["lsn"] == nil {
			t.Fatalf("%s %s: %d %v", method, body, status, o)
		}
		return o
	}
	l := ok("Acquire", `{"resources":["orders/1","orders/2"],"holder":"me","ttl_ms":2000,"meta":"aGk=","reserve_ms":1000}`)["lease"].(object)
	if l["state"] != "reserved" || l["ttl_ms"] != 2000.0 || l["grace_ms"] != 200.0 || l["meta"] != "aGk=" || l["prior"] != "never" || l["epoch"] != 1.0 {
		t.Fatalf("reserved: %v", l)
	}
	holder := fmt.Sprintf(`"token":%q,"holder":"me"`, l["token"])
	if l := ok("Activate", "{"+holder+"}")["lease"].(object); l["state"] != "active" {
		t.Fatalf("activated: %v", l)
	}
	renewed := ok("Renew", fmt.Sprintf(`{"refs":[{"token":%q},{"token":"0-999.1"},{"token":"x"}]}`, l["token"]))["answers"].([]any)
	if renewed[0].(object)["ok"] != true || renewed[1].(object)["error"].(object)["code"] == "invalid" || renewed[2].(object)["error"].(object)["field"] != "token" {
		t.Fatalf("renewed: %v", renewed)
	}
	if got := ok("Get", `{"resource":"orders/2"}`)["lease"].(object); got["lease_id"] != l["lease_id"] || got["resource"] == nil && got["resources"].([]any)[1] != "orders/2" {
		t.Fatalf("got: %v", got)
	}
	if got := ok("List", `{"namespace":"orders","state":"active"}`)["leases"].([]any); len(got) != 1 {
		t.Fatalf("listed: %v", got)
	}
	if got := ok("Revoke", fmt.Sprintf(`{"lease_id":%q,"reason":"gone fishing"}`, l["lease_id"]))["lease"].(object); got["state"] != "revoking" || got["token"] != nil {
		t.Fatalf("revoked: %v", got)
	}
	got := ok("Reclaim", fmt.Sprintf(`{"lease_id":%q,"holder_is_dead":true}`, l["lease_id"]))["lease"].(object)
	if result := got["result"].(object); got["state"] != "revoked" || result["outcome"] != "revoked" || result["detail"] != "gone fishing" {
		t.Fatalf("reclaimed: %v", got)
	}
	l = ok("Acquire", `{"resources":["orders/1"],"holder":"me","no_ttl":true}`)["lease"].(object)
	if l["no_ttl"] != true || l["prior"] != "taken" {
		t.Fatalf("held without a TTL: %v", l)
	}
	ok("Release", fmt.Sprintf(`{"token":%q,"holder":"me","result":{"outcome":"failed","detail":"why not"}}`, l["token"]))
	for _, kind := range []string{"granted", "activated", "revoking", "freed", "granted", "released"} {
		if ev := next(); ev["kind"] != kind {
			t.Fatalf("event %v, want %s", ev, kind)
		}
	}
	status, o := r.post(t, "AdminService/Status", ``)
	if caps := o["caps"].(object); status != http.StatusOK || o["version"] != "v9" || caps["bundles"] != true || o["ready"] != true || o["lsn"] == nil {
		t.Fatalf("status: %d %v", status, o)
	}
}

func TestJSONHeldIsConflict(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	_, first := r.post(t, "LeaseService/Acquire", `{"resources":["a/1"],"holder":"me"}`)
	status, o := r.post(t, "LeaseService/Acquire", `{"resources":["a/1"],"holder":"you"}`)
	free, _ := o["free_in_ms"].(float64)
	if status != http.StatusConflict || o["code"] != "held" || o["holder"] != "me" || o["resource"] != "a/1" ||
		o["lease_id"] != first["lease"].(object)["lease_id"] || free <= 0 || o["why"] == nil || o["lsn"] == nil {
		t.Fatalf("%d %v", status, o)
	}
}

// Every field at, below and above what it may be. "" as the field means that
// the call is granted.
func TestJSONLimits(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	n := 0
	claim := func(fields string) string {
		n++
		return fmt.Sprintf(`{"resources":["lim/%d"],"holder":"me"%s}`, n, fields)
	}
	named := func(name string) string { return fmt.Sprintf(`{"resources":[%q],"holder":"me"}`, name) }
	held := func(holder string) string { return strings.Replace(claim(""), `"me"`, fmt.Sprintf("%q", holder), 1) }
	element := strings.Repeat("e", 63)
	for _, c := range []struct{ name, method, body, field string }{
		{"no resources", "Acquire", `{"holder":"me"}`, "resources"},
		{"twice", "Acquire", `{"resources":["a/1","a/1"],"holder":"me"}`, "resources"},
		{"64 resources", "Acquire", bundle("six", 64), ""},
		{"65 resources", "Acquire", bundle("five", 65), "resources"},
		{"no namespace", "Acquire", named("x"), "resource"},
		{"element of 63", "Acquire", named(element + "/x"), ""},
		{"element of 64", "Acquire", named(element + "e/x"), "namespace"},
		{"8 elements", "Acquire", named("a.b.c.d.e.f.g.h/x"), ""},
		{"9 elements", "Acquire", named("a.b.c.d.e.f.g.h.i/x"), "namespace"},
		{"namespace alphabet", "Acquire", named("a b/x"), "namespace"},
		{"empty key", "Acquire", named("k/"), "resource"},
		{"key of 1", "Acquire", named("k/x"), ""},
		{"key of 512", "Acquire", named("k/" + strings.Repeat("x", 512)), ""},
		{"key of 513", "Acquire", named("k/" + strings.Repeat("x", 513)), "resource"},
		{"control character", "Acquire", `{"resources":["k/a\u0007b"],"holder":"me"}`, "resource"},
		{"C1 control character", "Acquire", `{"resources":["k/a\u0085b"],"holder":"me"}`, "resource"},
		{"zero byte", "Acquire", `{"resources":["k/a\u0000b"],"holder":"me"}`, "resource"},
		{"no holder", "Acquire", `{"resources":["k/h"]}`, "holder"},
		{"holder of 256", "Acquire", held(strings.Repeat("h", 256)), ""},
		{"holder of 257", "Acquire", held(strings.Repeat("h", 257)), "holder"},
		{"holder with a line break", "Acquire", `{"resources":["k/h"],"holder":"a\nb"}`, "holder"},
		{"ttl 99", "Acquire", claim(`,"ttl_ms":99`), "ttl"},
		{"ttl 100", "Acquire", claim(`,"ttl_ms":100`), ""},
		{"ttl of a day", "Acquire", claim(`,"ttl_ms":86400000`), ""},
		{"ttl of a day and more", "Acquire", claim(`,"ttl_ms":86400001`), "ttl"},
		{"ttl 0 is the default", "Acquire", claim(`,"ttl_ms":0`), ""},
		{"ttl and no ttl", "Acquire", claim(`,"ttl_ms":1000,"no_ttl":true`), "ttl_ms"},
		{"grace of a day", "Acquire", claim(`,"grace_ms":86400000`), ""},
		{"grace of a day and more", "Acquire", claim(`,"grace_ms":86400001`), "grace"},
		{"no grace", "Acquire", claim(`,"no_grace":true`), ""},
		{"grace and no grace", "Acquire", claim(`,"grace_ms":1,"no_grace":true`), "grace_ms"},
		{"reserve 99", "Acquire", claim(`,"reserve_ms":99`), "reserve"},
		{"reserve 100", "Acquire", claim(`,"reserve_ms":100`), ""},
		{"reserve of an hour", "Acquire", claim(`,"reserve_ms":3600000`), ""},
		{"reserve of an hour and more", "Acquire", claim(`,"reserve_ms":3600001`), "reserve"},
		{"wait and wait forever", "Acquire", claim(`,"wait_ms":1,"wait_forever":true`), "wait_ms"},
		{"meta of 4096", "Acquire", claim(`,"meta":"` + strings.Repeat("AAAA", 1365) + `AA=="`), ""},
		{"meta of 4098", "Acquire", claim(`,"meta":"` + strings.Repeat("AAAA", 1366) + `"`), "meta"},
		{"operation", "Acquire", claim(`,"operation":"` + strings.Repeat("a", 32) + `@0"`), ""},
		{"operation of 31", "Acquire", claim(`,"operation":"` + strings.Repeat("a", 31) + `"`), "operation"},
		{"operation of 33", "Acquire", claim(`,"operation":"` + strings.Repeat("a", 33) + `"`), "operation"},
		{"operation of zeros", "Acquire", claim(`,"operation":"` + strings.Repeat("0", 32) + `"`), "operation"},
		{"operation seen", "Acquire", claim(`,"operation":"` + strings.Repeat("b", 32) + `@-1"`), "operation"},
		{"no token", "Activate", `{"holder":"me"}`, "token"},
		{"token with zeros", "Activate", `{"token":"0-01.1","holder":"me"}`, "token"},
		{"token without epoch", "Release", `{"token":"0-1","holder":"me"}`, "token"},
		{"release without a holder", "Release", `{"token":"0-1.1"}`, "holder"},
		{"release lapsed", "Release", `{"token":"0-1.1","holder":"me","result":{"outcome":"lapsed"}}`, "result"},
		{"release so so", "Release", `{"token":"0-1.1","holder":"me","result":{"outcome":"so so"}}`, "result"},
		{"detail of 1025", "Release", `{"token":"0-1.1","holder":"me","result":{"detail":"` + strings.Repeat("d", 1025) + `"}}`, "detail"},
		{"revoke nothing", "Revoke", `{}`, "lease"},
		{"revoke badly", "Revoke", `{"lease_id":"42"}`, "lease"},
		{"reason of 1025", "Revoke", `{"lease_id":"0-1","reason":"` + strings.Repeat("r", 1025) + `"}`, "reason"},
		{"reclaim nothing", "Reclaim", `{"holder_is_dead":true}`, "lease"},
		{"get nothing", "Get", `{}`, "query"},
		{"get below the history", "Get", `{"resource":"k/x","min_lsn":"9223372036854775808"}`, "min_lsn"},
		{"list 1000", "List", `{"page_size":1000}`, ""},
		{"list 1001", "List", `{"page_size":1001}`, "page_size"},
		{"list a state", "List", `{"state":"asleep"}`, "state"},
		{"list a namespace", "List", `{"namespace":"a..b"}`, "namespace"},
		{"list a holder", "List", `{"holder":"a\u0001"}`, "holder"},
		{"list a page", "List", `{"page_token":"nowhere"}`, "page_token"},
		{"watch from", "Watch", `{"from":"yesterday"}`, "from"},
		{"watch a state", "Watch", `{"state":"asleep"}`, "state"},
		{"renew nothing", "Renew", `{"refs":[]}`, ""},
		{"renew 10000", "Renew", refs(10_000), ""},
		{"renew 10001", "Renew", refs(10_001), "refs"},
	} {
		status, o := r.post(t, "LeaseService/"+c.method, c.body)
		switch {
		case c.field == "" && status != http.StatusOK:
			t.Errorf("%s: %d %v", c.name, status, o)
		case c.field != "" && (status != http.StatusBadRequest || o["code"] != "invalid" || o["field"] != c.field || o["why"] == nil):
			t.Errorf("%s: %d %v, want field %q", c.name, status, o, c.field)
		}
	}
}

func bundle(namespace string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"%s/%d"`, namespace, i)
	}
	return `{"holder":"me","resources":[` + strings.Join(names, ",") + `]}`
}

func refs(n int) string {
	return `{"refs":[` + strings.TrimSuffix(strings.Repeat(`{"token":"0-1.1"},`, n), ",") + `]}`
}

func TestJSONNamesTheFieldThatIsWrong(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	for _, c := range []struct{ body, field string }{
		{`{"resources":["a/1"],"holder":"me","ttl":5}`, "ttl"},
		{`{"resources":["a/1"],"holder":"me","Holder":"x"}`, "Holder"},
		{`{"resources":"a/1","holder":"me"}`, "resources"},
		{`{"resources":[1],"holder":"me"}`, "resources[0]"},
		{`{"resources":["a/1",{}],"holder":"me"}`, "resources[1]"},
		{`{"resources":["a/1"],"holder":7}`, "holder"},
		{`{"resources":["a/1"],"holder":"me","ttl_ms":"soon"}`, "ttl_ms"},
		{`{"resources":["a/1"],"holder":"me","ttl_ms":-1}`, "ttl_ms"},
		{`{"resources":["a/1"],"holder":"me","ttl_ms":1.5}`, "ttl_ms"},
		{`{"resources":["a/1"],"holder":"me","ttl_ms":4294967296}`, "ttl_ms"},
		{`{"resources":["a/1"],"holder":"me","ttl_ms":true}`, "ttl_ms"},
		{`{"resources":["a/1"],"holder":"me","no_ttl":"yes"}`, "no_ttl"},
		{`{"resources":["a/1"],"holder":"me","meta":5}`, "meta"},
		{`{"resources":["a/1"],"holder":"me","meta":"%%%"}`, "body"},
		{`{"resources":["a/1"],"holder":"me","holder":"you"}`, "body"},
		{`{"resources":["a/1"],"holder":"me"`, "body"},
		{`{"resources":["a/1"],"holder":"me"} {}`, "body"},
		{"{\"resources\":[\"a/\xff\"],\"holder\":\"me\"}", "body"},
		{`["a/1"]`, "body"},
		{`hello`, "body"},
		{`null`, "body"},
		{strings.Repeat("[", 100_000), "body"},
	} {
		status, o := r.post(t, "LeaseService/Acquire", c.body)
		if status != http.StatusBadRequest || o["code"] != "invalid" || o["field"] != c.field || o["why"] == nil {
			t.Errorf("%.80s: %d %v, want field %q", c.body, status, o, c.field)
		}
	}
	if status, o := r.post(t, "LeaseService/Release", `{"token":"0-1.1","holder":"me","result":{"outcom":"ok"}}`); status != http.StatusBadRequest || o["field"] != "result.outcom" {
		t.Errorf("a nested field: %d %v", status, o)
	}
	if status, o := r.post(t, "LeaseService/Acquire", `{"resources":["a/1"],"holder":"me","ttl_ms":"1000","waitMs":null}`); status != http.StatusOK {
		t.Errorf("other spellings of JSON: %d %v", status, o)
	}
}

func TestJSONRequestsThatAreNone(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	const valid = `{"resources":["a/1"],"holder":"me"}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, valid)
	_ = z.Close()
	for name, c := range map[string]struct {
		status int
		change func(*http.Request)
	}{
		"get":           {405, func(q *http.Request) { q.Method = http.MethodGet }},
		"unknown":       {404, func(q *http.Request) { q.URL.Path += "d" }},
		"a form":        {415, func(q *http.Request) { q.Header.Set("Content-Type", "application/x-www-form-urlencoded") }},
		"no type":       {415, func(q *http.Request) { q.Header.Del("Content-Type") }},
		"gzip":          {415, func(q *http.Request) { q.Header.Set("Content-Encoding", "gzip"); q.Body = io.NopCloser(&zipped) }},
		"packed stream": {501, func(q *http.Request) { q.URL.Path = "/tenure.v1.LeaseService/Call" }},
		"too large": {413, func(q *http.Request) {
			q.Body = io.NopCloser(io.MultiReader(strings.NewReader(valid), bytes.NewReader(bytes.Repeat([]byte(" "), 1<<20))))
		}},
		"too large and says so": {413, func(q *http.Request) {
			b := []byte(valid + strings.Repeat(" ", 1<<20))
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		}},
		"just not too large": {200, func(q *http.Request) {
			b := []byte(valid + strings.Repeat(" ", 1<<20-len(valid)))
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		}},
	} {
		req := r.request(t, "LeaseService/Acquire", strings.NewReader(valid))
		req.ContentLength = -1
		c.change(req)
		status, o := r.send(t, req)
		if status != c.status || status != 200 && (o["why"] == nil || o["code"] == nil) {
			t.Errorf("%s: %d %v", name, status, o)
		}
	}
}

// A body that was cut off is no request, even if what came is valid.
func TestJSONTruncatedBody(t *testing.T) {
	r := serve(t, memory(t), server.Config{})
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"resources":["a/1"],"holder":"me"}`
	fmt.Fprintf(c, "POST /tenure.v1.LeaseService/Acquire HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(answer, []byte(" 400 ")) || !bytes.Contains(answer, []byte("did not arrive whole")) {
		t.Fatalf("%q %v", answer, err)
	}
	if status, o := r.post(t, "LeaseService/Get", `{"resource":"a/1"}`); status != http.StatusNotFound || o["code"] != "not_found" {
		t.Fatalf("half a request was executed: %d %v", status, o)
	}
}

func TestJSONStreamEndsWithTheError(t *testing.T) {
	engine := memory(t)
	r := serve(t, engine, server.Config{})
	next := r.stream(t, "LeaseService/Watch", `{}`)
	next()
	r.drain()
	if last := next(); last["error"] == nil || last["error"].(object)["code"] != "unavailable" {
		t.Fatalf("the last line is %v", last)
	}
	r.wait()
}
