package journal

import (
	"io"
	"iter"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// Log keeps an ordered history of records durable, and the snapshots taken of
// it. Its two implementations are journal/wal (one machine) and
// journal/memlog (memory); journal/logtest holds the suite that both pass.
//
// One goroutine appends; Records, and the snapshot methods, may run beside it.
type Log interface {
	// Append makes the encoded record durable directly behind the record whose
	// sum is prev (zero for the first record of the log), and fails, writing
	// nothing, if something else is the last record. After any other error the
	// log must not be appended to again: whether the record will be found by
	// the next open is not known.
	Append(prev record.Sum, rec []byte) error

	// Records yields, in order, the records whose last LSN is at or after from,
	// up to those whose Append had returned when the call was made. A record
	// that does not verify ends the sequence with an error that names file,
	// offset and remedy.
	Records(from tenure.LSN) iter.Seq2[record.Record, error]

	// Trim may forget records whose last LSN is below before.
	Trim(before tenure.LSN) error

	// SaveSnapshot makes what write produces durable under the LSN at, whole or
	// not at all, replacing what was there. Records up to at have been appended:
	// a log whose records end before a snapshot does has lost some.
	SaveSnapshot(at tenure.LSN, write func(io.Writer) error) error

	// Snapshots lists what is kept, the newest first.
	Snapshots() ([]tenure.LSN, error)

	// OpenSnapshot reads one; the reader returns an error instead of io.EOF if
	// the bytes are not those that were saved.
	OpenSnapshot(at tenure.LSN) (io.ReadCloser, error)

	// RemoveSnapshot forgets one.
	RemoveSnapshot(at tenure.LSN) error

	// Close releases what the log holds. It does not seal: the engine appends
	// a seal record before it.
	Close() error
}
