package wal_test

import (
	"fmt"
	"os"

	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/record"
	"github.com/tenurehq/tenure/journal/wal"
)

var _ journal.Log = (*wal.Log)(nil)

func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	log, report, err := wal.Open(wal.OS{}, dir, wal.Options{})
	if err != nil {
		panic(err)
	}
	r := record.Record{
		Kind:  record.KindCommands,
		First: report.Tip.Last + 1,
		Last:  report.Tip.Last + 1,
		Prev:  report.Tip.Sum,
		Body:  []byte("a command"),
	}
	fmt.Println(log.Append(r.Prev, record.Append(nil, &r)))
	fmt.Println(log.Close())

	log, report, err = wal.Open(wal.OS{}, dir, wal.Options{ReadOnly: true})
	fmt.Println(report.Tip.Last, report.Sealed, err)
	for r, err := range log.Records(0) {
		fmt.Println(r.Kind, r.First, string(r.Body), err)
	}
	fmt.Println(log.Close())
	// Output:
	// <nil>
	// <nil>
	// 1 false <nil>
	// commands 1 a command <nil>
	// <nil>
}
