package kernel

import (
	"encoding/hex"
	"math/bits"

	"github.com/tenurehq/tenure"
)

// Digest is a rolling, 128-bit digest of a history: of the position, code and
// rows of every step. Two states that went through the same steps have the
// same one, and a step that differed anywhere shows in all later ones (T8). It
// detects mistakes; it is no defence against somebody who forges a history.
//
// Each 64-bit word x turns the halves (a, b) into (b + hi, lo), where hi:lo is
// (a XOR x) times an odd constant: for every x a permutation of all digests,
// and for every digest a different result for each x, so that nothing absorbed
// is ever lost. Strings are absorbed as their length and little-endian words.
type Digest [2]uint64

// weyl is the odd number nearest to 2^64 divided by the golden ratio.
const weyl = 0x9e3779b97f4a7c15

// String is 32 hexadecimal digits.
func (d Digest) String() string {
	b := d.bytes()
	return hex.EncodeToString(b[:])
}

func (d Digest) bytes() (b [16]byte) {
	for i := range b {
		b[i] = byte(d[i/8] >> (56 - 8*(i%8)))
	}
	return b
}

func digestOf(b [16]byte) (d Digest) {
	for i, x := range b {
		d[i/8] = d[i/8]<<8 | uint64(x)
	}
	return d
}

func (d *Digest) word(x uint64) {
	hi, lo := bits.Mul64(d[0]^x, weyl)
	d[0], d[1] = d[1]+hi, lo
}

func (d *Digest) text(s string) {
	d.word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		d.word(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
	}
	d.rest(len(s), func(i int) byte { return s[i] })
}

func (d *Digest) blob(b []byte) {
	d.word(uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		d.word(uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56)
	}
	d.rest(len(b), func(i int) byte { return b[i] })
}

func (d *Digest) rest(n int, at func(int) byte) {
	if n == 0 {
		return
	}
	x := uint64(0)
	for i := range n {
		x |= uint64(at(i)) << (8 * i)
	}
	d.word(x)
}

func (d *Digest) step(at At, code Code) {
	d.word(uint64(at.LSN))
	d.word(uint64(at.Slot))
	d.word(uint64(at.Wall))
	d.word(uint64(code))
}

// lease absorbs what the step may have changed; what never changes it absorbs
// once, at the grant.
func (d *Digest) lease(l *Lease, code Code, deleted bool) {
	d.word(uint64(l.ID.LSN))
	if deleted {
		return
	}
	d.word(uint64(l.State) | uint64(l.Outcome)<<8 | uint64(l.LastKind)<<16 | uint64(l.Prior)<<24 | uint64(l.Epoch)<<32)
	d.word(uint64(l.LastEpoch))
	d.word(uint64(l.LSN))
	d.word(uint64(l.Ended.Slot))
	d.word(uint64(l.Ended.Wall))
	d.text(l.Detail)
	if code != Granted {
		return
	}
	d.word(uint64(l.ID.Shard) | uint64(l.TTL)<<32)
	d.word(uint64(l.Grace) | uint64(l.Reserve)<<32)
	d.word(uint64(l.Granted.Slot))
	d.word(uint64(l.Granted.Wall))
	d.blob(l.Op[:])
	d.text(string(l.Holder))
	d.blob(l.Meta)
	d.word(uint64(len(l.Resources)))
	for _, r := range l.Resources {
		d.text(string(r))
	}
}

// resource leaves out the name: the lease's row before it has them in order.
func (d *Digest) resource(r *Resource, deleted bool) {
	x := uint64(r.State) | uint64(r.Ending)<<8
	if deleted {
		x |= 1 << 16
	}
	d.word(x)
	d.word(uint64(r.Last.LSN))
}

func (d *Digest) limits(l *tenure.Limits) {
	for _, f := range limitFields(l) {
		d.word(uint64(f))
	}
}
