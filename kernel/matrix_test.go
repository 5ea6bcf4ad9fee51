package kernel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenurehq/tenure"
)

// Each state that a lease can be in, with the history that leads there. The
// lease is always 0-1 of ann, its deadline, if it has one, 1000.
var situations = []struct{ name, history string }{
	{"never granted", "acquire bob other"},
	{"reserved", "acquire ann a reserve=1000"},
	{"reserved, due", "acquire ann a reserve=1000\n@1000 acquire bob other"},
	{"active at once", "acquire ann a"},
	{"active, activated", "acquire ann a reserve=1000\nactivate 1.1 ann"},
	{"active, no TTL", "acquire ann a ttl=0"},
	{"revoking, revoked", "acquire ann a\nrevoke 1"},
	{"revoking, lapsed", "acquire ann a\nlapse 1.1"},
	{"released", "acquire ann a\nrelease 1.1 ann"},
	{"released unused", "acquire ann a reserve=1000\nrelease 1.1 ann"},
	{"expired", "acquire ann a reserve=1000\n@1000 expire 1 deadline=1000"},
	{"revoked", "acquire ann a\nrevoke 1\nreclaim 1"},
	{"retired", "configure history=0\nacquire ann a lsn=2\nrelease 2.1 ann\ntick"},
}

var questions = []struct{ name, command string }{
	{"acquire", "acquire bob a"},
	{"activate", "activate L.1 ann"},
	{"activate, epoch 2", "activate L.2 ann"},
	{"activate by bob", "activate L.1 bob"},
	{"release", "release L.1 ann"},
	{"release, epoch 2", "release L.2 ann"},
	{"release by bob", "release L.1 bob"},
	{"revoke", "revoke L"},
	{"lapse", "lapse L.1"},
	{"lapse, epoch 2", "lapse L.2"},
	{"reclaim", "reclaim L"},
	{"expire", "expire L deadline=1000"},
	{"expire, other", "expire L deadline=999"},
}

// matrix answers every question in every situation. A situation is built anew
// for each; the answer has to leave a state that passes Check.
func matrix(t *testing.T) string {
	var b strings.Builder
	for _, q := range questions {
		fmt.Fprintf(&b, "%s\n", q.name)
		for _, sit := range situations {
			x := &transcript{t: t}
			x.reset("")
			x.play(sit.history, false)
			lease := "1"
			switch sit.name {
			case "never granted":
				lease = "77"
			case "retired":
				lease = "2"
			}
			at := x.s.Last()
			at.LSN++
			c := x.command(strings.Fields(strings.ReplaceAll(q.command, "L", lease)), &at)
			out, _ := x.step(at, &c)
			became := ""
			if out.Changed() {
				became = fmt.Sprintf(" → %s at epoch %d", out.Lease.State, out.Lease.Epoch)
			}
			fmt.Fprintf(&b, "    %-18s %s%s\n", sit.name, out.Code, became)
		}
	}
	return b.String()
}

// TestT4_Situations holds the matrix to what it is about: each situation is the
// state that its name says.
func TestT4_Situations(t *testing.T) {
	want := map[string]tenure.State{
		"reserved": tenure.StateReserved, "reserved, due": tenure.StateReserved, "active at once": tenure.StateActive,
		"active, activated": tenure.StateActive, "active, no TTL": tenure.StateActive,
		"revoking, revoked": tenure.StateRevoking, "revoking, lapsed": tenure.StateRevoking,
		"released": tenure.StateReleased, "released unused": tenure.StateReleased, "expired": tenure.StateExpired, "revoked": tenure.StateRevoked,
	}
	for _, sit := range situations {
		x := &transcript{t: t}
		x.reset("")
		x.play(sit.history, false)
		l, code := x.s.Lookup(tenure.LeaseID{LSN: 1})
		if state, ok := want[sit.name]; ok && (l == nil || l.State != state) {
			t.Errorf("%s: %+v, %v", sit.name, l, code)
		}
	}
	x := &transcript{t: t}
	x.reset("")
	x.play(situations[len(situations)-1].history, false)
	if _, code := x.s.Lookup(tenure.LeaseID{LSN: 2}); code != Retired {
		t.Errorf("retired: %v", code)
	}
}
