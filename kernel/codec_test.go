package kernel

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tenurehq/tenure"
)

// everyCommand has each kind with every field that it encodes set.
func everyCommand() []Command {
	id := tenure.LeaseID{Shard: 65535, LSN: tenure.MaxLSN}
	return []Command{
		{Kind: KindAcquire, Resources: []tenure.Resource{"default/a", "a.b/ä"}, Holder: "ann", TTL: math.MaxUint32, Grace: 1, Reserve: 128, Meta: []byte{0, 255}, Op: op(1 << 63), Seen: math.MaxUint64},
		{Kind: KindAcquire, Resources: []tenure.Resource{"default/a"}, Holder: "ann", Op: op(1)},
		{Kind: KindActivate, Lease: id, Epoch: math.MaxUint32, Holder: "ann"},
		{Kind: KindRelease, Lease: id, Epoch: 1, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "why"}},
		{Kind: KindRevoke, Lease: id, Reason: "because"},
		{Kind: KindReclaim, Lease: id, HolderIsDead: true},
		{Kind: KindReclaim, Lease: id},
		{Kind: KindLapse, Lease: id, Epoch: 300},
		{Kind: KindExpire, Lease: id, Deadline: MaxSlot},
		{Kind: KindTick},
		{Kind: KindConfigure, Limits: tenure.DefaultLimits()},
	}
}

// proves: T8
func TestCommandsReadBack(t *testing.T) {
	var all []byte
	for _, c := range everyCommand() {
		b := AppendCommand(nil, &c)
		got, rest, err := DecodeCommand(append(b, "next"...))
		if err != nil || string(rest) != "next" || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, rest %q, %v", c.Kind, got, rest, err)
		}
		for n := range b {
			if _, _, err := DecodeCommand(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d bytes: %v", c.Kind, n, len(b), err)
			}
		}
		all = append(all, b...)
	}
	for _, c := range everyCommand() {
		got, rest, err := DecodeCommand(all)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%s in a batch: %+v, %v", c.Kind, got, err)
		}
		all = rest
	}
}

// TestCommandEncodingIsFrozen holds the bytes that journals are made of.
func TestCommandEncodingIsFrozen(t *testing.T) {
	for _, x := range []struct {
		c    Command
		want string
	}{
		{Command{Kind: KindAcquire, Resources: []tenure.Resource{"a/b"}, Holder: "h", TTL: 300, Grace: 1, Reserve: 2, Meta: []byte("m"), Op: [16]byte{15: 9}, Seen: 5},
			"\x01\x01\x03a/b\x01h\xac\x02\x01\x02\x01m" + strings.Repeat("\x00", 15) + "\x09\x05"},
		{Command{Kind: KindActivate, Lease: tenure.LeaseID{LSN: 7}, Epoch: 1, Holder: "h"}, "\x02\x00\x07\x01\x01h"},
		{Command{Kind: KindRelease, Lease: tenure.LeaseID{LSN: 7}, Epoch: 1, Holder: "h", Result: tenure.Result{Outcome: 2, Detail: "d"}}, "\x03\x00\x07\x01\x01h\x02\x01d"},
		{Command{Kind: KindRevoke, Lease: tenure.LeaseID{LSN: 7}, Reason: "r"}, "\x04\x00\x07\x01r"},
		{Command{Kind: KindReclaim, Lease: tenure.LeaseID{LSN: 7}, HolderIsDead: true}, "\x05\x00\x07\x01"},
		{Command{Kind: KindLapse, Lease: tenure.LeaseID{LSN: 7}, Epoch: 1}, "\x06\x00\x07\x01"},
		{Command{Kind: KindExpire, Lease: tenure.LeaseID{LSN: 7}, Deadline: 9}, "\x07\x00\x07\x09"},
		{Command{Kind: KindTick}, "\x08"},
		{Command{Kind: KindConfigure, Limits: tenure.Limits{Leases: 1, Bundle: 2, History: 3, HistoryAge: 4, MinTTL: 5, MaxTTL: 6, MaxGrace: 7, MinReserve: 8, MaxReserve: 9, Waiters: 10, WaitersPerResource: 11}},
			"\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"},
	} {
		if got := string(AppendCommand(nil, &x.c)); got != x.want {
			t.Errorf("%s: %q, want %q", x.c.Kind, got, x.want)
		}
	}
}

// TestEveryLimitIsEncoded fails when a limit is added to the vocabulary and
// forgotten here.
func TestEveryLimitIsEncoded(t *testing.T) {
	typ := reflect.TypeFor[tenure.Limits]()
	if typ.NumField() != limitCount {
		t.Fatalf("tenure.Limits has %d fields, the encoding %d", typ.NumField(), limitCount)
	}
	for i := range typ.NumField() {
		var l tenure.Limits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(7)
		if f := limitFields(&l); f[i] != 7 || limitsOf(f) != l {
			t.Errorf("%s does not survive its encoding: %v", typ.Field(i).Name, f)
		}
	}
	wide := tenure.DefaultLimits()
	wide.Bundle = maxResources + 1
	if wide.Validate() == nil {
		t.Errorf("limits allow bundles of more than %d resources, and the decoder does not", maxResources)
	}
}

func TestNonCanonicalIsRefused(t *testing.T) {
	for name, b := range map[string]string{
		"no bytes":           "",
		"kind 0":             "\x00",
		"unknown kind":       "\x0a",
		"padded number":      "\x06\x00\x87\x00\x01",
		"padded zero":        "\x06\x80\x00\x07\x01",
		"shard too high":     "\x06\x80\x80\x04\x07\x01",
		"lsn of 64 bits":     "\x06\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
		"number of 65 bits":  "\x06\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x01",
		"number without end": "\x06\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"bool of 2":          "\x05\x00\x07\x02",
		"outcome lapsed":     "\x03\x00\x07\x01\x01h\x03\x00",
		"deadline too late":  "\x07\x00\x07\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
	} {
		if c, _, err := DecodeCommand([]byte(b)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// proves: T12
func TestDecodingAllocatesWhatIsThere(t *testing.T) {
	huge := "\xff\xff\xff\xff\x0f"
	cut := encode(t, full(t))[:40]
	for name, decode := range map[string]func(){
		"resources":  func() { DecodeCommand([]byte("\x01\x80\x08" + strings.Repeat("x", 100))) },
		"one name":   func() { DecodeCommand([]byte("\x01\x01" + huge)) },
		"meta":       func() { DecodeCommand([]byte("\x01\x00\x01h\x00\x00\x00\x80\x20")) },
		"a lease":    func() { DecodeLease([]byte("\x00\x01\x80\x08" + huge)) },
		"a snapshot": func() { Decode(bytes.NewReader(cut)) },
	} {
		if n := allocated(decode); n > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// full is a state with a lease in every situation.
func full(t *testing.T) *State {
	x := &transcript{t: t}
	x.reset("leases=100")
	x.play(`acquire ann gone
		release 1.1 ann
		configure leases=100 history=0
		tick
		configure leases=100
		acquire ann a b c meta=m
		acquire ann d reserve=1000
		acquire ann e ttl=0 reserve=1000
		activate 8.1 ann
		acquire ann f
		revoke 10 reason=because
		acquire ann g
		lapse 12.1
		acquire ann h
		release 14.1 ann failed=disk
		acquire ann h reserve=1000
		release 16.1 ann
		acquire ann i reserve=100
		@500 expire 18 deadline=100
		acquire ann j
		revoke 20
		reclaim 20
		acquire bob j h`, false)
	if x.s.Live() != 6 || x.s.Ended() != 4 || x.s.Floor() != 1 {
		t.Fatalf("live %d, ended %d, floor %d", x.s.Live(), x.s.Ended(), x.s.Floor())
	}
	return x.s
}

// proves: T8
func TestSnapshotReadsBackInAnyChunks(t *testing.T) {
	s := full(t)
	b := encode(t, s)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(b), "bytes": iotest.OneByteReader(bytes.NewReader(b)),
		"data with EOF": iotest.DataErrReader(bytes.NewReader(b)),
	} {
		back, err := Decode(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(encode(t, back), b) || back.Digest() != s.Digest() || back.Last() != s.Last() || back.Limits() != s.Limits() {
			t.Errorf("%s: it reads back to another state", name)
		}
	}
	for n := range b {
		if _, err := Decode(bytes.NewReader(b[:n])); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := Decode(bytes.NewReader(append(b, 0))); !errors.Is(err, ErrMalformed) {
		t.Errorf("with a byte behind it: %v", err)
	}
	broken := errors.New("the disk is broken")
	if _, err := Decode(io.MultiReader(bytes.NewReader(b), iotest.ErrReader(broken))); !errors.Is(err, broken) || errors.Is(err, ErrMalformed) {
		t.Errorf("a reader that fails at the end: %v", err)
	}
	if err := s.Encode(failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// FuzzDecodeCommand: whatever is read writes back to the same bytes.
func FuzzDecodeCommand(f *testing.F) {
	for _, c := range everyCommand() {
		f.Add(AppendCommand(nil, &c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, rest, err := DecodeCommand(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if back := AppendCommand(nil, &c); !bytes.Equal(append(back, rest...), b) {
			t.Fatalf("%x reads back as %x", b, back)
		}
		s := New(0, tenure.DefaultLimits())
		s.Step(At{LSN: 1}, &c)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeLease: as for commands.
func FuzzDecodeLease(f *testing.F) {
	x := seedState()
	x.Leases(0, func(l *Lease) bool {
		f.Add(AppendLease(nil, l))
		return true
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := DecodeLease(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if back := AppendLease(nil, &l); !bytes.Equal(append(back, rest...), b) {
			t.Fatalf("%x reads back as %x", b, back)
		}
		l.Public(0, false)
	})
}

// FuzzDecode: whatever is read passes Check, writes back to the same bytes, and
// took memory in proportion to them.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, New(0, tenure.DefaultLimits())))
	f.Add(encode(f, seedState()))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *State
		var err error
		if n := allocated(func() { s, err = Decode(bytes.NewReader(b)) }); n > 256<<10+uint64(len(b))*256 {
			t.Fatalf("%d bytes were allocated for %d", n, len(b))
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(encode(t, s), b) {
			t.Fatal("it reads back to other bytes")
		}
	})
}

func seedState() *State {
	s := New(3, tenure.DefaultLimits())
	at := At{}
	for _, c := range []Command{
		{Kind: KindAcquire, Resources: []tenure.Resource{"default/a", "default/b"}, Holder: "ann", TTL: 15000, Meta: []byte("m"), Op: op(1)},
		{Kind: KindAcquire, Resources: []tenure.Resource{"default/c"}, Holder: "bob", Reserve: 1000, Op: op(2)},
		{Kind: KindRevoke, Lease: tenure.LeaseID{Shard: 3, LSN: 1}, Reason: "because"},
		{Kind: KindReclaim, Lease: tenure.LeaseID{Shard: 3, LSN: 1}},
		{Kind: KindActivate, Lease: tenure.LeaseID{Shard: 3, LSN: 2}, Epoch: 1, Holder: "bob"},
		{Kind: KindAcquire, Resources: []tenure.Resource{"default/b"}, Holder: "cem", Op: op(3)},
		{Kind: KindRelease, Lease: tenure.LeaseID{Shard: 3, LSN: 6}, Epoch: 1, Holder: "cem", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "d"}},
	} {
		at.LSN++
		at.Slot += 10
		at.Wall -= 1
		if out, _ := s.Step(at, &c); !out.Changed() {
			panic(out.Code.String())
		}
	}
	return s
}
