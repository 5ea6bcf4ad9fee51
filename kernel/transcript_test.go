package kernel

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/tenurehq/tenure"
	"pgregory.net/rapid"
)

// transcript plays commands that a person can read. A line is
//
//	[@SLOT] KIND ARGUMENTS…    with key=value options
//
// and a name without a slash lies in the namespace default. Besides what the
// file shows, each line is held to what is true of every step: Judge answers
// what Step answers and changes nothing, the rows are the whole difference, the
// state passes Check, and its encoding reads back to the same bytes.
type transcript struct {
	t      *testing.T
	s      *State
	at     At
	ops    uint64
	mirror mirror
}

// proves: T1, T2, T3, T4, T5, T6, T7, T9, T10, T12
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/law", func(t *testing.T, path string) {
		x := &transcript{t: t}
		x.reset("")
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.t = t
			switch d.Cmd {
			case "new":
				x.reset(d.Input)
				return ""
			case "step":
				return x.play(d.Input, true)
			case "brief":
				return x.play(d.Input, false)
			case "show":
				return x.show()
			case "matrix":
				return matrix(t)
			}
			t.Fatalf("%s: there is no directive %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

func (x *transcript) reset(options string) {
	x.s = New(0, limitsFrom(strings.Fields(options)))
	x.at, x.ops, x.mirror = At{}, 1000, newMirror()
}

// limitsFrom are small enough to be reached.
func limitsFrom(options []string) tenure.Limits {
	l := tenure.DefaultLimits()
	l.Leases, l.Bundle, l.History, l.HistoryAge = 5, 3, 100, duration(1_000_000)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "leases":
			l.Leases = n
		case "bundle":
			l.Bundle = n
		case "history":
			l.History = n
		case "age":
			l.HistoryAge = duration(uint32(n))
		case "waiters":
			l.Waiters = n
		default:
			panic("no limit " + o)
		}
	}
	return l
}

func (x *transcript) play(input string, rows bool) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		at := x.s.Last()
		at.Slot = max(at.Slot, x.at.Slot)
		if fields[0][0] == '@' {
			slot, err := strconv.ParseUint(fields[0][1:], 10, 64)
			if err != nil {
				x.t.Fatalf("%s: %v", line, err)
			}
			at.Slot, fields = Slot(slot), fields[1:]
		}
		at.LSN++
		at.Wall = 1_700_000_000_000 + int64(at.Slot)
		c := x.command(fields, &at)
		out, changed := x.step(at, &c)
		x.at = at
		fmt.Fprintf(&b, "%s\n    %s\n", line, describe(&out, &c))
		if rows {
			b.WriteString(changed)
		}
	}
	return b.String()
}

// step holds one step to what is true of all.
func (x *transcript) step(at At, c *Command) (Outcome, string) {
	x.t.Helper()
	before := encode(x.t, x.s)
	asked := AppendCommand(nil, c)
	judged := x.s.Judge(at, c)
	if !bytes.Equal(before, encode(x.t, x.s)) {
		x.t.Fatalf("Judge of %s changed the state", c.Kind)
	}
	out, rows := x.s.Step(at, c)
	sameOutcome(x.t, judged, out)
	after := encode(x.t, x.s)
	if !out.Changed() && (len(rows) > 0 || !bytes.Equal(before, after)) {
		x.t.Fatalf("%s was answered %s, and changed something", c.Kind, out.Code)
	}
	if !bytes.Equal(asked, AppendCommand(nil, c)) {
		x.t.Fatalf("Step changed its command")
	}
	x.mirror.apply(rows)
	x.mirror.compare(x.t, x.s)
	if err := x.s.Check(); err != nil {
		x.t.Fatalf("after %s: %v", c.Kind, err)
	}
	back, err := Decode(bytes.NewReader(after))
	if err != nil {
		x.t.Fatalf("after %s: %v", c.Kind, err)
	}
	if !bytes.Equal(after, encode(x.t, back)) {
		x.t.Fatalf("after %s: the encoding reads back to another one", c.Kind)
	}
	return out, describeRows(rows)
}

func sameOutcome(t *testing.T, judged, out Outcome) {
	t.Helper()
	for _, l := range []*Lease{&judged.Lease, &out.Lease} {
		l.one[0] = ""
		if len(l.Meta) == 0 {
			l.Meta = nil
		}
	}
	if !reflect.DeepEqual(judged, out) {
		t.Fatalf("judged %+v\nstepped %+v", judged, out)
	}
}

func encode(t rapid.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (x *transcript) command(fields []string, at *At) Command {
	if fields[0] == "configure" {
		return Command{Kind: KindConfigure, Limits: limitsFrom(fields[1:])}
	}
	c := Command{Seen: at.LSN - 1, TTL: 15_000, Grace: 1_500}
	var words []string
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			words = append(words, f)
			continue
		}
		x.option(&c, at, key, value)
	}
	for k, name := range kindNames {
		if name == fields[0] {
			c.Kind = Kind(k)
		}
	}
	if len(words) > 0 && c.Kind != KindAcquire {
		lsn, epoch, _ := strings.Cut(words[0], ".")
		n, err := strconv.ParseUint(lsn, 10, 63)
		if err != nil {
			x.t.Fatalf("%v: %v", fields, err)
		}
		e, _ := strconv.ParseUint(epoch, 10, 32)
		c.Lease.LSN, c.Epoch, words = tenure.LSN(n), tenure.Epoch(e), words[1:]
	}
	switch c.Kind {
	case KindAcquire:
		if c.Op == ([16]byte{}) {
			x.ops++
			c.Op = op(x.ops)
		}
		if c.Op == op(0xffff) {
			c.Op = [16]byte{}
		}
		for _, w := range words[1:] {
			c.Resources = append(c.Resources, qualified(w))
		}
		c.Holder = tenure.Holder(words[0])
	case KindActivate, KindRelease:
		c.Holder = tenure.Holder(words[0])
	case KindReclaim:
		c.HolderIsDead = len(words) > 0
	}
	return c
}

func (x *transcript) option(c *Command, at *At, key, value string) {
	n, err := strconv.ParseUint(value, 10, 64)
	switch key {
	case "ttl":
		c.TTL = uint32(n)
	case "grace":
		c.Grace = uint32(n)
	case "reserve":
		c.Reserve = uint32(n)
	case "op":
		c.Op = op(n)
	case "seen":
		c.Seen = tenure.LSN(n)
	case "lsn":
		at.LSN = tenure.LSN(n)
	case "shard":
		c.Lease.Shard = uint16(n)
	case "deadline":
		c.Deadline = Slot(n)
	default:
		err = nil
		x.text(c, key, value)
	}
	if err != nil {
		x.t.Fatalf("%s=%s: %v", key, value, err)
	}
}

func (x *transcript) text(c *Command, key, value string) {
	switch key {
	case "meta":
		c.Meta = []byte(value)
	case "via":
		c.Resource = qualified(value)
	case "ok":
		c.Result = tenure.Result{Outcome: tenure.OutcomeOK, Detail: value}
	case "failed":
		c.Result = tenure.Result{Outcome: tenure.OutcomeFailed, Detail: value}
	case "lapsed":
		c.Result = tenure.Result{Outcome: tenure.OutcomeLapsed, Detail: value}
	case "reason":
		c.Reason = value
	case "long":
		c.Reason, c.Result.Detail = strings.Repeat("x", 1025), strings.Repeat("x", 1025)
	default:
		x.t.Fatalf("there is no option %s", key)
	}
}

func qualified(name string) tenure.Resource {
	if name == "-" {
		return ""
	}
	if strings.Contains(name, "/") || strings.HasPrefix(name, "!") {
		return tenure.Resource(strings.TrimPrefix(name, "!"))
	}
	return tenure.Resource("default/" + name)
}

func describe(o *Outcome, c *Command) string {
	if err := o.Err(c); err != nil {
		return o.Code.String() + "  " + err.Error()
	}
	event := ""
	if o.Event != 0 {
		event = ", event " + o.Event.String()
	}
	if o.Lease.ID.IsZero() {
		return o.Code.String() + event
	}
	p := o.Lease.Public(o.AsOf, o.Replayed())
	token := "no token"
	if !p.Token.IsZero() {
		token = "token " + p.Token.String()
	}
	result := ""
	if p.Result.Outcome != 0 {
		result = strings.TrimRight(fmt.Sprintf(", result %s %s", p.Result.Outcome, p.Result.Detail), " ")
	}
	return fmt.Sprintf("%s  %v %s, %s, prior %s%s%s", o.Code, p.ID, p.State, token, p.Prior, result, event)
}

func describeRows(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString("    ")
		if r.Deleted {
			b.WriteString("- ")
		} else {
			b.WriteString("+ ")
		}
		if r.Lease != nil {
			b.WriteString(describeLease(r.Lease))
		} else {
			b.WriteString(describeResource(r.Resource))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func describeLease(l *Lease) string {
	s := fmt.Sprintf("lease %v %s epoch %d of %s %v @%d", l.ID, l.State, l.Epoch, l.Holder, l.Resources, l.LSN)
	if l.Reserve > 0 {
		s += fmt.Sprintf(" deadline %d", l.Deadline())
	}
	if len(l.Meta) > 0 {
		s += fmt.Sprintf(" meta %s", l.Meta)
	}
	if l.Outcome != 0 {
		s = strings.TrimRight(fmt.Sprintf("%s result %s %s", s, l.Outcome, l.Detail), " ")
	}
	if !l.State.Live() {
		s += fmt.Sprintf(" ended at slot %d", l.Ended.Slot)
	}
	return s
}

func describeResource(r *Resource) string {
	state := "available"
	if r.State != 0 {
		state = fmt.Sprintf("%s %v", r.State, r.Lease)
	}
	return fmt.Sprintf("%s %s, last tenure %s", r.Name, state, r.Ending)
}

func (x *transcript) show() string {
	var b strings.Builder
	s := x.s
	fmt.Fprintf(&b, "last %d at slot %d, floor %d, absent %s, %d live, %d ended\n", s.last.LSN, s.last.Slot, s.Floor(), s.absent, s.Live(), s.Ended())
	s.Leases(0, func(l *Lease) bool {
		b.WriteString(describeLease(l) + "\n")
		return true
	})
	return b.String()
}
