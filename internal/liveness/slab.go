package liveness

import (
	"time"

	"github.com/tenurehq/tenure"
)

// entry is what the table knows of one lease: 48 bytes without pointers, so
// that a million of them cost the garbage collector nothing.
type entry struct {
	lsn   tenure.LSN
	until time.Duration // hearing time that the last beat allows; reserved: clock time of the deadline
	ttl   time.Duration // <= 0: none
	grace time.Duration
	epoch tenure.Epoch
	next  uint32 // in its bucket, or in the free list
	prev  uint32
	where uint16 // its bucket, or nowhere
	phase Phase
	flags flags
}

type flags uint8

const (
	condemned flags = 1 << iota // its beats are refused; reserved and active only
	proposed                    // a proposal is on its way; not in the wheel meanwhile
	paired                      // a reclaim is on its way together with the lapse
)

func (f flags) has(g flags) bool { return f&g != 0 }

const chunkSize = 1 << 10

// slab holds entries by index, so that they never move and growing copies
// nothing. Index 0 is nobody. It does not shrink: it is as large as the most
// leases that ever lived at once.
type slab struct {
	chunks []*[chunkSize]entry
	free   uint32
	used   uint32 // indices handed out so far
}

func (s *slab) at(i uint32) *entry { return &s.chunks[i/chunkSize][i%chunkSize] }

func (s *slab) take() uint32 {
	if i := s.free; i != 0 {
		s.free = s.at(i).next
		return i
	}
	s.used++
	if int(s.used/chunkSize) == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkSize]entry))
	}
	return s.used
}

func (s *slab) give(i uint32) {
	*s.at(i) = entry{next: s.free}
	s.free = i
}
