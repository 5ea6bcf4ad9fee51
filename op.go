package tenure

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Op names one intention of a client, so that repeating it is safe (T10): the
// same Op with the same claim is one lease. The zero value asks the engine for
// a fresh one.
type Op struct {
	ID [16]byte
	// Seen is the highest LSN the client had seen when it first sent the
	// operation. An engine that has forgotten leases granted after Seen cannot
	// tell a late repeat from a first attempt, and refuses with [ErrRetired].
	Seen LSN
}

// NewOp draws a fresh operation for a client that has seen the LSN seen.
func NewOp(seen LSN) Op {
	op, err := ReadOp(rand.Reader, seen)
	if err != nil {
		panic("tenure: the system's randomness failed: " + err.Error()) // crypto/rand never fails on supported systems
	}
	return op
}

// ReadOp draws a fresh operation from r, for callers that inject randomness.
func ReadOp(r io.Reader, seen LSN) (Op, error) {
	op := Op{Seen: seen}
	for op.ID == ([16]byte{}) {
		if _, err := io.ReadFull(r, op.ID[:]); err != nil {
			return Op{}, fmt.Errorf("tenure: draw an operation: %w", err)
		}
	}
	return op, nil
}

// IsZero reports whether the engine is to draw a fresh operation.
func (op Op) IsZero() bool { return op.ID == [16]byte{} }

// String is the canonical form: 32 hexadecimal digits, "@" and the LSN seen.
// Empty for the zero operation.
func (op Op) String() string {
	if op.IsZero() {
		return ""
	}
	return hex.EncodeToString(op.ID[:]) + "@" + strconv.FormatUint(uint64(op.Seen), 10)
}

// ParseOp reads 32 hexadecimal digits, optionally followed by "@" and the LSN
// seen (0 without it). Empty is the zero operation.
func ParseOp(s string) (Op, error) {
	if s == "" {
		return Op{}, nil
	}
	id, seen, found := strings.Cut(s, "@")
	var op Op
	n, err := hex.Decode(op.ID[:], []byte(id[:min(len(id), 2*len(op.ID))]))
	if err != nil || n != len(op.ID) || len(id) != 2*len(op.ID) || op.IsZero() {
		return Op{}, invalid("operation", "", fmt.Sprintf("%s is not an operation: write 32 hexadecimal digits, not all zero, then @ and the highest LSN seen", quote(s)))
	}
	if found {
		lsn, ok := canonical(seen, math.MaxInt64)
		if !ok {
			return Op{}, invalid("operation", "", fmt.Sprintf("%s: what follows @ is not an LSN", quote(s)))
		}
		op.Seen = LSN(lsn)
	}
	return op, nil
}
