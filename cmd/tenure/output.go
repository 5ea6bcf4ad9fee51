package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
)

// printLease shows one lease: a line for each field, or the API's object.
func (m *Main) printLease(g *Globals, l tenure.Lease) {
	if g.JSON {
		m.printMessage(wire.FromLease(&l))
		return
	}
	w := tabwriter.NewWriter(m.Stdout, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("lease", "%v", l.ID)
	if !l.Token.IsZero() {
		line("token", "%v", l.Token)
	}
	line("state", "%s%s", l.State, replayed(l))
	line("holder", "%s", l.Holder)
	line("resources", "%s", joined(l.Resources, " "))
	line("ttl", "%s, grace %v", ttlText(l.TTL), l.Grace)
	if l.ExpiresIn > 0 {
		line("expires in", "%v unless renewed", l.ExpiresIn.Round(time.Millisecond))
	}
	if l.State == tenure.StateRevoking && l.FreeIn > 0 {
		line("free in", "%v", l.FreeIn.Round(time.Millisecond))
	}
	line("prior", "%s", l.Prior)
	if l.Result.Outcome != tenure.OutcomeNone {
		line("result", "%s", strings.TrimSpace(l.Result.Outcome.String()+" "+l.Result.Detail))
	}
	if len(l.Meta) > 0 {
		line("meta", "%q", l.Meta)
	}
	line("granted", "%s", l.GrantedAt.Format(time.RFC3339))
	if !l.EndedAt.IsZero() {
		line("ended", "%s", l.EndedAt.Format(time.RFC3339))
	}
	w.Flush()
}

func replayed(l tenure.Lease) string {
	if l.Replayed {
		return " (this operation was executed before)"
	}
	return ""
}

func ttlText(d time.Duration) string {
	if d == tenure.NoTTL {
		return "none"
	}
	return d.String()
}

func joined(rs []tenure.Resource, by string) string {
	names := make([]string, len(rs))
	for i, r := range rs {
		names[i] = string(r)
	}
	return strings.Join(names, by)
}

// printEvent shows one event on a line.
func (m *Main) printEvent(g *Globals, ev tenure.Event) {
	if g.JSON {
		m.printMessage(wire.FromEvent(&ev, ev.Position.LSN))
		return
	}
	if ev.Kind == tenure.EventWatching {
		fmt.Fprintf(m.Stdout, "%v\twatching\n", ev.Position)
		return
	}
	fmt.Fprintf(m.Stdout, "%v\t%s\t%s\t%v\t%s\t%s\n", ev.Position, ev.At.Format(time.RFC3339), ev.Kind, ev.Lease.ID, ev.Lease.Holder, joined(ev.Lease.Resources, " "))
}

func (m *Main) printMessage(msg proto.Message) {
	b, err := wire.MarshalJSON(msg)
	if err != nil {
		fmt.Fprintf(m.Stderr, "tenure: %v\n", err)
		return
	}
	fmt.Fprintf(m.Stdout, "%s\n", b)
}

// printJSON shows what has no message of its own in the API.
func (m *Main) printJSON(v any) error {
	e := json.NewEncoder(m.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table is a listing for people.
type table struct{ leases []tenure.Lease }

func (t *table) add(l tenure.Lease) { t.leases = append(t.leases, l) }

func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LEASE\tSTATE\tHOLDER\tTTL\tEXPIRES IN\tRESOURCES")
	for _, l := range t.leases {
		expires := "-"
		if l.ExpiresIn > 0 {
			expires = l.ExpiresIn.Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.State, l.Holder, ttlText(l.TTL), expires, joined(l.Resources, " "))
	}
	w.Flush()
}
