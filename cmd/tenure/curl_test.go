package main

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure/internal/testenv"
)

// curl calls one method as a person would, and reads the object in the answer.
func curl(t *testing.T, url, method, body string) map[string]any {
	t.Helper()
	out, err := exec.Command("curl", "-sS", "--max-time", "20", "-H", "Content-Type: application/json", "-d", body, url+"/tenure.v1.LeaseService/"+method).CombinedOutput()
	if err != nil {
		t.Fatalf("curl %s: %v\n%s", method, err, out)
	}
	return object(t, string(out))
}

func TestCurlCanDoEverything(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.Need(t, "curl")
	}
	url := serve(t).url
	watch := exec.Command("curl", "-sSN", "--max-time", "60", "-H", "Content-Type: application/json", "-d", `{"namespace":"a"}`, url+"/tenure.v1.LeaseService/Watch")
	lines, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = watch.Process.Kill()
		_ = watch.Wait() // killed
	})
	events := make(chan map[string]any)
	go func() {
		defer close(events)
		for s := bufio.NewScanner(lines); s.Scan(); {
			var ev map[string]any
			if json.Unmarshal(s.Bytes(), &ev) != nil {
				ev = map[string]any{"kind": "not one object a line: " + s.Text()}
			}
			events <- ev
		}
	}()
	next := func(kind string) {
		t.Helper()
		select {
		case ev := <-events:
			if ev["kind"] != kind {
				t.Errorf("watched %v, want %s", ev, kind)
			}
		case <-time.After(waitLong):
			t.Fatalf("no event %s", kind)
		}
	}
	next("watching")
	lease := curl(t, url, "Acquire", `{"resources":["a/b"],"holder":"me","ttl_ms":60000}`)["lease"].(map[string]any)
	next("granted") // while the watch goes on
	token := lease["token"].(string)
	ref := `{"token":"` + token + `"`
	if held := curl(t, url, "Acquire", `{"resources":["a/b"],"holder":"you"}`); held["code"] != "held" || held["holder"] != "me" {
		t.Errorf("held: %v", held)
	}
	if answer := curl(t, url, "Renew", `{"refs":[`+ref+`}]}`)["answers"].([]any)[0].(map[string]any); answer["ok"] != true {
		t.Errorf("renewed: %v", answer)
	}
	if got := curl(t, url, "Get", `{"resource":"a/b"}`)["lease"].(map[string]any); got["token"] != token {
		t.Errorf("got: %v", got)
	}
	if list := curl(t, url, "List", `{}`)["leases"].([]any); len(list) != 1 {
		t.Errorf("listed: %v", list)
	}
	if done := curl(t, url, "Release", ref+`,"holder":"me"}`)["lease"].(map[string]any); done["state"] != "released" {
		t.Errorf("released: %v", done)
	}
	next("released")
	if stale := curl(t, url, "Renew", `{"refs":[`+ref+`}]}`)["answers"].([]any)[0].(map[string]any); stale["ok"] == true || !strings.Contains(stale["error"].(map[string]any)["code"].(string), "ended") {
		t.Errorf("renewed after the release: %v", stale)
	}
	if bad := curl(t, url, "Acquire", `{"resource":"a/b"}`); bad["code"] != "invalid" || bad["field"] != "resource" {
		t.Errorf("an unknown field: %v", bad)
	}
}
