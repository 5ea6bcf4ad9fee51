package kernel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
)

func acquire(n uint64, r ...tenure.Resource) *Command {
	return &Command{Kind: KindAcquire, Resources: r, Holder: "ann", TTL: 15000, Op: op(n), Seen: tenure.MaxLSN}
}

// proves: T9
func TestPositionsOnlyGrow(t *testing.T) {
	s := New(0, tenure.DefaultLimits())
	s.Step(At{LSN: 5, Slot: 10}, acquire(1, "default/a"))
	for name, at := range map[string]At{
		"LSN back": {LSN: 4, Slot: 10}, "LSN again": {LSN: 5, Slot: 10}, "slot back": {LSN: 6, Slot: 9},
	} {
		for what, f := range map[string]func(){
			"Step":  func() { s.Step(at, acquire(1, "default/a")) },
			"Judge": func() { s.Judge(at, acquire(1, "default/a")) },
		} {
			if !panics(f) {
				t.Errorf("%s: %s went on", name, what)
			}
		}
	}
	if out, _ := s.Step(At{LSN: 6, Slot: 10}, acquire(2, "default/b")); out.Code != Granted {
		t.Errorf("a slot that stands still: %v", out.Code)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// proves: T5
func TestEpochHasNoSuccessor(t *testing.T) {
	for _, kind := range []Kind{KindRelease, KindRevoke, KindLapse, KindExpire} {
		s := New(0, tenure.DefaultLimits())
		c := acquire(1, "default/a")
		if kind == KindExpire {
			c.Reserve = 1000
		}
		out, _ := s.Step(At{LSN: 1}, c)
		l, _ := s.Lookup(out.Lease.ID)
		l.Epoch = math.MaxUint32
		before := *l
		c = &Command{Kind: kind, Lease: l.ID, Epoch: l.Epoch, Holder: "ann", Deadline: l.Deadline()}
		out, rows := s.Step(At{LSN: 2, Slot: 1000}, c)
		if out.Code != Overflow || out.Field != "epoch" || len(rows) > 0 || l.Epoch != before.Epoch || l.State != before.State || s.Last().LSN != 1 {
			t.Errorf("%s: %s %q, %d rows, %+v", kind, out.Code, out.Field, len(rows), l)
		}
		if err := out.Err(c); !errors.Is(err, tenure.ErrFull) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// proves: T12
func TestTickIsBounded(t *testing.T) {
	limits := tenure.DefaultLimits()
	limits.History = 0
	s := New(0, limits)
	lsn := tenure.LSN(0)
	const leases = TickBatch + 10
	for i := range uint64(leases) {
		lsn += 2
		out, _ := s.Step(At{LSN: lsn - 1}, acquire(i+1, "default/a"))
		s.Step(At{LSN: lsn}, &Command{Kind: KindRelease, Lease: out.Lease.ID, Epoch: 1, Holder: "ann"})
	}
	for _, want := range []int{10, 0} {
		lsn++
		out, rows := s.Step(At{LSN: lsn}, &Command{Kind: KindTick})
		if out.Code != Ticked || s.Ended() != want || len(rows) == 0 || rows[0].Lease == nil {
			t.Fatalf("%s leaves %d, want %d", out.Code, s.Ended(), want)
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := s.Step(At{LSN: lsn + 1}, &Command{Kind: KindTick}); out.Code != NoOp {
		t.Errorf("with nothing left: %s", out.Code)
	}
}

// proves: T12
func TestHistoryThatIsNeverTickedIsBounded(t *testing.T) {
	limits := tenure.DefaultLimits()
	limits.History = 3
	s := New(0, limits)
	for lsn := tenure.LSN(1); ; lsn += 2 {
		c := acquire(uint64(lsn), "default/a")
		out, _ := s.Step(At{LSN: lsn}, c)
		if out.Code == Full {
			if out.Field != "history" || s.Ended() != limits.History+historySlack {
				t.Errorf("full of %s with %d ended", out.Field, s.Ended())
			}
			return
		}
		if s.Ended() > limits.History+historySlack {
			t.Fatal("nothing stops it")
		}
		s.Step(At{LSN: lsn + 1}, &Command{Kind: KindRelease, Lease: out.Lease.ID, Epoch: 1, Holder: "ann"})
	}
}

func TestLeasesInOrder(t *testing.T) {
	s := full(t)
	var all []tenure.LSN
	s.Leases(0, func(l *Lease) bool { all = append(all, l.ID.LSN); return true })
	if want := []tenure.LSN{6, 7, 8, 10, 12, 14, 16, 18, 20, 23}; !slices.Equal(all, want) {
		t.Fatalf("%v, want %v", all, want)
	}
	for i, after := range all {
		var rest []tenure.LSN
		s.Leases(after, func(l *Lease) bool { rest = append(rest, l.ID.LSN); return true })
		if !slices.Equal(rest, all[i+1:]) {
			t.Errorf("after %d: %v", after, rest)
		}
	}
	n := 0
	s.Leases(0, func(*Lease) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("stopped after 2, and got %d", n)
	}
	s.Leases(math.MaxUint64, func(*Lease) bool { t.Error("a lease after the last"); return true })
}

// TestAllocations holds the hot path to one allocation a grant, and none for
// anything else.
func TestAllocations(t *testing.T) {
	s := New(0, tenure.DefaultLimits())
	at := At{}
	next := func() At { at.LSN++; return at }
	s.Step(next(), acquire(1, "default/busy"))
	held, repeat := acquire(2, "default/busy"), acquire(1, "default/busy")
	stale := &Command{Kind: KindRelease, Lease: tenure.LeaseID{LSN: 1}, Epoch: 9, Holder: "ann"}
	for name, c := range map[string]*Command{"held": held, "replayed": repeat, "stale": stale} {
		if n := testing.AllocsPerRun(100, func() { s.Step(At{LSN: at.LSN + 1}, c) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { s.Judge(At{LSN: at.LSN + 1}, c) }); n != 0 {
			t.Errorf("%s judged: %v allocations", name, n)
		}
	}
	// Tables grow now and then; over many leases that rounds down to none.
	n, one := uint64(10), []tenure.Resource{"default/free"}
	c, release := *acquire(0), Command{Kind: KindRelease, Epoch: 1, Holder: "ann"}
	c.Resources = one
	got := testing.AllocsPerRun(20_000, func() {
		n++
		c.Op = op(n)
		out, _ := s.Step(next(), &c)
		release.Lease = out.Lease.ID
		s.Step(next(), &release)
	})
	if got > 1 {
		t.Errorf("acquire and release: %v allocations", got)
	}
}

// TestLeaseKeepsNothingOfItsCommand proves that a caller may reuse its buffers.
func TestLeaseKeepsNothingOfItsCommand(t *testing.T) {
	for _, names := range [][]tenure.Resource{{"default/a"}, {"default/a", "default/b"}} {
		s := New(0, tenure.DefaultLimits())
		c := acquire(1, slices.Clone(names)...)
		c.Meta = []byte("meta")
		out, _ := s.Step(At{LSN: 1}, c)
		c.Resources[0], c.Meta[0] = "default/z", 'x'
		l, _ := s.Lookup(out.Lease.ID)
		if !slices.Equal(l.Resources, names) || string(l.Meta) != "meta" || !slices.Equal(out.Lease.Resources, names) {
			t.Errorf("the lease changed with its command: %v %s", l.Resources, l.Meta)
		}
	}
}

// proves: T8
func TestDigestSeesEverything(t *testing.T) {
	seen := map[Digest]string{}
	note := func(name string, at At, cs ...Command) {
		s := New(0, tenure.DefaultLimits())
		for i, c := range cs {
			step := at
			step.LSN += tenure.LSN(i)
			s.Step(step, &c)
		}
		if other, ok := seen[s.Digest()]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[s.Digest()] = name
	}
	base := func() Command {
		return Command{Kind: KindAcquire, Resources: []tenure.Resource{"default/a", "default/b"}, Holder: "ann", TTL: 15000, Grace: 5, Op: op(1), Seen: 1}
	}
	with := func(f func(*Command)) Command { c := base(); f(&c); return c }
	at := At{LSN: 1, Slot: 1, Wall: 1}
	note("nothing", at)
	note("base", at, base())
	note("LSN", At{LSN: 2, Slot: 1, Wall: 1}, base())
	note("slot", At{LSN: 1, Slot: 2, Wall: 1}, base())
	note("wall", At{LSN: 1, Slot: 1, Wall: 2}, base())
	note("order", at, with(func(c *Command) { slices.Reverse(c.Resources) }))
	note("split", at, with(func(c *Command) { c.Resources = []tenure.Resource{"default/adefault/b"} }))
	note("holder", at, with(func(c *Command) { c.Holder = "bob" }))
	note("ttl", at, with(func(c *Command) { c.TTL++ }))
	note("grace", at, with(func(c *Command) { c.Grace++ }))
	note("reserve", at, with(func(c *Command) { c.Reserve = 1000 }))
	note("meta", at, with(func(c *Command) { c.Meta = []byte{0} }))
	note("meta, longer", at, with(func(c *Command) { c.Meta = []byte{0, 0} }))
	note("op", at, with(func(c *Command) { c.Op = op(2) }))
	end := Command{Kind: KindRelease, Lease: tenure.LeaseID{LSN: 1}, Epoch: 1, Holder: "ann"}
	note("released", at, base(), end)
	end.Result = tenure.Result{Outcome: tenure.OutcomeFailed}
	note("failed", at, base(), end)
	end.Result.Detail = "12345678"
	note("detail", at, base(), end)
	note("revoked", at, base(), Command{Kind: KindRevoke, Lease: tenure.LeaseID{LSN: 1}})
	note("lapsed", at, base(), Command{Kind: KindLapse, Lease: tenure.LeaseID{LSN: 1}, Epoch: 1})
	limits := tenure.DefaultLimits()
	limits.Waiters--
	note("limits", at, Command{Kind: KindConfigure, Limits: limits})

	// An ending that shows in nothing but its resource's row.
	var digests [2]Digest
	for i, e := range []tenure.Ending{tenure.EndingClean, tenure.EndingNever} {
		s := full(t)
		s.resources["default/h"] = tenancy{last: s.resources["default/h"].last, ending: e}
		s.Step(At{LSN: 100, Slot: 1000}, &Command{Kind: KindRevoke, Lease: tenure.LeaseID{LSN: 23}})
		digests[i] = s.Digest()
	}
	if digests[0] == digests[1] {
		t.Error("how a tenure ended is not in the digest")
	}
}

// TestErrors holds every refusal to a code of the vocabulary and to words, and
// everything else to none.
func TestErrors(t *testing.T) {
	for code := Granted; code <= Overflow; code++ {
		o := Outcome{Code: code, Field: "leases", Lease: Lease{ID: tenure.LeaseID{LSN: 7}, Holder: "bob", State: tenure.StateActive, Resources: []tenure.Resource{"default/a"}}}
		if code >= Invalid && code <= TTLOutOfRange {
			o.invalid = &tenure.Error{Code: tenure.ErrInvalid, Field: "ttl", Why: "too long"}
		}
		err := o.Err(&Command{Kind: KindRelease, Holder: "ann", Lease: tenure.LeaseID{LSN: 7}})
		if (err == nil) != (code <= NoOp) {
			t.Errorf("%s: %v", code, err)
		}
		var e *tenure.Error
		if err != nil && (!errors.As(err, &e) || e.Code == 0 || e.Why == "" || e.Lease.LSN != 7) {
			t.Errorf("%s: %+v", code, e)
		}
		if strings.HasPrefix(code.String(), "code(") {
			t.Errorf("code %d has no name", code)
		}
	}
	s := New(0, tenure.DefaultLimits())
	s.Step(At{LSN: 1}, acquire(1, "default/a"))
	c := acquire(2, "default/b", "default/a")
	c.Holder = "bob"
	out, _ := s.Step(At{LSN: 2}, c)
	var e *tenure.Error
	if !errors.As(out.Err(c), &e) || e.Code != tenure.ErrHeld || e.Holder != "ann" || e.Resource != "default/a" ||
		e.Lease.LSN != 1 || e.LSN != 1 {
		t.Errorf("held: %+v", e)
	}
}

// TestFromVocabulary holds claims and commands to what they become.
func TestFromVocabulary(t *testing.T) {
	c := tenure.Claim{Resources: []tenure.Resource{"default/a"}, Holder: "ann", Meta: []byte("m"), Op: tenure.Op{ID: op(7), Seen: 3}}
	for _, x := range []struct {
		ttl, grace, reserve        time.Duration
		wantTTL, wantGrace, window uint32
	}{
		{0, 0, 0, 15000, 1500, 0},
		{tenure.NoTTL, 0, 0, 0, 0, 0},
		{time.Second, tenure.NoGrace, time.Minute, 1000, 0, 60000},
		{1500 * time.Microsecond, time.Nanosecond, 0, 2, 1, 0},
		{100 * 24 * time.Hour, -5, -time.Hour, outOfRange, outOfRange, outOfRange},
		{-2 * time.Second, 100 * 24 * time.Hour, 0, outOfRange, outOfRange, 0},
	} {
		c.TTL, c.Grace, c.Reserve = x.ttl, x.grace, x.reserve
		k := FromClaim(c.Resolve())
		if k.TTL != x.wantTTL || k.Grace != x.wantGrace || k.Reserve != x.window || k.Kind != KindAcquire || k.Seen != 3 || k.Op != op(7) || k.Holder != "ann" || string(k.Meta) != "m" {
			t.Errorf("%v %v %v: %+v", x.ttl, x.grace, x.reserve, k)
		}
	}
	if k := FromClaim(tenure.Claim{}); k.TTL == 0 {
		t.Error("an unresolved claim became one without a TTL")
	}
	ref := tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{Shard: 1, LSN: 2}, Epoch: 3}, Resource: "default/a"}
	result := tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "d"}
	for _, x := range []struct {
		c    tenure.Command
		want Command
	}{
		{tenure.Activate{Ref: ref, Holder: "ann"}, Command{Kind: KindActivate, Lease: ref.Token.Lease, Epoch: 3, Resource: "default/a", Holder: "ann"}},
		{tenure.Release{Ref: ref, Holder: "ann", Result: result}, Command{Kind: KindRelease, Lease: ref.Token.Lease, Epoch: 3, Resource: "default/a", Holder: "ann", Result: result}},
		{tenure.Revoke{Lease: ref.Token.Lease, Resource: "default/a", Reason: "r"}, Command{Kind: KindRevoke, Lease: ref.Token.Lease, Resource: "default/a", Reason: "r"}},
		{tenure.Reclaim{Lease: ref.Token.Lease, Resource: "default/a", HolderIsDead: true}, Command{Kind: KindReclaim, Lease: ref.Token.Lease, Resource: "default/a", HolderIsDead: true}},
	} {
		if got := FromCommand(x.c); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", x.want) {
			t.Errorf("%+v, want %+v", got, x.want)
		}
	}
}

// TestPublic holds the record to its public form.
func TestPublic(t *testing.T) {
	s := full(t)
	l, _ := s.Lookup(tenure.LeaseID{LSN: 6})
	p := l.Public(30, true)
	want := tenure.Token{Lease: l.ID, Epoch: 1}
	if p.Token != want || p.Resource != "default/a" || p.ID != l.ID || p.Epoch != 1 || len(p.Resources) != 3 || p.Holder != "ann" || p.State != tenure.StateActive ||
		p.TTL != 15*time.Second || p.Grace != 1500*time.Millisecond || string(p.Meta) != "m" || !p.Replayed || p.LSN != 6 || p.AsOf != 30 ||
		!p.GrantedAt.Equal(time.UnixMilli(1_700_000_000_000)) || !p.EndedAt.IsZero() || p.Prior != tenure.EndingClean {
		t.Errorf("active: %+v", p)
	}
	l, _ = s.Lookup(tenure.LeaseID{LSN: 14})
	p = l.Public(30, false)
	if !p.Token.IsZero() || p.Result != (tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "disk"}) || p.EndedAt.IsZero() || p.Replayed {
		t.Errorf("failed: %+v", p)
	}
	l, _ = s.Lookup(tenure.LeaseID{LSN: 8})
	if p = l.Public(30, false); p.TTL != tenure.NoTTL {
		t.Errorf("no TTL: %+v", p)
	}
}

// TestCheckFinds holds Check to finding each kind of damage.
//
// proves: T1, T3, T4, T5, T6, T9, T12
func TestCheckFinds(t *testing.T) {
	lease := func(lsn tenure.LSN, f func(*Lease)) func(*State) {
		return func(s *State) { f(s.history.get(lsn)) }
	}
	for _, x := range []struct {
		finds  string
		damage func(*State)
	}{
		{"T3: lease 0-6", func(s *State) { s.resources["default/b"] = tenancy{last: s.history.get(7)} }},
		{"T1", func(s *State) { s.resources["default/i"] = tenancy{last: s.history.get(14)} }},
		{"T7", func(s *State) { delete(s.resources, "default/i") }},
		{"T3: ", func(s *State) { s.resources["default/stray"] = tenancy{last: s.history.get(7)} }},
		{"T2", lease(6, func(l *Lease) { l.Resources[1] = "default/a" })},
		{"T10", func(s *State) { delete(s.ops, s.history.get(6).Op) }},
		{"T12", func(s *State) { s.live++ }},
		{"T10", func(s *State) { s.history.head++ }},
		{"T9", func(s *State) { q := s.history.queue; q[0], q[1] = q[1], q[0] }},
		{"T9", func(s *State) { s.history.floor = 1000 }},
		{"T4", lease(6, func(l *Lease) { l.Ended.Slot = 5 })},
		{"T5", lease(6, func(l *Lease) { l.Epoch = 2 })},
		{"T5", lease(10, func(l *Lease) { l.Epoch = 1 })},
		{"T6", lease(18, func(l *Lease) { l.Ended.Slot = 99 })},
		{"T4", lease(18, func(l *Lease) { l.Reserve = 0 })},
		{"T9", lease(6, func(l *Lease) { l.LSN++ })},
		{"T9", lease(10, func(l *Lease) { l.LSN = 13 })},
		{"T9", lease(10, func(l *Lease) { l.LSN = 1000 })},
		{"T9", lease(6, func(l *Lease) { l.Granted.Slot = 1000 })},
		{"T14", lease(12, func(l *Lease) { l.TTL = 0 })},
		{"T4", lease(10, func(l *Lease) { l.Outcome = tenure.OutcomeOK })},
		{"T4", lease(12, func(l *Lease) { l.Detail = "x" })},
		{"T10", lease(14, func(l *Lease) { l.LastKind = KindActivate })},
		{"T10", lease(8, func(l *Lease) { l.LastEpoch = 2 })},
		{"T2", lease(6, func(l *Lease) { l.Holder = "" })},
		{"T10", lease(6, func(l *Lease) { l.State = 0 })},
	} {
		s := full(t)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		x.damage(s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), x.finds) {
			t.Errorf("%s: %v", x.finds, err)
		}
	}
}
