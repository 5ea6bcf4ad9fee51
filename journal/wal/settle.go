package wal

// settle makes durable what recovery read. A file that a process left without a
// seal may have been read from memory that the disk never got, and syncing it
// now would prove nothing: a sync that failed once forgets what it failed to
// write. So its verified records are written again, to a new file, and that one
// is verified. Everything older was synced before its successor was made.
func (l *Log) settle(last *segment, clean bool) error {
	if clean {
		return l.fs.SyncDir(l.dir)
	}
	old, err := l.fs.Open(last.name, false)
	if err != nil {
		return err
	}
	defer old.Close()
	again := *last
	again.room = max(l.opt.SegmentBytes, last.end+1)
	if last.sealed {
		again.room = last.end // nothing is written to it any more
	}
	again.size = again.room
	fill := func(f File) error { return l.copy(f, old, &again) }
	check := func(f File) error { return l.compare(f, &again) }
	if l.active, err = l.publish(last.name, fill, check); err != nil {
		return err
	}
	*last = again
	return nil
}

// copy writes the segment: its header, and its records from the old file.
func (l *Log) copy(f, old File, s *segment) error {
	if err := f.Preallocate(s.room); err != nil {
		return err
	}
	if err := writeAt(f, s.header(), 0); err != nil {
		return err
	}
	w := window{f: old, size: s.end}
	for at := int64(segmentHeader); at < s.end; {
		b, err := w.read(at, int(min(s.end-at, readAhead)))
		if err != nil {
			return err
		}
		if err := writeAt(f, b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// compare reads a segment back: it has to be the one that was verified.
func (l *Log) compare(f File, want *segment) error {
	got, c, err := l.load(f, want.name+temporary, want.seq)
	if err != nil {
		return err
	}
	for c.off < want.end {
		if _, err := c.next(); err != nil {
			return c.damage(err, "what was just written there cannot be read back")
		}
	}
	if c.off != want.end || c.chain != want.tip || got.tag != want.tag {
		return c.damage(nil, "what was just written there reads back as something else")
	}
	return nil
}
