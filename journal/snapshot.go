package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/kernel"
)

// A snapshot is, in this order: the header below, the jumps, the events of the
// window, the kernel's state. The log guards its bytes with a checksum.
//
//	magic "TNRSNAP1" · rules u16 · slot u64 · last LSN u64 · sum of the last record [16]
//	jumps u32, each from u64 · to u64
//	floor u64 · events u32, each LSN u64 · slot u64 · wall u64 · kind u8 · length u32 · lease
//	state
//
// Integers are little-endian.
const (
	snapshotMagic  = "TNRSNAP1"
	snapshotEvents = 4 << 10 // the newest events, so that watchers can resume over a restart
	maxEventBytes  = 256 << 10
)

// save writes the fold.
func (f *fold) save(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	b := []byte(snapshotMagic)
	b = binary.LittleEndian.AppendUint16(b, kernel.Rules)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.slot))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.feed.head))
	b = append(b, f.sum[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.feed.jumps)))
	for _, j := range f.feed.jumps {
		b = binary.LittleEndian.AppendUint64(b, uint64(j.from))
		b = binary.LittleEndian.AppendUint64(b, uint64(j.to))
	}
	if _, err := out.Write(f.feed.appendTail(b, snapshotEvents)); err != nil {
		return err
	}
	if err := f.state.Encode(out); err != nil {
		return err
	}
	return out.Flush()
}

// appendTail encodes the newest events, at most most of them.
func (f *feed) appendTail(b []byte, most int) []byte {
	n := len(f.events)
	skip := max(0, n-most)
	floor := f.floor
	if skip > 0 {
		floor = f.events[(f.first+skip-1)%n].at.LSN
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(floor))
	b = binary.LittleEndian.AppendUint32(b, uint32(n-skip))
	for i := skip; i < n; i++ {
		x := &f.events[(f.first+i)%n]
		b = binary.LittleEndian.AppendUint64(b, uint64(x.at.LSN))
		b = binary.LittleEndian.AppendUint64(b, uint64(x.at.Slot))
		b = binary.LittleEndian.AppendUint64(b, uint64(x.at.Wall))
		b = append(b, byte(x.event))
		length := len(b)
		b = append(b, 0, 0, 0, 0)
		b = kernel.AppendLease(b, &x.lease)
		binary.LittleEndian.PutUint32(b[length:], uint32(len(b)-length-4))
	}
	return b
}

// load reads what save wrote. Lengths are checked before anything is
// allocated for them.
func load(r io.Reader, window int) (*fold, error) {
	in := &decoder{r: bufio.NewReaderSize(r, 1<<20)}
	if magic := in.bytes(len(snapshotMagic)); in.err == nil && string(magic) != snapshotMagic {
		return nil, fmt.Errorf("journal: not a snapshot of this format: it begins with %q", magic)
	}
	if rules := in.u16(); in.err == nil && rules > kernel.Rules {
		return nil, fmt.Errorf("journal: the snapshot was written under law version %d, this program knows up to %d: use a newer program", rules, kernel.Rules)
	}
	f := &fold{feed: newFeed(window), slot: kernel.Slot(in.u64())}
	f.feed.head = tenure.LSN(in.u64())
	copy(f.sum[:], in.bytes(len(f.sum)))
	jumps := in.count(maxJumps)
	for i := 0; i < jumps && in.err == nil; i++ {
		f.feed.jumps = append(f.feed.jumps, jump{from: tenure.LSN(in.u64()), to: tenure.LSN(in.u64())})
	}
	f.feed.floor = tenure.LSN(in.u64())
	events := in.count(snapshotEvents)
	for i := 0; i < events && in.err == nil; i++ {
		x := effect{at: kernel.At{LSN: tenure.LSN(in.u64()), Slot: kernel.Slot(in.u64()), Wall: int64(in.u64())}, event: tenure.EventKind(in.u8())}
		x.lease = in.lease()
		f.feed.add(x)
	}
	if in.err != nil {
		return nil, fmt.Errorf("journal: snapshot: %w", in.err)
	}
	var err error
	if f.state, err = kernel.Decode(in.r); err != nil {
		return nil, err
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("journal: snapshot: bytes behind its end, or it does not verify: %w", err)
	}
	return f, nil
}

// decoder reads little-endian fields and remembers the first error.
type decoder struct {
	r   *bufio.Reader
	err error
}

func (d *decoder) bytes(n int) []byte {
	b := make([]byte, n)
	if d.err == nil {
		_, d.err = io.ReadFull(d.r, b)
	}
	return b
}

func (d *decoder) u8() uint8   { return d.bytes(1)[0] }
func (d *decoder) u16() uint16 { return binary.LittleEndian.Uint16(d.bytes(2)) }
func (d *decoder) u32() uint32 { return binary.LittleEndian.Uint32(d.bytes(4)) }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) count(most int) int {
	n := d.u32()
	if d.err == nil && n > uint32(most) {
		d.err = fmt.Errorf("a count of %d, at most %d can be right", n, most)
	}
	return int(n)
}

func (d *decoder) lease() kernel.Lease {
	n := d.count(maxEventBytes)
	if d.err != nil {
		return kernel.Lease{}
	}
	b := d.bytes(n)
	l, rest, err := kernel.DecodeLease(b)
	if d.err == nil && err == nil && len(rest) > 0 {
		err = errors.New("bytes behind a lease")
	}
	if d.err == nil {
		d.err = err
	}
	return l
}

// cut is a place in the history at which the live engine stood.
type cut struct {
	lsn    tenure.LSN
	sum    record.Sum
	digest kernel.Digest
}

// snapshotter takes snapshots in the background, one at a time. The live
// engine never stops for it.
type snapshotter struct {
	engine *Engine

	mu      sync.Mutex
	running bool
	stopped bool
	size    int64 // of the newest one
	lsn     tenure.LSN
	taken   time.Time // when, by the wall clock, for people
	done    sync.WaitGroup
}

// consider starts a snapshot at the sequencer's position when enough was
// written since the last one.
func (n *snapshotter) consider(s *sequencer) {
	if s.written < n.engine.cfg.SnapshotBytes {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running || n.stopped || s.written < n.size {
		return
	}
	n.running = true
	s.written = 0
	at := cut{lsn: s.next - 1, sum: s.sum, digest: s.state.Digest()}
	n.done.Go(func() { n.run(at) })
}

func (n *snapshotter) run(at cut) {
	start := n.engine.cfg.Wall()
	size, err := n.take(at)
	n.mu.Lock()
	n.running = false
	if err == nil {
		n.size, n.lsn, n.taken = size, at.lsn, n.engine.cfg.Wall()
	}
	n.mu.Unlock()
	log := n.engine.cfg.Logger
	var divergence *divergenceError
	switch {
	case errors.As(err, &divergence):
		n.engine.diverged(err)
	case err != nil:
		log.Error("snapshot failed; the journal is kept and the next one is tried later", "lsn", at.lsn, "err", err)
	default:
		log.Info("snapshot taken", "lsn", at.lsn, "bytes", size, "took", n.engine.cfg.Wall().Sub(start))
	}
}

// divergenceError says that folding the journal again did not give the live
// state: the law did not repeat itself (T8).
type divergenceError struct{ lsn tenure.LSN }

func (e *divergenceError) Error() string {
	return fmt.Sprintf("journal: folding the records up to LSN %d again gives another state than the live one", e.lsn)
}

// take folds up to the cut, saves the result, reads it back, and only then
// forgets what is older than the snapshot before it.
func (n *snapshotter) take(at cut) (size int64, err error) {
	log := n.engine.log
	f, bad, err := newest(log, n.engine.cfg.WatchWindow)
	if err != nil {
		return 0, err
	}
	for _, err := range bad {
		n.engine.cfg.Logger.Error("a snapshot does not verify", "err", err)
	}
	base := f.feed.head // what this one is folded from: the second one to keep
	if err := f.replay(log, func() bool { return f.sum == at.sum }); err != nil {
		return 0, err
	}
	if f.sum != at.sum || f.feed.head != at.lsn || f.state.Digest() != at.digest {
		return 0, &divergenceError{lsn: at.lsn}
	}
	counted := &countingWriter{}
	if err := log.SaveSnapshot(at.lsn, func(w io.Writer) error { counted.w = w; return f.save(counted) }); err != nil {
		return 0, err
	}
	f = nil // one more copy of the state is enough
	if err := n.readBack(at); err != nil {
		return 0, errors.Join(err, log.RemoveSnapshot(at.lsn))
	}
	return counted.n, keepTwo(log, at.lsn, base)
}

func (n *snapshotter) readBack(at cut) error {
	f, err := open(n.engine.log, at.lsn, n.engine.cfg.WatchWindow)
	if err != nil {
		return err
	}
	if f.sum != at.sum || f.state.Digest() != at.digest {
		return fmt.Errorf("journal: the snapshot at LSN %d reads back as another state", at.lsn)
	}
	return nil
}

// age is for the metric: seconds since the newest snapshot of this process.
func (n *snapshotter) age() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken.IsZero() {
		return -1
	}
	return n.engine.cfg.Wall().Sub(n.taken).Seconds()
}

func (n *snapshotter) newestLSN() tenure.LSN {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lsn
}

func (n *snapshotter) stop() {
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
	n.done.Wait()
}

// keepTwo forgets every snapshot but the new one and the one that it was folded
// from, which verified a moment ago, and the records that only older ones
// needed. A base of 0 is the beginning: all records are needed still.
func keepTwo(log Log, at, base tenure.LSN) error {
	kept, err := log.Snapshots()
	if err != nil {
		return err
	}
	for _, old := range kept {
		if old == at || old == base {
			continue
		}
		if err := log.RemoveSnapshot(old); err != nil {
			return err
		}
	}
	return log.Trim(base)
}

// newest loads the newest snapshot that verifies, or begins with nothing. The
// unreadable ones are returned beside it.
func newest(log Log, window int) (*fold, []error, error) {
	kept, err := log.Snapshots()
	if err != nil {
		return nil, nil, err
	}
	var bad []error
	for _, at := range kept {
		f, err := open(log, at, window)
		if err == nil {
			return f, bad, nil
		}
		bad = append(bad, fmt.Errorf("snapshot at LSN %d: %w", at, err))
	}
	return newFold(window), bad, nil
}

func open(log Log, at tenure.LSN, window int) (*fold, error) {
	r, err := log.OpenSnapshot(at)
	if err != nil {
		return nil, err
	}
	counted := &countingReader{r: r}
	f, err := load(counted, window)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	f.size = counted.n
	if f.feed.head != at {
		return nil, fmt.Errorf("journal: it is named %d and holds %d", at, f.feed.head)
	}
	return f, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
