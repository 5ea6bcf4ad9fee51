package kernel

import (
	"encoding/binary"
	"math"

	"github.com/tenurehq/tenure"
)

// AppendLease appends the encoding of a record. Numbers are varints in their
// shortest form, texts have their length before them.
//
//	shard; LSN; count of resources, each a text; holder; meta; operation (16 bytes)
//	TTL; grace; reserve; prior ending (a byte); granted slot, wall clock (signed)
//	state (a byte); epoch; LSN of the last change less its own; outcome (a byte); detail
//	last holder's command (a byte); the epoch it carried; and of an ended lease: slot, wall clock (signed) of its end
func AppendLease(b []byte, l *Lease) []byte {
	b = binary.AppendUvarint(b, uint64(l.ID.Shard))
	b = binary.AppendUvarint(b, uint64(l.ID.LSN))
	b = binary.AppendUvarint(b, uint64(len(l.Resources)))
	for _, r := range l.Resources {
		b = appendText(b, string(r))
	}
	b = appendText(b, string(l.Holder))
	b = appendText(b, l.Meta)
	b = append(b, l.Op[:]...)
	b = binary.AppendUvarint(b, uint64(l.TTL))
	b = binary.AppendUvarint(b, uint64(l.Grace))
	b = binary.AppendUvarint(b, uint64(l.Reserve))
	b = append(b, byte(l.Prior))
	b = binary.AppendUvarint(b, uint64(l.Granted.Slot))
	b = binary.AppendVarint(b, l.Granted.Wall)
	b = append(b, byte(l.State))
	b = binary.AppendUvarint(b, uint64(l.Epoch))
	b = binary.AppendUvarint(b, uint64(l.LSN-l.ID.LSN))
	b = append(b, byte(l.Outcome))
	b = appendText(b, l.Detail)
	b = append(b, byte(l.LastKind))
	b = binary.AppendUvarint(b, uint64(l.LastEpoch))
	if l.State.Live() {
		return b
	}
	b = binary.AppendUvarint(b, uint64(l.Ended.Slot))
	return binary.AppendVarint(b, l.Ended.Wall)
}

// DecodeLease reads one record from the beginning of b and returns what follows
// it. Names are checked; everything is copied. Anything that
// [AppendLease] does not write is an [ErrMalformed].
func DecodeLease(b []byte) (l Lease, rest []byte, err error) {
	r := reader{b: b}
	r.lease(&l)
	if r.err != nil {
		return Lease{}, nil, r.err
	}
	return l, r.b, nil
}

// lease reads a record.
func (r *reader) lease(l *Lease) {
	l.ID.Shard = uint16(r.uvarint("shard", math.MaxUint16))
	l.ID.LSN = tenure.LSN(r.uvarint("lease", uint64(tenure.MaxLSN)))
	for n := r.uvarint("resources", maxResources); n > 0 && r.err == nil; n-- {
		name := tenure.Resource(r.text("resource", tenure.MaxResourceBytes))
		if err := name.Validate(); err != nil {
			r.fail("lease %v: %v", l.ID, err)
		}
		l.Resources = append(l.Resources, name)
	}
	l.Holder = tenure.Holder(r.text("holder", tenure.MaxHolderBytes))
	if err := l.Holder.Validate(); err != nil {
		r.fail("lease %v: %v", l.ID, err)
	}
	l.Meta = append([]byte(nil), r.blob("meta", tenure.MaxMetaBytes)...)
	l.Op = r.id("operation")
	l.TTL = uint32(r.uvarint("ttl", math.MaxUint32))
	l.Grace = uint32(r.uvarint("grace", math.MaxUint32))
	l.Reserve = uint32(r.uvarint("reserve", math.MaxUint32))
	l.Prior = tenure.Ending(r.byte("prior", uint8(tenure.EndingNever)))
	l.Granted.Slot = Slot(r.uvarint("granted slot", uint64(MaxSlot)))
	l.Granted.Wall = r.varint("granted wall clock")
	l.State = tenure.State(r.byte("state", uint8(tenure.StateRevoked)))
	l.Epoch = tenure.Epoch(r.uvarint("epoch", math.MaxUint32))
	l.LSN = l.ID.LSN + tenure.LSN(r.uvarint("last change", uint64(tenure.MaxLSN-l.ID.LSN)))
	l.Outcome = tenure.Outcome(r.byte("outcome", uint8(tenure.OutcomeRevoked)))
	l.Detail = r.text("detail", tenure.MaxReasonBytes)
	l.LastKind = Kind(r.byte("last command", uint8(KindRelease)))
	l.LastEpoch = tenure.Epoch(r.uvarint("last epoch", math.MaxUint32))
	if !l.State.Live() {
		l.Ended.Slot = Slot(r.uvarint("ended slot", uint64(MaxSlot)))
		l.Ended.Wall = r.varint("ended wall clock")
	}
}
