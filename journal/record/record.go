package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tenurehq/tenure"
)

// Record is one step of a journal: what was ordered together and made durable
// together.
type Record struct {
	Version uint8  // format; [Append] sets it to [Format]
	Rules   uint16 // version of the law that judged the commands
	Kind    Kind
	Shard   uint16
	First   tenure.LSN // of the LSNs it uses; at least 1
	Last    tenure.LSN // at least First-1, which means that it uses none
	Slot    uint64     // logical time, in milliseconds
	Wall    int64      // unix milliseconds, for people
	Prev    Sum        // of the record before; zero in the first of a log
	Sum     Sum        // of this record; [Append] sets it
	Body    []byte     // at most [MaxBody]
}

// Format is the version that this program writes, and the newest it reads.
const Format = 1

// HeaderBytes is the size of a record with an empty body.
const HeaderBytes = 80

// MaxBody is the size of the largest body, in bytes.
const MaxBody = 64 << 20

// Kind says what a record is for. Values are never reused.
type Kind uint8

const (
	KindCommands Kind = 1 // commands that changed something
	KindJump     Kind = 2 // the LSN jumped: see [Jump]
	KindSeal     Kind = 3 // a clean stop; uses no LSN
)

// String is the kind's name in dumps and messages.
func (k Kind) String() string {
	switch k {
	case KindCommands:
		return "commands"
	case KindJump:
		return "jump"
	case KindSeal:
		return "seal"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Sum is checksum and chain link in one: SHA-256, cut to 16 bytes, over the
// whole record except the sum itself.
type Sum [16]byte

// IsZero reports whether s is the sum before the first record.
func (s Sum) IsZero() bool { return s == Sum{} }

// String is the sum in hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Errors of [Decode], for errors.Is.
var (
	// ErrShort: the bytes end before the record does.
	ErrShort = errors.New("record: incomplete")
	// ErrCorrupt: the bytes are no record, or a damaged one.
	ErrCorrupt = errors.New("record: does not verify")
	// ErrVersion: the record verifies, and a newer program wrote it.
	ErrVersion = errors.New("record: written by a newer version of tenure")
)

var magic = [4]byte{0x9e, 'T', 'N', 'R'}

// Append appends the encoded record to b. It sets r.Version and r.Sum. A record
// that breaks a rule of [Record] is a bug of the caller: Append panics.
func Append(b []byte, r *Record) []byte {
	r.Version = Format
	if why := r.broken(); why != "" {
		panic("record: " + why)
	}
	at := len(b)
	b = append(b, magic[:]...)
	b = append(b, r.Version, byte(r.Kind))
	b = binary.LittleEndian.AppendUint16(b, r.Rules)
	b = binary.LittleEndian.AppendUint16(b, r.Shard)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Body)))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.First))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Last))
	b = binary.LittleEndian.AppendUint64(b, r.Slot)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Wall))
	b = append(b, r.Prev[:]...)
	b = append(b, make([]byte, len(r.Sum))...)
	b = append(b, r.Body...)
	r.Sum = sum(b[at:])
	copy(b[at+64:], r.Sum[:])
	return b
}

// Decode reads the record at the beginning of b and says how many bytes it
// takes. It allocates nothing: the body is a part of b. The error is
// [ErrShort], [ErrCorrupt] or [ErrVersion].
func Decode(b []byte) (r Record, n int, err error) {
	r, n, err = Peek(b)
	if err != nil {
		return Record{}, 0, err
	}
	if len(b) < n {
		return Record{}, 0, ErrShort
	}
	b = b[:n:n]
	if sum(b) != r.Sum {
		return Record{}, 0, ErrCorrupt
	}
	if r.Version > Format {
		return Record{}, 0, fmt.Errorf("%w: record format %d, this one reads up to %d", ErrVersion, r.Version, Format)
	}
	r.Body = b[HeaderBytes:]
	if why := r.broken(); why != "" {
		return Record{}, 0, fmt.Errorf("%w: %s", ErrCorrupt, why)
	}
	if r.Kind > KindSeal {
		return Record{}, 0, fmt.Errorf("%w: it knows no record of %v", ErrVersion, r.Kind)
	}
	if b[10] != 0 || b[11] != 0 {
		return Record{}, 0, fmt.Errorf("%w: reserved bytes are used", ErrCorrupt)
	}
	return r, n, nil
}

// Peek reads the header of the record at the beginning of b and says how many
// bytes the whole record takes, which may be more than b has. It verifies
// nothing but the magic and the limit of the length; the body stays nil.
func Peek(b []byte) (r Record, n int, err error) {
	if m := min(len(b), len(magic)); string(b[:m]) != string(magic[:m]) {
		return Record{}, 0, ErrCorrupt
	}
	if len(b) < HeaderBytes {
		return Record{}, 0, ErrShort
	}
	length := binary.LittleEndian.Uint32(b[12:])
	if b[4] == 0 || length > MaxBody {
		return Record{}, 0, ErrCorrupt
	}
	r = Record{
		Version: b[4],
		Kind:    Kind(b[5]),
		Rules:   binary.LittleEndian.Uint16(b[6:]),
		Shard:   binary.LittleEndian.Uint16(b[8:]),
		First:   tenure.LSN(binary.LittleEndian.Uint64(b[16:])),
		Last:    tenure.LSN(binary.LittleEndian.Uint64(b[24:])),
		Slot:    binary.LittleEndian.Uint64(b[32:]),
		Wall:    int64(binary.LittleEndian.Uint64(b[40:])),
		Prev:    Sum(b[48:64]),
		Sum:     Sum(b[64:80]),
	}
	return r, HeaderBytes + int(length), nil
}

// broken names the rule that r breaks.
func (r *Record) broken() string {
	switch {
	case r.Kind == 0:
		return "a record has a kind"
	case r.First < 1 || r.First > tenure.MaxLSN:
		return fmt.Sprintf("first LSN %d is out of range", r.First)
	case r.Last+1 < r.First || r.Last > tenure.MaxLSN:
		return fmt.Sprintf("last LSN %d does not go with first LSN %d", r.Last, r.First)
	case r.Kind == KindSeal && (r.Last >= r.First || len(r.Body) > 0):
		return "a seal uses no LSN and has no body"
	case len(r.Body) > MaxBody:
		return fmt.Sprintf("a body of %d bytes exceeds %d", len(r.Body), MaxBody)
	}
	return ""
}

// sum hashes an encoded record, leaving out the place of the sum.
func sum(b []byte) Sum {
	h := sha256.New()
	h.Write(b[:64])
	h.Write(b[HeaderBytes:])
	var full [sha256.Size]byte
	return Sum(h.Sum(full[:0])[:16])
}
