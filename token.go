package tenure

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// LSN is the position of a committed command in its shard: one count that
// starts at 1 and never goes back. Creating a store, restoring one, or cutting
// a damaged tail make it jump to max(last+1, unix microseconds).
type LSN uint64

// MaxLSN is the last position: 63 bits, so that it fits a signed column.
const MaxLSN LSN = math.MaxInt64

// Epoch counts the changes of authority inside one lease: 1 when granted, one
// more whenever the holder loses authority.
type Epoch uint32

// LeaseID names a lease for ever: its shard and the LSN of its grant, written
// "0-42". The zero value names none.
type LeaseID struct {
	Shard uint16 // 0 until there are shards; a resource never changes shard
	LSN   LSN
}

// IsZero reports whether id names no lease.
func (id LeaseID) IsZero() bool { return id == LeaseID{} }

// String is the canonical form "0-42".
func (id LeaseID) String() string {
	return strconv.FormatUint(uint64(id.Shard), 10) + "-" + strconv.FormatUint(uint64(id.LSN), 10)
}

// ParseLeaseID reads the canonical form; "0-042" or "+0-42" is refused, so
// that equal IDs are equal strings.
func ParseLeaseID(s string) (LeaseID, error) {
	shard, lsn, found := strings.Cut(s, "-")
	sh, okShard := canonical(shard, math.MaxUint16)
	n, okLSN := canonical(lsn, uint64(MaxLSN))
	if !found || !okShard || !okLSN || n == 0 {
		return LeaseID{}, invalid("lease", "", fmt.Sprintf("%s is not a lease id: write SHARD-LSN in plain decimals, for example 0-42", quote(s)))
	}
	return LeaseID{Shard: uint16(sh), LSN: LSN(n)}, nil
}

// MarshalText writes the canonical form.
func (id LeaseID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the canonical form.
func (id *LeaseID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseLeaseID(string(b))
	return err
}

// Token is the proof of authority that a resource can check: a lease and its
// epoch, written "0-42.1". Tokens granted for one resource strictly increase,
// for ever (T7); a resource that remembers the highest it has seen refuses
// everything lower. The zero value is no token.
type Token struct {
	Lease LeaseID
	Epoch Epoch
}

// IsZero reports whether t is no token.
func (t Token) IsZero() bool { return t == Token{} }

// Compare orders tokens of one resource as numbers: by lease, then by epoch.
// It returns -1, 0 or +1.
func (t Token) Compare(u Token) int {
	if c := cmp.Compare(t.Lease.Shard, u.Lease.Shard); c != 0 {
		return c
	}
	if c := cmp.Compare(t.Lease.LSN, u.Lease.LSN); c != 0 {
		return c
	}
	return cmp.Compare(t.Epoch, u.Epoch)
}

// String is the canonical form "0-42.1"; empty for the zero token.
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	return t.Lease.String() + "." + strconv.FormatUint(uint64(t.Epoch), 10)
}

// ParseToken reads the canonical form and nothing else.
func ParseToken(s string) (Token, error) {
	lease, epoch, found := strings.Cut(s, ".")
	id, err := ParseLeaseID(lease)
	e, ok := canonical(epoch, math.MaxUint32)
	if !found || err != nil || !ok || e == 0 {
		return Token{}, invalid("token", "", fmt.Sprintf("%s is not a token: write SHARD-LSN.EPOCH in plain decimals, for example 0-42.1", quote(s)))
	}
	return Token{Lease: id, Epoch: Epoch(e)}, nil
}

// MarshalText writes the canonical form, empty for the zero token.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the canonical form; empty is the zero token.
func (t *Token) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*t = Token{}
		return nil
	}
	*t, err = ParseToken(string(b))
	return err
}

// Ref names a lease in a holder's command: its token, and any one resource of
// it, since some engines find a record only by its resource.
type Ref struct {
	Token    Token
	Resource Resource
}

// canonical reads a decimal without sign, leading zero or surrounding space.
func canonical(s string, most uint64) (uint64, bool) {
	if s == "" || len(s) > 20 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n <= most
}
