package wal_test

import (
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/wal"
)

var everyBit = flag.Bool("every-bit", false, "flip every bit, and not one of twenty-three")

// stride is the distance of the bits that are flipped. It is odd, so that each
// place in a byte is met equally often.
func stride() int {
	switch {
	case *everyBit:
		return 1
	case raceEnabled || testing.Short():
		return 1021
	}
	return 23
}

// journal64 makes a journal of 64 KiB in four files.
func journal64(t *testing.T, sealed bool) (*model, wal.Options) {
	t.Helper()
	opt := small()
	opt.SegmentBytes = 16 << 10
	m := newModel(faultfs.New())
	log, _, err := wal.Open(m.fs, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	m.log, m.h.Log = log, log
	for _, n := range []int{200, 1000, 100} {
		err = errors.Join(err, m.commands(n))
	}
	for size := 0; size < 59<<10; size += 1500 {
		err = errors.Join(err, m.commands(1400))
	}
	if sealed {
		err = errors.Join(err, m.seal())
	}
	if err = errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	m.fs = m.fs.Crash(faultfs.Everything)
	return m, opt
}

// A flipped bit is found wherever it is, and the message names the file; of a
// log without a seal the very last record may be cut, and that is reported.
//
// proves: T11
func TestT11_EveryBitOfAJournal(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		name := "unsealed"
		if sealed {
			name = "sealed"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, opt := journal64(t, sealed)
			files, err := m.fs.List(dir)
			if err != nil {
				t.Fatal(err)
			}
			bits := 0
			for _, file := range files {
				if file != "LOCK" {
					bits += flipAll(t, m, opt, file)
				}
			}
			if bits*stride() < 500_000 {
				t.Errorf("%d bits were flipped: the journal is too small", bits)
			}
		})
	}
}

// flipAll flips the bits of a file, one at a time.
func flipAll(t *testing.T, m *model, opt wal.Options, file string) (bits int) {
	name := filepath.Join(dir, file)
	for bit := 0; ; bit += stride() {
		if m.fs.Flip(name, bit)*8 <= bit || t.Failed() {
			return bits
		}
		bits++
		m.found(t, m.fs, opt, name, bit, true)
		if bits%53 == 0 {
			m.found(t, m.fs.Crash(faultfs.Everything), opt, name, bit, false)
		}
		m.fs.Flip(name, bit)
	}
}

// found checks what an open says about a flipped bit.
func (m *model) found(t *testing.T, fs *faultfs.FS, opt wal.Options, name string, bit int, readOnly bool) {
	t.Helper()
	opt.ReadOnly = readOnly
	ops := fs.Ops()
	l, report, err := wal.Open(fs, dir, opt)
	if err != nil {
		var damage *wal.Damage
		if !errors.As(err, &damage) || damage.File != name || damage.Offset > int64(bit/8) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s, bit %d: %v", name, bit, err)
		}
		if !readOnly && fs.Ops() != ops+1 { // the lock
			t.Errorf("%s, bit %d: a damaged journal was changed", name, bit)
		}
		return
	}
	defer l.Close()
	all, kept := len(m.h.Records), 0
	for _, err := range l.Records(0) {
		if err != nil {
			t.Errorf("%s, bit %d: %v", name, bit, err)
			return
		}
		kept++
	}
	behind := kept == all && report.CutBytes == int64(bit/8)+1-report.CutOffset
	last := kept == all-1
	if !report.Cut || report.CutFile != name || report.CutOffset > int64(bit/8) || !behind && !last || report.Sealed {
		t.Errorf("%s, bit %d: %d of %d records are served, and the report is %+v", name, bit, kept, all, report)
	}
}

// proves: T11
func TestT11_EveryBitOfASnapshot(t *testing.T) {
	t.Parallel()
	m := newModel(faultfs.New())
	if err := errors.Join(m.open(), m.save(7, 22_000)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "snap-00000000000000000007")
	size := m.fs.Flip(name, 1<<30)
	read := func() error {
		r, err := m.log.OpenSnapshot(7)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(io.Discard, r)
		return err
	}
	damaged := func(what string, at int) {
		var damage *wal.Damage
		if err := read(); !errors.As(err, &damage) || damage.File != name || damage.Offset > int64(at) {
			t.Errorf("%s at %d of %d: %v", what, at, size, err)
		}
	}
	for bit := 0; bit < size*8 && !t.Failed(); bit += stride() {
		m.fs.Flip(name, bit)
		damaged("a flipped bit", bit/8)
		m.fs.Flip(name, bit)
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	m.fs.Edit(name, func(b []byte) []byte { return append(b, 0) })
	damaged("a byte more", size)
	m.fs.Edit(name, func(b []byte) []byte { return b[:size] })
	for n := size - 1; n >= 0 && !t.Failed(); n-- {
		// Every place near a boundary, and some others.
		chunk := 40 + 4 + 64<<10 + 16
		if n%97 == 0 || n < 100 || n > size-100 || n > chunk-30 && n < chunk+30 {
			m.fs.Edit(name, func(b []byte) []byte { return b[:n] })
			damaged("an end", n)
		}
	}
}
