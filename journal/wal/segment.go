package wal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// segment is what the log knows of one of its files.
type segment struct {
	name   string // path
	seq    uint64 // 1, 2, 3 …: no number is left out
	tag    tag
	before record.Chain // the position that its first record follows
	tip    record.Chain // the position behind its last record
	end    int64        // offset behind its last record
	room   int64        // size that the file was made with
	size   int64        // size that it has
	sealed bool         // its last record is a seal
	cutAt  int64        // a tail was cut at this offset; 0 if none was
	cut    int64        // how many bytes
}

const (
	segmentFormat = 1
	segmentHeader = 112
	tagBytes      = 16
	frameBytes    = tagBytes + record.HeaderBytes
)

// tag stands before every record of a segment: random, made with the segment,
// and known to nobody whose bytes could end up in a record.
type tag [tagBytes]byte

var segmentMagic = [8]byte{0x9e, 'T', 'N', 'R', 'L', 'O', 'G', '\n'}

// header encodes the first bytes of the file.
func (s *segment) header() []byte {
	b := make([]byte, 0, segmentHeader)
	b = append(b, segmentMagic[:]...)
	b = binary.LittleEndian.AppendUint64(b, segmentFormat)
	b = binary.LittleEndian.AppendUint64(b, s.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.before.Last))
	b = binary.LittleEndian.AppendUint64(b, s.before.Slot)
	b = append(b, s.before.Sum[:]...)
	b = append(b, s.tag[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.cutAt))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.cut))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.room))
	return appendSum(b)
}

// appendSum appends the checksum of what is there.
func appendSum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:16]...)
}

// intact reports whether b ends in the checksum of what is before it.
func intact(b []byte) bool {
	sum := sha256.Sum256(b[:len(b)-16])
	return string(sum[:16]) == string(b[len(b)-16:])
}

// parseSegment reads the header of the file that stands under the number seq.
func parseSegment(name string, seq uint64, b []byte) (segment, error) {
	if len(b) < segmentHeader || string(b[:8]) != string(segmentMagic[:]) || !intact(b[:segmentHeader]) {
		return segment{}, &Damage{File: name, What: "the header of the segment does not verify"}
	}
	if v := binary.LittleEndian.Uint64(b[8:]); v != segmentFormat {
		return segment{}, newer(name, fmt.Errorf("%w: segment format %d, this one reads %d", record.ErrVersion, v, segmentFormat))
	}
	s := segment{
		name: name,
		seq:  binary.LittleEndian.Uint64(b[16:]),
		before: record.Chain{
			Last: tenure.LSN(binary.LittleEndian.Uint64(b[24:])),
			Slot: binary.LittleEndian.Uint64(b[32:]),
			Sum:  record.Sum(b[40:56]),
		},
		tag:   tag(b[56:72]),
		cutAt: int64(binary.LittleEndian.Uint64(b[72:])),
		cut:   int64(binary.LittleEndian.Uint64(b[80:])),
		room:  int64(binary.LittleEndian.Uint64(b[88:])),
		end:   segmentHeader,
	}
	if s.seq != seq {
		return segment{}, &Damage{File: name, What: fmt.Sprintf("it holds segment %d: files were renamed", s.seq)}
	}
	s.tip = s.before
	return s, nil
}

const (
	segmentPrefix  = "log-"
	snapshotPrefix = "snap-"
	temporary      = ".tmp"
)

func numbered(prefix string, n uint64) string { return fmt.Sprintf("%s%020d", prefix, n) }

// number is the inverse of numbered.
func number(prefix, name string) (uint64, bool) {
	digits, found := strings.CutPrefix(name, prefix)
	if !found || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && numbered(prefix, n) == name
}

// leftover reports whether name is a file that a crash left unfinished.
func leftover(name string) bool {
	whole, found := strings.CutSuffix(name, temporary)
	_, isSegment := number(segmentPrefix, whole)
	_, isSnapshot := number(snapshotPrefix, whole)
	return found && (isSegment || isSnapshot || whole == markerName)
}

// newSegment describes the segment that goes on behind the position before.
func (l *Log) newSegment(seq uint64, before record.Chain) (segment, error) {
	s := segment{
		name:   filepath.Join(l.dir, numbered(segmentPrefix, seq)),
		seq:    seq,
		before: before,
		tip:    before,
		end:    segmentHeader,
	}
	if _, err := io.ReadFull(l.opt.Rand, s.tag[:]); err != nil {
		return segment{}, fmt.Errorf("wal: no random bytes for a new segment: %w", err)
	}
	return s, nil
}

// publish writes a file under a temporary name, makes it durable, and gives it
// its name durably: it is there whole, or not at all. fill writes it; check, if
// there is one, reads it back. The file stays open. A directory that cannot be
// synced leaves open what its names will be, and ends the log.
func (l *Log) publish(name string, fill, check func(File) error) (f File, err error) {
	f, err = l.fs.Create(name + temporary)
	if err != nil {
		return nil, err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil && check != nil {
		err = check(f)
	}
	if err == nil {
		err = l.fs.Rename(name+temporary, name)
	}
	if err == nil {
		if err = l.fs.SyncDir(l.dir); err != nil {
			err = l.die("sync directory", l.dir, err)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// create makes the file of an empty segment with room for size bytes.
func (l *Log) create(s *segment, size int64) (File, error) {
	s.room, s.size = size, size
	return l.publish(s.name, func(f File) error {
		if err := f.Preallocate(size); err != nil {
			return err
		}
		return writeAt(f, s.header(), 0)
	}, nil)
}

// writeAt is WriteAt for files that may write less without an error.
func writeAt(f File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	if err == nil && n < len(b) {
		return io.ErrShortWrite
	}
	return err
}
