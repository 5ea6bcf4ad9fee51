package kernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tenurehq/tenure"
)

// snapshotVersion is the first byte of every encoding.
const snapshotVersion = 1

// Encode writes the state, as bytes that depend on nothing but its history.
// They are protected against nothing: who stores them adds a checksum. Numbers
// are varints in their shortest form, texts have their length before them.
//
//	version (a byte, 1); shard
//	last LSN, slot, wall clock (signed); retirement floor; ending of absent resources (a byte); digest (16 bytes)
//	limits, in the order of their declaration, durations in nanoseconds
//	count of leases, then each in order of ID: the lease, as [AppendLease] writes it; and for each of its resources
//	  whether it was the last to own it (a byte: 0 = no, else 1 + how its last tenure ended)
//
// Which lease is live, which operation and which resource belongs to which, and
// the order of history follow from that.
func (s *State) Encode(w io.Writer) error {
	b := make([]byte, 0, 2*chunk)
	b = append(b, snapshotVersion)
	b = binary.AppendUvarint(b, uint64(s.shard))
	b = binary.AppendUvarint(b, uint64(s.last.LSN))
	b = binary.AppendUvarint(b, uint64(s.last.Slot))
	b = binary.AppendVarint(b, s.last.Wall)
	b = binary.AppendUvarint(b, uint64(s.history.floor))
	b = append(b, byte(s.absent))
	digest := s.digest.bytes()
	b = append(b, digest[:]...)
	b = appendLimits(b, &s.limits)
	b = binary.AppendUvarint(b, uint64(s.history.kept()))
	var err error
	s.history.each(0, func(l *Lease) bool {
		b = s.appendKept(b, l)
		if len(b) >= chunk {
			_, err = w.Write(b)
			b = b[:0]
		}
		return err == nil
	})
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("kernel: write a snapshot: %w", err)
	}
	return nil
}

func (s *State) appendKept(b []byte, l *Lease) []byte {
	b = AppendLease(b, l)
	for _, r := range l.Resources {
		owned := byte(0)
		if t := s.resources[r]; t.last == l {
			owned = 1 + byte(t.ending)
		}
		b = append(b, owned)
	}
	return b
}

// Decode reads a state, up to the end of r. It accepts exactly what
// [State.Encode] writes for a state that passes [State.Check]; anything else
// is an [ErrMalformed]. Memory grows with what was read, never with a length
// that is only claimed.
func Decode(r io.Reader) (*State, error) {
	in := &reader{src: r}
	if v := in.byte("version", math.MaxUint8); in.err == nil && v != snapshotVersion {
		in.fail("version %d is not known, this program reads version %d", v, snapshotVersion)
	}
	s := &State{ops: map[[16]byte]*Lease{}, resources: map[tenure.Resource]tenancy{}}
	s.shard = uint16(in.uvarint("shard", math.MaxUint16))
	s.last.LSN = tenure.LSN(in.uvarint("last lsn", uint64(tenure.MaxLSN)))
	s.last.Slot = Slot(in.uvarint("last slot", uint64(MaxSlot)))
	s.last.Wall = in.varint("last wall clock")
	s.history.floor = tenure.LSN(in.uvarint("floor", uint64(s.last.LSN)))
	s.absent = tenure.Ending(in.byte("absent", uint8(tenure.EndingNever)))
	s.digest = digestOf(in.id("digest"))
	s.limits = in.limits()
	if err := s.limits.Validate(); in.err == nil && err != nil {
		in.fail("%v", err)
	}
	n := in.uvarint("leases", uint64(s.last.LSN))
	var before tenure.LSN
	for ; n > 0 && in.err == nil; n-- {
		before = s.restore(in, before)
	}
	in.end()
	if in.err != nil {
		return nil, in.err
	}
	slices.SortFunc(s.history.queue, func(a, b *Lease) int { return cmp.Compare(a.LSN, b.LSN) })
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("kernel: %w: %w", ErrMalformed, err)
	}
	return s, nil
}

// restore reads one lease and files it. It returns its LSN.
func (s *State) restore(in *reader, before tenure.LSN) tenure.LSN {
	l := new(Lease)
	in.lease(l)
	if in.err == nil && l.ID.LSN <= before {
		in.fail("lease %v follows %d", l.ID, before)
	}
	if in.err != nil {
		return 0
	}
	l.keep()
	s.history.add(l)
	s.ops[l.Op] = l
	if l.State.Live() {
		s.live++
	} else {
		s.history.end(l)
	}
	for _, r := range l.Resources {
		owned := in.byte("ending", 1+uint8(tenure.EndingNever))
		if owned == 0 {
			continue
		}
		if t, twice := s.resources[r]; twice {
			in.fail("both %v and %v are the last to own %s", t.last.ID, l.ID, r)
			return 0
		}
		s.resources[r] = tenancy{last: l, ending: tenure.Ending(owned - 1)}
	}
	return l.ID.LSN
}
