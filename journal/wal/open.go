package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/record"
)

// open finds out what the directory is, takes the lock, and recovers.
func (l *Log) open() (Report, error) {
	names, err := l.fs.List(l.dir)
	if errors.Is(err, fs.ErrNotExist) && !l.opt.ReadOnly {
		if err = mkdir(l.fs, l.dir); err == nil {
			names, err = l.fs.List(l.dir)
		}
	}
	if err != nil {
		return Report{}, explain("open the journal in", l.dir, err)
	}
	// Nothing is changed, not even a lock made, in a directory of others.
	if err := l.ours(names); err != nil {
		return Report{}, err
	}
	if err := l.takeLock(); err != nil {
		return Report{}, explain("lock", filepath.Join(l.dir, lockName), err)
	}
	if names, err = l.fs.List(l.dir); err != nil {
		return Report{}, explain("open the journal in", l.dir, err)
	}
	if !slices.Contains(names, markerName) {
		return l.initialize(names)
	}
	if err := l.readMarker(); err != nil {
		return Report{}, err
	}
	return l.recover(names)
}

func (l *Log) takeLock() error {
	lock, err := l.fs.Lock(filepath.Join(l.dir, lockName), l.opt.ReadOnly)
	if l.opt.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		return nil // a copy without the lock file: nobody can have it open
	}
	if err == nil {
		l.lock = lock
	}
	return err
}

// ours refuses a directory without marker in which there is anything that an
// unfinished Open would not have left.
func (l *Log) ours(names []string) error {
	if slices.Contains(names, markerName) {
		return nil
	}
	if l.opt.ReadOnly {
		return foreign(l.dir, "there is no file "+markerName+" in it")
	}
	for _, name := range names {
		first := name == numbered(segmentPrefix, 1)
		if !first && name != lockName && name != "lost+found" && !leftover(name) {
			return foreign(l.dir, fmt.Sprintf("it has %s in it, and no file %s", name, markerName))
		}
	}
	return nil
}

// initialize makes the first segment and then, last of all, the marker: a
// directory without a marker was never written to, and one with a marker has a
// segment.
func (l *Log) initialize(names []string) (Report, error) {
	if err := l.ours(names); err != nil {
		return Report{}, err
	}
	s, err := l.newSegment(1, record.Chain{})
	if err != nil {
		return Report{}, err
	}
	if err := l.untouched(names, s.name); err != nil {
		return Report{}, err
	}
	if err := l.removeLeftovers(names); err != nil {
		return Report{}, err
	}
	if err := syncAbove(l.fs, l.dir); err != nil {
		return Report{}, explain("sync the directory above", l.dir, err)
	}
	if l.active, err = l.create(&s, l.opt.SegmentBytes); err != nil {
		return Report{}, explain("create", s.name, err)
	}
	if err := l.writeMarker(); err != nil {
		return Report{}, explain("create", filepath.Join(l.dir, markerName), err)
	}
	l.segs = []segment{s}
	return Report{Created: true, First: 1, Segments: 1, Bytes: s.end}, nil
}

// untouched refuses to make a new journal over a first segment that was
// written to.
func (l *Log) untouched(names []string, name string) error {
	if !slices.Contains(names, filepath.Base(name)) {
		return nil
	}
	f, err := l.fs.Open(name, false)
	if err != nil {
		return explain("open", name, err)
	}
	defer f.Close()
	_, c, err := l.load(f, name, 1)
	if err != nil {
		return err
	}
	rest, err := survey(f, c.off, c.size, c.seg.tag)
	if err != nil {
		return explain("read", name, err)
	}
	if rest.used > 0 {
		return foreign(l.dir, fmt.Sprintf("it has records, and no file %s: if that was removed by mistake, bring it back from a backup", markerName))
	}
	return nil
}

func (l *Log) removeLeftovers(names []string) error {
	for _, name := range names {
		if !leftover(name) || l.opt.ReadOnly {
			continue
		}
		path := filepath.Join(l.dir, name)
		if err := l.fs.Remove(path); err != nil {
			return explain("remove", path, err)
		}
	}
	return nil
}

// recover verifies every segment, decides about the end of the last one, and
// makes durable what may not be.
func (l *Log) recover(names []string) (Report, error) {
	if err := l.removeLeftovers(names); err != nil {
		return Report{}, err
	}
	seqs, err := l.sequence(names)
	if err != nil {
		return Report{}, err
	}
	var report Report
	for i, seq := range seqs {
		if err := l.verify(seq, i == len(seqs)-1, &report); err != nil {
			return report, err
		}
	}
	if err := l.reaches(names); err != nil {
		return report, err
	}
	last := &l.segs[len(l.segs)-1]
	clean := last.sealed && last.end == last.size
	report.Rewritten = !clean
	if l.opt.ReadOnly {
		l.dead = &tenure.Error{Code: tenure.ErrUnsupported, Why: "the journal in " + l.dir + " was opened for reading only"}
	} else if err := l.settle(last, clean); err != nil {
		return report, explain("recover", last.name, err)
	}
	l.sum(&report)
	return report, nil
}

// reaches refuses records that end before a snapshot does: snapshots are taken
// of what was acknowledged, so what is missing at the end is not a record that
// was in flight, whatever it looks like.
func (l *Log) reaches(names []string) error {
	last := &l.segs[len(l.segs)-1]
	for _, name := range names {
		at, ok := number(snapshotPrefix, name)
		if ok && tenure.LSN(at) > last.tip.Last {
			return &Damage{File: last.name, Offset: last.end, What: fmt.Sprintf("the records end with LSN %d, and there is a snapshot of LSN %d: acknowledged ones are missing", last.tip.Last, at)}
		}
	}
	return nil
}

// sequence lists the numbers of the segments, none of which may be missing.
func (l *Log) sequence(names []string) ([]uint64, error) {
	var seqs []uint64
	for _, name := range names {
		seq, ok := number(segmentPrefix, name)
		if !ok {
			continue
		}
		if n := len(seqs); n > 0 && seqs[n-1]+1 != seq {
			return nil, &Damage{File: filepath.Join(l.dir, name), What: fmt.Sprintf("the file before it, %s, is missing", numbered(segmentPrefix, seq-1))}
		}
		seqs = append(seqs, seq)
	}
	if len(seqs) == 0 {
		return nil, &Damage{File: l.dir, What: "all files " + segmentPrefix + "… are missing"}
	}
	return seqs, nil
}

// verify reads a segment and adds it to the log.
func (l *Log) verify(seq uint64, last bool, report *Report) error {
	name := filepath.Join(l.dir, numbered(segmentPrefix, seq))
	f, err := l.fs.Open(name, false)
	if err != nil {
		return explain("open", name, err)
	}
	defer f.Close()
	seg, c, err := l.load(f, name, seq)
	if err != nil {
		return err
	}
	if n := len(l.segs); n > 0 && l.segs[n-1].tip != seg.before {
		before := &l.segs[n-1]
		return &Damage{File: before.name, Offset: before.end, What: fmt.Sprintf("it ends with LSN %d, but %s goes on behind LSN %d with sum %v", before.tip.Last, filepath.Base(name), seg.before.Last, seg.before.Sum)}
	}
	if seq == 1 && seg.before != (record.Chain{}) {
		return &Damage{File: name, What: "the first file does not begin at the beginning"}
	}
	why := c.skip()
	cut, err := c.judge(why, last)
	if err != nil {
		return err
	}
	seg.end, seg.tip, seg.sealed = c.off, c.chain, c.sealed
	if cut > 0 {
		seg.cutAt, seg.cut = seg.end, cut
	}
	l.note(&seg, report)
	l.segs = append(l.segs, seg)
	return nil
}

// load opens a segment: its header, and a cursor at its first record.
func (l *Log) load(f File, name string, seq uint64) (segment, *cursor, error) {
	size, err := f.Size()
	if err != nil {
		return segment{}, nil, explain("read", name, err)
	}
	w := &window{f: f, size: size}
	b, err := w.read(0, int(min(size, segmentHeader)))
	if err != nil {
		return segment{}, nil, explain("read", name, err)
	}
	seg, err := parseSegment(name, seq, b)
	if err != nil {
		return segment{}, nil, err
	}
	seg.size = size
	return seg, newCursor(w, seg, size), nil
}

// note keeps the report of a cut for as long as no record stands behind it.
func (l *Log) note(seg *segment, report *Report) {
	if seg.end > segmentHeader {
		report.Cut, report.CutFile, report.CutOffset, report.CutBytes = false, "", 0, 0
	}
	if seg.cutAt == seg.end {
		report.Cut, report.CutFile, report.CutOffset, report.CutBytes = true, seg.name, seg.cutAt, seg.cut
	}
	report.Bytes += seg.end
}

func (l *Log) sum(report *Report) {
	first, last := &l.segs[0], &l.segs[len(l.segs)-1]
	report.First, report.Tip, report.Segments = first.before.Last+1, last.tip, len(l.segs)
	for i := range l.segs {
		if l.segs[i].end > segmentHeader {
			report.Sealed = l.segs[i].sealed && !report.Cut
		}
	}
}
