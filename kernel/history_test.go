package kernel

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tenurehq/tenure"
	"pgregory.net/rapid"
)

// proves: T1, T2, T3, T4, T5, T6, T7, T8, T9, T10
func TestHistoriesAgreeWithTheModel(t *testing.T) {
	seen := map[Code]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := newRandomHistory(t)
		for range rapid.IntRange(40, 150).Draw(t, "steps") {
			at, c := h.draw(t)
			seen[h.step(t, at, c)]++
		}
		h.replay(t)
	})
	for code := Granted; code <= DeadlinePassed; code++ {
		if seen[code] == 0 {
			t.Errorf("no history was ever answered %s: the battery is blind there", code)
		}
	}
}

// randomHistory runs the kernel and the model side by side, in a world small
// enough for everything to collide.
type randomHistory struct {
	s       *State
	m       *model
	mirror  mirror
	journal []byte // what was effective, as it is journaled
	ats     []At
	half    []byte // a snapshot on the way
	halfAt  int
	rest    int
	highest map[tenure.Resource]tenure.Token // T7
	used    map[tenure.LSN]bool              // T9
	ops     map[[16]byte]bool                // T10: executed
	seen    map[[16]byte]tenure.LSN
	issued  []Command // acquires, to be repeated
}

var worldLimits = tenure.Limits{
	Leases: 4, Bundle: 3, History: 3, HistoryAge: duration(60),
	MinTTL: duration(100), MaxTTL: duration(86_400_000), MaxGrace: duration(86_400_000),
	MinReserve: duration(10), MaxReserve: duration(3_600_000),
}

func newRandomHistory(t *rapid.T) *randomHistory {
	return &randomHistory{
		s: New(0, worldLimits), m: newModel(worldLimits), mirror: newMirror(),
		highest: map[tenure.Resource]tenure.Token{}, used: map[tenure.LSN]bool{}, ops: map[[16]byte]bool{}, seen: map[[16]byte]tenure.LSN{},
	}
}

var world = []tenure.Resource{"default/a", "default/b", "default/c", "default/d", "default/e"}

func (h *randomHistory) draw(t *rapid.T) (At, *Command) {
	last := h.s.Last()
	at := At{
		LSN:  last.LSN + tenure.LSN(rapid.SampledFrom([]int{1, 1, 1, 1, 1000}).Draw(t, "jump")),
		Slot: last.Slot + Slot(rapid.SampledFrom([]int{0, 0, 1, 5, 9, 10, 11, 30}).Draw(t, "slots")),
		Wall: rapid.Int64Range(-5, 5).Draw(t, "wall"),
	}
	c := &Command{Kind: rapid.SampledFrom([]Kind{
		KindAcquire, KindAcquire, KindAcquire, KindActivate, KindActivate, KindRelease, KindRelease,
		KindRevoke, KindReclaim, KindReclaim, KindLapse, KindExpire, KindExpire, KindTick, KindConfigure,
	}).Draw(t, "kind")}
	switch c.Kind {
	case KindAcquire:
		h.drawAcquire(t, c)
	case KindConfigure:
		c.Limits = worldLimits
		c.Limits.Leases = rapid.SampledFrom([]int{2, 4, 4, 4}).Draw(t, "leases")
		c.Limits.History = rapid.IntRange(0, 3).Draw(t, "history")
	case KindTick:
	default:
		h.drawNamed(t, c)
	}
	return at, c
}

func (h *randomHistory) drawAcquire(t *rapid.T, c *Command) {
	if len(h.issued) > 0 && rapid.IntRange(0, 4).Draw(t, "repeat") == 0 {
		*c = rapid.SampledFrom(h.issued).Draw(t, "which")
		c.Resources = slices.Clone(c.Resources)
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0:
			c.Reserve = 0
		case 1:
			slices.Reverse(c.Resources)
		case 2:
			c.Meta = []byte("other")
		}
		return
	}
	// Distinct and in random order; now and then twice, malformed, or too many.
	c.Resources = slices.Clone(rapid.Permutation(world).Draw(t, "resources")[:rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 4, 0}).Draw(t, "count")])
	if len(c.Resources) > 1 && rapid.IntRange(0, 9).Draw(t, "spoil") == 0 {
		c.Resources[len(c.Resources)-1] = rapid.SampledFrom([]tenure.Resource{c.Resources[0], "malformed"}).Draw(t, "with")
	}
	c.Holder = rapid.SampledFrom([]tenure.Holder{"ann", "bob", "bob", ""}).Draw(t, "holder")
	c.TTL = rapid.SampledFrom([]uint32{0, 100, 100, 100, 99}).Draw(t, "ttl")
	c.Reserve = rapid.SampledFrom([]uint32{0, 0, 10, 10, 20, 9}).Draw(t, "reserve")
	c.Op = op(rapid.Uint64Range(1, 60).Draw(t, "op"))
	c.Seen = h.s.Last().LSN - min(h.s.Last().LSN, tenure.LSN(rapid.SampledFrom([]int{0, 0, 0, 0, 5, 20}).Draw(t, "behind")))
	// The position that a client had seen belongs to the operation: T10 holds for
	// clients that keep it.
	if first, ok := h.seen[c.Op]; ok {
		c.Seen = first
	}
	h.seen[c.Op] = c.Seen
	h.issued = append(h.issued, *c)
}

func (h *randomHistory) drawNamed(t *rapid.T, c *Command) {
	c.Lease.LSN = tenure.LSN(rapid.IntRange(0, int(min(h.s.Last().LSN+1, 50))).Draw(t, "any lease"))
	if n := len(h.m.all); n > 0 && rapid.IntRange(0, 9).Draw(t, "granted") > 0 {
		l := h.m.all[max(0, n-1-rapid.IntRange(0, 6).Draw(t, "lease"))]
		c.Lease.LSN = l.lsn
		c.Holder = l.claim.Holder
		c.Deadline = l.granted + Slot(l.claim.Reserve)
	}
	if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
		c.Holder, c.Deadline = "eve", c.Deadline-1
		c.Resource = rapid.SampledFrom(world).Draw(t, "via")
	}
	c.Epoch = tenure.Epoch(rapid.SampledFrom([]int{1, 1, 1, 1, 2, 0}).Draw(t, "epoch"))
	if c.Kind == KindRelease {
		c.Result = rapid.SampledFrom([]tenure.Result{{}, {}, {Outcome: tenure.OutcomeFailed, Detail: "why"}}).Draw(t, "result")
	}
	if c.Kind == KindRevoke {
		c.Reason = rapid.SampledFrom([]string{"", "because"}).Draw(t, "reason")
	}
}

func (h *randomHistory) step(t *rapid.T, at At, c *Command) Code {
	want := h.m.step(at, c)
	before := map[tenure.LSN]Lease{}
	h.s.Leases(0, func(l *Lease) bool {
		before[l.ID.LSN] = *l
		return true
	})
	judged := h.s.Judge(at, c)
	due := h.s.Due(at.Slot)
	out, rows := h.s.Step(at, c)
	if judged.Code != out.Code || judged.Lease.State != out.Lease.State || judged.Lease.Epoch != out.Lease.Epoch || judged.AsOf != out.AsOf {
		t.Fatalf("judged %+v, stepped %+v", judged, out)
	}
	if out.Code != want.code || out.Resource != want.busy && out.Code == Held {
		t.Fatalf("%s is answered %s (%s), the model says %s (%s)", c.Kind, out.Code, out.Resource, want.code, want.busy)
	}
	if c.Kind == KindTick && due != out.Changed() {
		t.Fatalf("due is %v, and a tick is answered %s", due, out.Code)
	}
	h.sameLease(t, &out, want)
	h.retiredInOrder(t, rows, want)
	h.transition(t, at, c, &out, before)
	h.mirror.apply(rows)
	h.mirror.compare(t, h.s)
	h.sameState(t)
	if err := h.s.Check(); err != nil {
		t.Fatal(err)
	}
	if out.Changed() {
		h.journal = AppendCommand(h.journal, c)
		h.ats = append(h.ats, at)
		if h.half == nil && rapid.IntRange(0, 20).Draw(t, "snapshot") == 0 {
			h.half, h.halfAt, h.rest = encode(t, h.s), len(h.ats), len(h.journal)
		}
	}
	return out.Code
}

func (h *randomHistory) sameLease(t *rapid.T, out *Outcome, want modelAnswer) {
	if want.lease == nil {
		if !out.Lease.ID.IsZero() {
			t.Fatalf("%s shows lease %v, the model none", out.Code, out.Lease.ID)
		}
		return
	}
	l, m := out.Lease, want.lease
	if l.ID.LSN != m.lsn || l.State != m.state || l.Epoch != m.epoch || l.LSN != m.changed || l.Prior != m.prior ||
		l.Outcome != m.result.Outcome || l.Detail != m.result.Detail || !l.State.Live() && l.Ended.Slot != m.ended {
		t.Fatalf("%s shows %+v, the model %+v", out.Code, l, m)
	}
	p := l.Public(out.AsOf, out.Replayed())
	if p.Token.IsZero() == (m.state == tenure.StateReserved || m.state == tenure.StateActive) {
		t.Fatalf("T5: a lease that is %s is shown with token %q", m.state, p.Token)
	}
	if !slices.Equal(l.Resources, m.claim.Resources) {
		t.Fatalf("T2: %v covers %v, it was granted for %v", l.ID, l.Resources, m.claim.Resources)
	}
}

func (h *randomHistory) retiredInOrder(t *rapid.T, rows []Row, want modelAnswer) {
	var gone []tenure.LSN
	for _, r := range rows {
		if r.Lease != nil && r.Deleted {
			gone = append(gone, r.Lease.ID.LSN)
		}
	}
	if !slices.Equal(gone, want.gone) {
		t.Fatalf("retired %v, the model %v", gone, want.gone)
	}
}

var arrows = map[string]bool{
	"reserved>active": true, "reserved>released": true, "reserved>expired": true,
	"active>revoking": true, "active>released": true, "revoking>revoked": true,
}

// transition checks one step against the invariants themselves, without asking
// the model.
func (h *randomHistory) transition(t *rapid.T, at At, c *Command, out *Outcome, before map[tenure.LSN]Lease) {
	if out.Changed() {
		if h.used[at.LSN] {
			t.Fatalf("T9: LSN %d is used twice", at.LSN)
		}
		h.used[at.LSN] = true
	}
	if out.Code == Granted {
		if h.ops[c.Op] {
			t.Fatalf("T10: operation %x is executed twice", c.Op)
		}
		h.ops[c.Op] = true
		for _, r := range c.Resources {
			token := tenure.Token{Lease: out.Lease.ID, Epoch: out.Lease.Epoch}
			if token.Compare(h.highest[r]) <= 0 {
				t.Fatalf("T7: %s is granted with %v after %v", r, token, h.highest[r])
			}
			h.highest[r] = token
		}
	}
	h.s.Leases(0, func(l *Lease) bool {
		was, known := before[l.ID.LSN]
		switch {
		case !known || was.State == l.State:
		case !arrows[was.State.String()+">"+l.State.String()]:
			t.Fatalf("T4: %v went from %s to %s", l.ID, was.State, l.State)
		case was.State.Held() && !l.State.Held() && l.Epoch <= was.Epoch:
			t.Fatalf("T5: %v lost authority at epoch %d, and stays there", l.ID, was.Epoch)
		case !l.State.Live() && !freedBy(c, at, &was):
			t.Fatalf("T6: %v was freed from %s by %s", l.ID, was.State, c.Kind)
		}
		return true
	})
}

func freedBy(c *Command, at At, was *Lease) bool {
	switch c.Kind {
	case KindRelease:
		return c.Epoch == was.Epoch && c.Holder == was.Holder
	case KindExpire:
		return at.Slot >= was.Granted.Slot+Slot(was.Reserve)
	case KindReclaim:
		return was.State == tenure.StateRevoking
	}
	return false
}

func (h *randomHistory) sameState(t *rapid.T) {
	if h.s.Live() != len(h.m.live()) || h.s.Ended() != len(h.m.history()) || h.s.Floor() != h.m.floor() {
		t.Fatalf("live %d, ended %d, floor %d; the model %d, %d, %d", h.s.Live(), h.s.Ended(), h.s.Floor(), len(h.m.live()), len(h.m.history()), h.m.floor())
	}
	for _, r := range world {
		rec, known := h.s.Resource(r)
		want, ok := h.m.endings[r]
		if !ok {
			want = h.m.absent
		}
		if known != ok || rec.Ending != want {
			t.Fatalf("%s: %+v, the model %s", r, rec, want)
		}
		owner, ours := h.m.owner(r), h.s.Owner(r)
		if (owner == nil) != (ours == nil) || owner != nil && owner.lsn != ours.ID.LSN {
			t.Fatalf("T3: %s is owned by %+v, the model says %+v", r, ours, owner)
		}
	}
}

// replay folds the journal again, from the start and from the snapshot, and
// compares every byte.
func (h *randomHistory) replay(t *rapid.T) {
	want := encode(t, h.s)
	again := fold(t, New(0, worldLimits), h.journal, h.ats)
	if again.Digest() != h.s.Digest() || !bytes.Equal(encode(t, again), want) {
		t.Fatalf("T8: a replay of %d commands gives another state", len(h.ats))
	}
	if h.half == nil {
		return
	}
	s, err := Decode(bytes.NewReader(h.half))
	if err != nil {
		t.Fatal(err)
	}
	s = fold(t, s, h.journal[h.rest:], h.ats[h.halfAt:])
	if s.Digest() != h.s.Digest() || !bytes.Equal(encode(t, s), want) {
		t.Fatalf("T8: the snapshot after %d of %d commands leads to another state", h.halfAt, len(h.ats))
	}
}

func fold(t *rapid.T, s *State, journal []byte, ats []At) *State {
	for _, at := range ats {
		c, rest, err := DecodeCommand(journal)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := s.Step(at, &c); !out.Changed() {
			t.Fatalf("T8: %s was effective, and is answered %s in the replay", c.Kind, out.Code)
		}
		journal = rest
	}
	if len(journal) > 0 {
		t.Fatalf("%d bytes of the journal are left", len(journal))
	}
	return s
}
