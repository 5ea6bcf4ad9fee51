package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tenurehq/tenure"
)

// Jump is the body of a [KindJump] record: why the LSN did not go on where it
// had been.
type Jump struct {
	From   tenure.LSN // the last LSN that is known from before the jump; 0 for a new store
	Reason string     // for people; at most 65,535 bytes
}

// AppendJump appends the encoded jump to b. A longer reason is cut.
func AppendJump(b []byte, j Jump) []byte {
	reason := j.Reason[:min(len(j.Reason), math.MaxUint16)]
	b = binary.LittleEndian.AppendUint64(b, uint64(j.From))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(reason)))
	return append(b, reason...)
}

// DecodeJump is the inverse of [AppendJump]; anything else is [ErrCorrupt].
func DecodeJump(body []byte) (Jump, error) {
	if len(body) < 10 || len(body) != 10+int(binary.LittleEndian.Uint16(body[8:])) {
		return Jump{}, fmt.Errorf("%w: the body of a jump has %d bytes", ErrCorrupt, len(body))
	}
	from := tenure.LSN(binary.LittleEndian.Uint64(body))
	if from > tenure.MaxLSN {
		return Jump{}, fmt.Errorf("%w: a jump from LSN %d", ErrCorrupt, from)
	}
	return Jump{From: from, Reason: string(body[10:])}, nil
}
