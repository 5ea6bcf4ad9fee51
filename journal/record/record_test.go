package record_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

func Example() {
	var end record.Chain // of an empty log
	r := record.Record{
		Kind:  record.KindCommands,
		First: end.Last + 1,
		Last:  end.Last + 2,
		Prev:  end.Sum,
		Body:  []byte("two commands"),
	}
	b := record.Append(nil, &r)

	got, n, err := record.Decode(b)
	fmt.Println(got.Kind, got.First, got.Last, string(got.Body), n == len(b), err)
	fmt.Println(end.Next(&got), end.Last)
	fmt.Println(end.Next(&got) != nil) // it does not follow itself
	// Output:
	// commands 1 2 two commands true <nil>
	// <nil> 2
	// true
}

func golden() record.Record {
	return record.Record{
		Rules: 3, Kind: record.KindCommands, Shard: 7, First: 0x0102030405060708, Last: 0x0102030405060709,
		Slot: 0x1112131415161718, Wall: -2, Prev: record.Sum{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf},
		Body: []byte("body"),
	}
}

// The bytes of a record never change.
func TestGoldenBytes(t *testing.T) {
	const want = "9e544e52" + "01" + "01" + "0300" + "0700" + "0000" + "04000000" +
		"0807060504030201" + "0907060504030201" + "1817161514131211" + "feffffffffffffff" +
		"a00102030405060708090a0b0c0d0eaf"
	r := golden()
	b := record.Append([]byte("before"), &r)[len("before"):]
	if got := hex.EncodeToString(b[:64]); got != want {
		t.Errorf("the header is\n%s, want\n%s", got, want)
	}
	sum := sha256.Sum256(append(bytes.Clone(b[:64]), "body"...))
	if record.Sum(sum[:16]) != r.Sum || !bytes.Equal(b[64:80], sum[:16]) || string(b[80:]) != "body" {
		t.Errorf("the sum is %v and the rest %x, want %x", r.Sum, b[64:], sum[:16])
	}
	if r.Sum.String() != "6ce3480de7afc21c0769db32a980cc66" {
		t.Errorf("the sum is %v", r.Sum)
	}
	jump := record.AppendJump(nil, record.Jump{From: 258, Reason: "cut"})
	if got := hex.EncodeToString(jump); got != "0201000000000000"+"0300"+"637574" {
		t.Errorf("the jump is %s", got)
	}
}

// Every bit that is flipped, and every byte that is missing, is found.
//
// proves: T11
func TestT11_EveryBit(t *testing.T) {
	r := golden()
	b := record.Append(nil, &r)
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := record.Decode(b); !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, record.ErrShort) {
			t.Errorf("bit %d: %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for n := range b {
		if _, _, err := record.Decode(b[:n]); !errors.Is(err, record.ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, n, err := record.Decode(append(b, 1, 2, 3)); err != nil || n != len(b) {
		t.Errorf("with more behind it: %d, %v", n, err)
	}
}

// forge encodes what Append refuses to.
func forge(change func(b []byte)) []byte {
	r := golden()
	b := record.Append(nil, &r)
	change(b)
	sum := sha256.Sum256(append(bytes.Clone(b[:64]), b[80:]...))
	copy(b[64:], sum[:16])
	return b
}

func TestDecodeRefuses(t *testing.T) {
	cases := []struct {
		name   string
		change func(b []byte)
		want   error
		says   string
	}{
		{"a newer format", func(b []byte) { b[4] = 2 }, record.ErrVersion, "format 2, this one reads up to 1"},
		{"no format", func(b []byte) { b[4] = 0 }, record.ErrCorrupt, ""},
		{"a newer kind", func(b []byte) { b[5] = 9 }, record.ErrVersion, "kind(9)"},
		{"no kind", func(b []byte) { b[5] = 0 }, record.ErrCorrupt, "kind"},
		{"reserved bytes", func(b []byte) { b[10] = 1 }, record.ErrCorrupt, "reserved"},
		{"LSN 0", func(b []byte) { clear(b[16:24]) }, record.ErrCorrupt, "first LSN"},
		{"an LSN of 64 bits", func(b []byte) { b[31] = 0x80 }, record.ErrCorrupt, "last LSN"},
		{"the last before the first", func(b []byte) { b[24] -= 3 }, record.ErrCorrupt, "last LSN"},
		{"a seal with a body", func(b []byte) { b[5] = 3; b[24] -= 2 }, record.ErrCorrupt, "seal"},
		{"a huge body", func(b []byte) { b[15] = 0xff }, record.ErrCorrupt, ""},
		{"the largest body", func(b []byte) { b[12], b[15] = 0, 4 }, record.ErrShort, ""},
	}
	for _, c := range cases {
		_, _, err := record.Decode(forge(c.change))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.says)
		}
	}
}

// A broken record is a bug of whoever writes it.
func TestAppendPanics(t *testing.T) {
	for name, r := range map[string]record.Record{
		"no kind": {First: 1, Last: 1},
		"no LSN":  {Kind: record.KindCommands},
		"seal":    {Kind: record.KindSeal, First: 1, Last: 1},
		"large":   {Kind: record.KindCommands, First: 1, Last: 1, Body: make([]byte, record.MaxBody+1)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			record.Append(nil, &r)
		}()
	}
}

func TestNoAllocation(t *testing.T) {
	r := golden()
	b := record.Append(nil, &r)
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = record.Append(buf[:0], &r) }); n > 0 {
		t.Errorf("%v allocations to append", n)
	}
	if n := testing.AllocsPerRun(100, func() { record.Decode(b) }); n > 0 {
		t.Errorf("%v allocations to decode", n)
	}
}

// proves: T9
func TestT9_Chain(t *testing.T) {
	start := record.Chain{Sum: record.Sum{1}, Last: 10, Slot: 100}
	good := record.Record{Kind: record.KindCommands, Prev: record.Sum{1}, First: 11, Last: 12, Slot: 100, Sum: record.Sum{2}}
	cases := []struct {
		name   string
		change func(r *record.Record)
		ok     bool
	}{
		{"the next", func(*record.Record) {}, true},
		{"another predecessor", func(r *record.Record) { r.Prev[15] = 1 }, false},
		{"the last LSN again", func(r *record.Record) { r.First = 10 }, false},
		{"a gap", func(r *record.Record) { r.First = 12 }, false},
		{"a jump", func(r *record.Record) { r.First, r.Last, r.Kind = 500, 500, record.KindJump }, true},
		{"a jump back", func(r *record.Record) { r.First, r.Last, r.Kind = 9, 9, record.KindJump }, false},
		{"a slot back", func(r *record.Record) { r.Slot = 99 }, false},
		{"a seal", func(r *record.Record) { r.Last, r.Kind = 10, record.KindSeal }, true},
	}
	for _, c := range cases {
		chain, r := start, good
		c.change(&r)
		err := chain.Next(&r)
		want := start
		if c.ok {
			want = record.Chain{Sum: r.Sum, Last: r.Last, Slot: r.Slot}
		}
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, record.ErrChain) || chain != want {
			t.Errorf("%s: %v, %+v", c.name, err, chain)
		}
	}
}

func TestJump(t *testing.T) {
	for _, j := range []record.Jump{{}, {From: 7, Reason: "a damaged tail was cut"}, {From: tenure.MaxLSN, Reason: strings.Repeat("r", 65535)}} {
		got, err := record.DecodeJump(record.AppendJump(nil, j))
		if err != nil || got != j {
			t.Errorf("%v, %v; want %v", got, err, j)
		}
	}
	long := record.AppendJump(nil, record.Jump{Reason: strings.Repeat("r", 70000)})
	if got, err := record.DecodeJump(long); err != nil || len(got.Reason) != 65535 {
		t.Errorf("a long reason: %d bytes, %v", len(got.Reason), err)
	}
	for _, b := range [][]byte{nil, long[:9], long[:100], append(bytes.Clone(long), 0), bytes.Repeat([]byte{0xff}, 10+65535)} {
		if _, err := record.DecodeJump(b); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := golden()
	f.Add(record.Append(nil, &r))
	f.Add(forge(func(b []byte) { b[4] = 2 }))
	seal := record.Record{Kind: record.KindSeal, First: 5, Last: 4}
	f.Add(record.Append(nil, &seal))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, resum(b)} {
			r, n, err := record.Decode(b)
			if err != nil {
				if n != 0 || r.Body != nil {
					t.Errorf("an error, and %d bytes", n)
				}
				continue
			}
			again := r
			if out := record.Append(nil, &again); !bytes.Equal(out, b[:n]) {
				t.Errorf("%x was read, and is written %x", b[:n], out)
			}
		}
	})
}

// resum gives bytes that may be a record the sum that makes them one.
func resum(b []byte) []byte {
	_, n, err := record.Peek(b)
	if err != nil || n > len(b) {
		return b
	}
	b = bytes.Clone(b[:n])
	sum := sha256.Sum256(append(bytes.Clone(b[:64]), b[80:]...))
	copy(b[64:], sum[:16])
	return b
}

func FuzzDecodeJump(f *testing.F) {
	f.Add(record.AppendJump(nil, record.Jump{From: 3, Reason: "restored"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := record.DecodeJump(b)
		if err == nil && !bytes.Equal(record.AppendJump(nil, j), b) {
			t.Errorf("%x is read as %+v", b, j)
		}
	})
}
