package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenurehq/tenure/internal/faultfs"
	"github.com/tenurehq/tenure/journal/logtest"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

const first = dir + "/log-00000000000000000001"

// made is a journal of one file with records of these sizes, all synced.
func made(t testing.TB, size int64, bodies ...string) *model {
	t.Helper()
	m := newModel(faultfs.New())
	opt := small()
	opt.SegmentBytes = size
	log, _, err := wal.Open(m.fs, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	m.log, m.h.Log = log, log
	for _, body := range bodies {
		m.h.Commands(t, 1, body)
	}
	return m
}

// ends is where the records end in the first file.
func ends(m *model) []int {
	at, all := 112, []int{112}
	for _, r := range m.h.Records {
		at += 16 + record.HeaderBytes + len(r.Body)
		all = append(all, at)
	}
	return all
}

// A body may hold records: of this log, that follow the last one, that a client
// made up. A torn record with such a body is cut like any other, whichever of
// its sectors reached the disk.
//
// proves: T11
func TestT11_RecordsInsideABody(t *testing.T) {
	m := made(t, 16<<10, "one", "two")
	h := m.h
	forged := h.Next(1, "forged")
	forged.Prev, forged.Slot = h.Tip.Sum, h.Slot+1
	whole := record.Append(nil, &forged)
	further := record.Record{Kind: record.KindCommands, First: 4, Last: 9, Slot: 9, Prev: forged.Sum}
	whole = record.Append(whole, &further)
	old := m.h.Records[0]
	whole = record.Append(whole, &old)
	body := strings.Repeat(string(whole), 12)

	var torn []*faultfs.FS
	m.fs.After = func(op faultfs.Op) {
		if op.Kind != faultfs.Write {
			return
		}
		for _, keep := range keeps(1, 300) {
			torn = append(torn, m.fs.Crash(keep))
		}
	}
	m.h.Slot++
	r := m.h.Next(1, body)
	m.h.Encode(&r)
	m.sent = &r
	if err := m.log.Append(m.h.Tip.Sum, m.h.Encode(&r)); err != nil {
		t.Fatal(err)
	}
	cuts := 0
	for i, fs := range torn {
		got, err := m.check(fs)
		if err != nil {
			t.Fatalf("image %d: %v", i, err)
		}
		if got.report.Cut {
			cuts++
		}
	}
	if cuts < 290 {
		t.Errorf("%d of %d images were torn", cuts, len(torn))
	}
}

// One damaged record, and behind it another one that was on its way when the
// system went down: nothing is cut, because the first of them was complete.
//
// proves: T11
func TestT11_DamageBeforeATornRecord(t *testing.T) {
	m := made(t, 16<<10, "one", strings.Repeat("two", 300), strings.Repeat("three", 500))
	m.fs.Kill()
	at := ends(m)
	damages := map[string]func([]byte){
		"the tag of the third stands": func(b []byte) { b[at[1]+200] ^= 1; clear(b[at[2]+100:]) },
		"only its end stands":         func(b []byte) { b[at[1]+200] ^= 1; clear(b[at[2] : at[3]-200]) },
		"both are whole but a bit":    func(b []byte) { b[at[1]+200] ^= 1; b[at[2]+200] ^= 1 },
		"the header is damaged too":   func(b []byte) { clear(b[at[1] : at[1]+90]); clear(b[at[2]+100:]) },
	}
	for name, change := range damages {
		fs := m.fs.Crash(faultfs.Everything)
		fs.Edit(first, func(b []byte) []byte { change(b); return b })
		_, _, err := wal.Open(fs, dir, small())
		var damage *wal.Damage
		if !errors.As(err, &damage) || damage.Offset != int64(at[1]) {
			t.Errorf("%s: %v, want damage at %d", name, err, at[1])
		}
	}
}

// What cannot be the end of a log refuses, wherever it comes from.
//
// proves: T11
func TestT11_Refused(t *testing.T) {
	build := func(sealed bool) *model {
		m := made(t, 2<<10, strings.Repeat("a", 600), strings.Repeat("b", 600), strings.Repeat("c", 900), strings.Repeat("d", 900), "e")
		if sealed {
			if err := m.seal(); err != nil {
				t.Fatal(err)
			}
		}
		m.log.Close()
		m.fs = m.fs.Crash(faultfs.Everything)
		return m
	}
	second, third := dir+"/log-00000000000000000002", dir+"/log-00000000000000000003"
	cases := []struct {
		name   string
		sealed bool
		do     func(fs *faultfs.FS)
		file   string
		says   string
	}{
		{"a file is missing", false, func(fs *faultfs.FS) { fs.Remove(second) }, third, "missing"},
		{"all files are missing", false, func(fs *faultfs.FS) { fs.Remove(first); fs.Remove(second); fs.Remove(third) }, dir, "missing"},
		{"a file was renamed", false, func(fs *faultfs.FS) {
			fs.Rename(second, first)
			fs.Rename(third, second)
		}, first, "renamed"},
		{"a record at the end of an older file is gone", false, func(fs *faultfs.FS) {
			fs.Edit(first, func(b []byte) []byte { clear(b[112+696:]); return b })
		}, first, "goes on behind"},
		{"an older file was cut short", false, func(fs *faultfs.FS) {
			fs.Edit(second, func(b []byte) []byte { return b[:500] })
		}, second, "made with"},
		{"the last file was cut short", false, func(fs *faultfs.FS) {
			fs.Edit(third, func(b []byte) []byte { return b[:112] })
		}, third, "made with"},
		{"the seal was cut off", true, func(fs *faultfs.FS) {
			fs.Edit(third, func(b []byte) []byte { return b[:len(b)-96] })
		}, third, "made with"},
		{"something stands behind the seal", true, func(fs *faultfs.FS) {
			fs.Edit(third, func(b []byte) []byte { return append(b, 0, 0, 1) })
		}, third, "behind the seal"},
		{"an empty file", false, func(fs *faultfs.FS) {
			fs.Edit(third, func(b []byte) []byte { return nil })
		}, third, "header"},
		{"the record before the seal is damaged", true, func(fs *faultfs.FS) {
			fs.Edit(third, func(b []byte) []byte { b[len(b)-97] ^= 1; return b })
		}, third, "another one stands behind it"},
	}
	for _, c := range cases {
		m := build(c.sealed)
		c.do(m.fs)
		for _, readOnly := range []bool{true, false} {
			opt := small()
			opt.ReadOnly = readOnly
			_, _, err := wal.Open(m.fs, dir, opt)
			var damage *wal.Damage
			if !errors.As(err, &damage) || damage.File != c.file || !strings.Contains(err.Error(), c.says) || !errors.Is(err, wal.ErrDamaged) {
				t.Errorf("%s (read only: %v): %v", c.name, readOnly, err)
			}
		}
	}
}

// Records that verify, each by itself, and do not follow each other. They are
// written with the file's own tag, as a log with a bug would.
func TestT11_RecordsThatDoNotFollow(t *testing.T) {
	m := made(t, 4<<10)
	m.h.Slot = 10
	m.h.Append(t, record.Record{Kind: record.KindCommands, First: 1, Last: 3})
	m.log.Close()
	prev := m.h.Tip.Sum
	wrong := map[string]record.Record{
		"slot 9 goes back":   {Kind: record.KindCommands, First: 4, Last: 4, Slot: 9, Prev: prev},
		"LSN 5 leaves":       {Kind: record.KindCommands, First: 5, Last: 5, Slot: 10, Prev: prev},
		"LSN 3 goes back":    {Kind: record.KindJump, First: 3, Last: 3, Slot: 10, Prev: prev},
		"follows the record": {Kind: record.KindCommands, First: 4, Last: 4, Slot: 10},
	}
	for says, r := range wrong {
		b := record.Append(nil, &r)
		fs := m.fs.Crash(faultfs.Everything)
		fs.Edit(first, func(file []byte) []byte {
			at := copy(file[112+96:], file[56:72]) + 112 + 96
			copy(file[at:], b)
			return file
		})
		_, _, err := wal.Open(fs, dir, small())
		if !errors.Is(err, wal.ErrDamaged) || !errors.Is(err, record.ErrChain) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// What a process wrote, and the disk never got, is not taken for durable by the
// next one, however often the disk then says that all is well.
//
// proves: T11
func TestT11_FailedSyncIsNotForgotten(t *testing.T) {
	for _, seal := range []bool{false, true} {
		for spare := range 3 {
			forgotten(t, seal, spare)
		}
	}
}

// forgotten lets the sync of a record fail that leaves so many spare bytes in
// its file. With none it is the sync of the next file that fails.
func forgotten(t *testing.T, seal bool, spare int) {
	t.Helper()
	m := made(t, 4<<10, strings.Repeat("x", 4<<10-112-96-96-spare))
	m.fs.Before = func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Sync {
			return faultfs.Fault{Err: syscall.EIO, Lost: true}
		}
		return faultfs.Fault{}
	}
	next := m.h.Next(1, "")
	if seal {
		next = record.Record{Kind: record.KindSeal, First: 2, Last: 1}
	}
	if err := m.append(next); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	m.fs.Before = nil
	m.fs.Kill()
	got, err := m.check(m.fs)
	if err != nil || !got.report.Rewritten || len(got.records) != min(1+spare, 2) {
		t.Errorf("seal %v, %d spare bytes: %d records, %+v, %v", seal, spare, len(got.records), got.report, err)
	}
	if err := m.twice(m.fs, got); err != nil {
		t.Errorf("seal %v, %d spare bytes: %v", seal, spare, err)
	}
}

// A disk that lies loses what it acknowledged; what is left either opens as the
// beginning of what was written, or is refused.
func TestLyingDisk(t *testing.T) {
	for seed := range 60 {
		m := newModel(faultfs.New())
		m.fs.Before = func(op faultfs.Op) faultfs.Fault {
			lies := op.Kind == faultfs.Sync && op.N > 12
			return faultfs.Fault{Lie: lies}
		}
		if err := errors.Join(m.open(), m.commands(10, 700, 30, 600, 5, 5)); err != nil {
			t.Fatal(err)
		}
		l, report, err := wal.Open(m.fs.Crash(keeps(seed, 1)[2]), dir, small())
		if err != nil {
			if !errors.Is(err, wal.ErrDamaged) {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		n := 0
		for r := range l.Records(0) {
			if r.Sum != m.h.Records[n].Sum {
				t.Errorf("seed %d: record %d is another one", seed, n)
			}
			n++
		}
		if n > len(m.h.Records) || report.Sealed {
			t.Errorf("seed %d: %d records, %+v", seed, n, report)
		}
		l.Close()
	}
}

// Reading only changes nothing and says what would be done.
func TestReadOnly(t *testing.T) {
	m := made(t, 4<<10, "one", "two")
	m.log.Close()
	fs := m.fs.Crash(faultfs.Everything)
	fs.Edit(first, func(b []byte) []byte { copy(b[ends(m)[2]:], "half a record"); return b })
	fs.Create(first + ".tmp")
	opt := small()
	opt.ReadOnly = true
	ops, before := fs.Ops(), contents(t, fs)
	l, report := open(t, fs, dir, opt)
	if !report.Cut || report.CutFile != first || report.CutOffset != int64(ends(m)[2]) || report.CutBytes != 13 || !report.Rewritten {
		t.Errorf("the report is %+v", report)
	}
	logtest.Equal(t, l, 0, m.h.Records)
	if err := m.h.Log.Append(m.h.Tip.Sum, nil); err == nil {
		t.Error("append to a closed log")
	}
	other, _ := open(t, fs, dir, opt)
	if _, _, err := wal.Open(fs, dir, small()); err == nil {
		t.Error("opened for writing beside readers")
	}
	r := m.h.Next(1, "no")
	if l.Append(m.h.Tip.Sum, m.h.Encode(&r)) == nil || l.Trim(2) == nil || l.SaveSnapshot(1, nil) == nil || l.RemoveSnapshot(1) == nil {
		t.Error("something was changed")
	}
	l.Close()
	other.Close()
	if got := fs.Ops(); got > ops+3 { // three locks
		t.Errorf("%d operations", got-ops)
	}
	if !bytes.Equal(contents(t, fs), before) {
		t.Error("something was changed")
	}
	_, again := open(t, fs, dir, small())
	if !again.Cut || again.CutOffset != report.CutOffset || again.CutBytes != report.CutBytes {
		t.Errorf("it was to be %+v, and became %+v", report, again)
	}
}

// contents is everything in the directory.
func contents(t *testing.T, fs wal.FS) []byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, name := range names {
		f, err := fs.Open(filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		b := make([]byte, size)
		f.ReadAt(b, 0)
		f.Close()
		fmt.Fprintf(&all, "%s %d %q\n", name, size, b)
	}
	return all.Bytes()
}

// A snapshot is taken of what was acknowledged. Records that end before one does
// lost acknowledged ones: that is damage, not a record that was in flight.
//
// proves: T11
func TestT11_ASnapshotTellsALostTail(t *testing.T) {
	m := made(t, 16<<10, "one", "two", "three")
	save := func(w io.Writer) error { _, err := io.WriteString(w, "state"); return err }
	if err := m.log.SaveSnapshot(m.h.Tip.Last, save); err != nil {
		t.Fatal(err)
	}
	m.fs.Kill()
	m.fs.Flip(first, 8*(ends(m)[3]-1)) // the last byte of the last record
	for range 2 {                      // the first refusal changed nothing
		_, _, err := wal.Open(m.fs, dir, small())
		var damage *wal.Damage
		if !errors.As(err, &damage) || damage.File != first || !strings.Contains(damage.What, "snapshot") {
			t.Fatalf("opened with %v", err)
		}
	}
}
