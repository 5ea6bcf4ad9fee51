package kernel

import (
	"encoding/binary"
	"math"

	"github.com/tenurehq/tenure"
)

// maxResources is the widest bundle that any limits allow.
const maxResources = 128

// AppendCommand appends the encoding of c that the journal keeps: the kind, and
// the fields that its kind reads, but for Resource. Numbers are varints in
// their shortest form, texts have their length before them.
//
//	acquire    count of resources, each a text; holder; TTL; grace; reserve; meta; operation (16 bytes); seen
//	activate   shard; LSN; epoch; holder
//	release    as activate; outcome (a byte); detail
//	revoke     shard; LSN; reason
//	reclaim    shard; LSN; whether the holder is asserted dead (a byte, 0 or 1)
//	lapse      shard; LSN; epoch
//	expire     shard; LSN; deadline
//	tick       nothing
//	configure  the limits, in the order of their declaration, durations in nanoseconds
//
// A command that the law accepted can always be read back, and equals what was
// written. c.Kind has to be one of the declared kinds.
func AppendCommand(b []byte, c *Command) []byte {
	b = append(b, byte(c.Kind))
	switch c.Kind {
	case KindAcquire:
		b = binary.AppendUvarint(b, uint64(len(c.Resources)))
		for _, r := range c.Resources {
			b = appendText(b, string(r))
		}
		b = appendText(b, string(c.Holder))
		b = binary.AppendUvarint(b, uint64(c.TTL))
		b = binary.AppendUvarint(b, uint64(c.Grace))
		b = binary.AppendUvarint(b, uint64(c.Reserve))
		b = appendText(b, c.Meta)
		b = append(b, c.Op[:]...)
		return binary.AppendUvarint(b, uint64(c.Seen))
	case KindTick:
		return b
	case KindConfigure:
		return appendLimits(b, &c.Limits)
	}
	b = binary.AppendUvarint(b, uint64(c.Lease.Shard))
	b = binary.AppendUvarint(b, uint64(c.Lease.LSN))
	switch c.Kind {
	case KindActivate, KindRelease:
		b = binary.AppendUvarint(b, uint64(c.Epoch))
		b = appendText(b, string(c.Holder))
	case KindRevoke:
		b = appendText(b, c.Reason)
	case KindReclaim:
		b = appendBool(b, c.HolderIsDead)
	case KindLapse:
		b = binary.AppendUvarint(b, uint64(c.Epoch))
	case KindExpire:
		b = binary.AppendUvarint(b, uint64(c.Deadline))
	}
	if c.Kind == KindRelease {
		b = append(b, byte(c.Result.Outcome))
		b = appendText(b, c.Result.Detail)
	}
	return b
}

// DecodeCommand reads one command from the beginning of b and returns what
// follows it. It accepts exactly what [AppendCommand] writes for a command with
// fields of possible sizes; anything else is an [ErrMalformed]. Texts are
// copied, Meta is a view into b.
func DecodeCommand(b []byte) (c Command, rest []byte, err error) {
	r := reader{b: b}
	c.Kind = Kind(r.byte("kind", uint8(KindConfigure)))
	switch c.Kind {
	case KindAcquire:
		r.acquire(&c)
	case KindTick:
	case KindConfigure:
		c.Limits = r.limits()
	case 0:
		r.fail("there is no command 0")
	default:
		r.named(&c)
	}
	if r.err != nil {
		return Command{}, nil, r.err
	}
	return c, r.b, nil
}

func (r *reader) acquire(c *Command) {
	n := int(r.uvarint("resources", maxResources))
	if len(r.b) < n {
		r.fail("resources: %d of them cannot be in %d bytes", n, len(r.b))
	}
	if r.err != nil {
		return
	}
	if n > 0 {
		c.Resources = make([]tenure.Resource, n)
	}
	for i := range c.Resources {
		c.Resources[i] = tenure.Resource(r.text("resource", tenure.MaxResourceBytes))
	}
	c.Holder = tenure.Holder(r.text("holder", tenure.MaxHolderBytes))
	c.TTL = uint32(r.uvarint("ttl", math.MaxUint32))
	c.Grace = uint32(r.uvarint("grace", math.MaxUint32))
	c.Reserve = uint32(r.uvarint("reserve", math.MaxUint32))
	if meta := r.blob("meta", tenure.MaxMetaBytes); len(meta) > 0 {
		c.Meta = meta
	}
	c.Op = r.id("operation")
	c.Seen = tenure.LSN(r.uvarint("seen", math.MaxUint64))
}

func (r *reader) named(c *Command) {
	c.Lease.Shard = uint16(r.uvarint("shard", math.MaxUint16))
	c.Lease.LSN = tenure.LSN(r.uvarint("lsn", uint64(tenure.MaxLSN)))
	switch c.Kind {
	case KindActivate, KindRelease:
		c.Epoch = tenure.Epoch(r.uvarint("epoch", math.MaxUint32))
		c.Holder = tenure.Holder(r.text("holder", tenure.MaxHolderBytes))
	case KindRevoke:
		c.Reason = r.text("reason", tenure.MaxReasonBytes)
	case KindReclaim:
		c.HolderIsDead = r.byte("holder is dead", 1) == 1
	case KindLapse:
		c.Epoch = tenure.Epoch(r.uvarint("epoch", math.MaxUint32))
	case KindExpire:
		c.Deadline = Slot(r.uvarint("deadline", uint64(MaxSlot)))
	}
	if c.Kind == KindRelease {
		c.Result.Outcome = tenure.Outcome(r.byte("outcome", uint8(tenure.OutcomeFailed)))
		c.Result.Detail = r.text("detail", tenure.MaxReasonBytes)
	}
}

func (r *reader) limits() tenure.Limits {
	var f [limitCount]int64
	for i := range f {
		f[i] = int64(r.uvarint("limit", math.MaxInt64))
	}
	return limitsOf(f)
}

func appendLimits(b []byte, l *tenure.Limits) []byte {
	for _, f := range limitFields(l) {
		b = binary.AppendUvarint(b, uint64(f))
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendBool(b []byte, x bool) []byte {
	if x {
		return append(b, 1)
	}
	return append(b, 0)
}
