package wal_test

import (
	"testing"

	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

// An append of a record with a body of 100 bytes, made durable.
func BenchmarkAppend(b *testing.B) {
	l, _ := open(b, wal.OS{}, b.TempDir(), wal.Options{})
	var tip record.Chain
	var buf []byte
	r := record.Record{Kind: record.KindCommands, Body: make([]byte, 100)}
	b.ReportAllocs()
	for b.Loop() {
		r.First, r.Last, r.Prev = tip.Last+1, tip.Last+1, tip.Sum
		buf = record.Append(buf[:0], &r)
		if err := l.Append(tip.Sum, buf); err != nil {
			b.Fatal(err)
		}
		tip = record.Chain{Sum: r.Sum, Last: r.Last}
	}
}

// Opening a journal, per megabyte of records that are verified.
func BenchmarkOpen(b *testing.B) {
	m := made(b, 1<<20)
	for range 256 {
		m.h.Commands(b, 1, string(make([]byte, 4000)))
	}
	m.log.Close()
	b.SetBytes(256 * 4000)
	for b.Loop() {
		opt := small()
		opt.ReadOnly = true
		l, _ := open(b, m.fs, dir, opt)
		l.Close()
	}
}
