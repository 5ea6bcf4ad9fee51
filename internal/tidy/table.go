package tidy

// Module is the path under which the rooms import each other.
const Module = "github.com/tenurehq/tenure"

// InvariantCount is the number of invariants, T1 to T14. It is written here once
// more, so that none can be dropped from the root's doc unnoticed.
const InvariantCount = 14

// Suites are the conformance suites; the numbered cases stand in the first.
var Suites = []string{"enginetest", "journal/logtest"}

// House is the table of floors, bottom up. A new package gets its line here.
var House = []Room{
	// Floor 0: the vocabulary, and a clock for those who may look at one.
	{Path: ".", Floor: 0, Std: true},
	{Path: "internal/clock", Floor: 0},

	// Floor 1: the law, and what the rooms above share.
	{Path: "kernel", Floor: 1, Std: true, May: []string{"."}},
	{Path: "internal/liveness", Floor: 1, Std: true, May: []string{".", "internal/clock"}},
	{Path: "internal/keeper", Floor: 1, May: []string{".", "internal/clock"}},

	// Floor 2: the engines, …
	{Path: "journal", Floor: 2, Kind: Engine, May: []string{".", "kernel", "internal/liveness", "internal/clock", "journal/..."}},
	{Path: "journal/record", Floor: 2, Kind: Engine, May: []string{".", "kernel", "journal/..."}},
	{Path: "journal/memlog", Floor: 2, Kind: Engine, May: []string{".", "kernel", "internal/clock", "journal/..."}},
	{Path: "journal/wal", Floor: 2, Kind: Engine, May: []string{".", "kernel", "internal/clock", "journal/..."}},
	{Path: "database", Floor: 2, Kind: Engine, May: []string{".", "kernel", "internal/clock"}},
	{Path: "kv", Floor: 2, Kind: Engine, May: []string{".", "internal/clock"}},

	// … and the uses.
	{Path: "fence", Floor: 2, Kind: Use, May: []string{"."}},
	{Path: "hold", Floor: 2, Kind: Use, May: []string{".", "internal/clock"}},
	{Path: "hold/holdgrpc", Floor: 2, Kind: Use, May: []string{".", "hold"}},
	{Path: "elect", Floor: 2, Kind: Use, May: []string{".", "hold", "internal/clock"}},
	{Path: "guard", Floor: 2, Kind: Use, May: []string{".", "hold", "internal/clock", "internal/keeper"}},
	{Path: "reconcile", Floor: 2, Kind: Use, May: []string{".", "elect", "internal/clock"}},
	{Path: "queue", Floor: 2, Kind: Use, May: []string{".", "kernel", "hold", "internal/clock"}},

	// Floor 3: the network.
	{Path: "proto/tenure/v1", Floor: 3},
	{Path: "internal/wire", Floor: 3, Down: true, May: []string{"proto/tenure/v1"}},
	{Path: "server", Floor: 3, Down: true, May: []string{"proto/tenure/v1", "internal/wire"}},
	{Path: "client", Floor: 3, Down: true, May: []string{"proto/tenure/v1", "internal/wire"}},
	{Path: "console", Floor: 3, May: []string{".", "server"}},

	// Floor 4: where engines and uses meet.
	{Path: "cmd/tenure", Floor: 4, Down: true},
	{Path: "examples/store", Floor: 4, May: []string{".", "fence"}},

	// Test rooms. Their floor says what they may build on.
	{Path: "internal/tidy", Floor: 0, Kind: Test, Std: true},
	{Path: "internal/testenv", Floor: 0, Kind: Test, Std: true},
	{Path: "internal/testenv/natstest", Floor: 0, Kind: Test, May: []string{"internal/testenv"}},
	{Path: "internal/faultfs", Floor: 2, Kind: Test, May: []string{"journal/..."}},
	{Path: "enginetest", Floor: 1, Kind: Test, May: []string{".", "kernel", "internal/clock", "internal/testenv"}},
	{Path: "journal/logtest", Floor: 2, Kind: Test, May: []string{".", "kernel", "journal/...", "internal/testenv"}},
	{Path: "internal/sim", Floor: 4, Kind: Test, Down: true},
}

// Limits is the budget of every room.
var Limits = Budget{
	File:         600,
	Func:         70,
	TestFunc:     120,
	Methods:      8,
	Nesting:      3,
	PackageNames: []string{"util", "utils", "common", "helper", "helpers", "types", "base", "misc"},
}

// OverBudget lists what is larger than the budget, each with its reason.
var OverBudget = []Exception{}

// Sleeps lists the tests that sleep, each with its reason: "path_test.go:TestName".
var Sleeps = []Exception{}

// KernelPure is what the kernel may use of the standard library.
var KernelPure = Pure{
	Imports: []string{
		"bytes", "cmp", "container/heap", "container/list", "crypto/sha256",
		"encoding/binary", "encoding/hex", "errors", "fmt", "hash", "hash/crc32",
		"hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort",
		"strconv", "strings", "unicode", "unicode/utf8",
	},
	// The kernel may carry a moment that it was given, and never asks for one. It
	// may read and write a snapshot through what it was given, and opens nothing.
	Partly: map[string][]string{
		"io":   {"Reader", "Writer", "EOF", "ErrUnexpectedEOF", "ReadFull", "ReadAtLeast", "WriteString"},
		"time": {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "Time", "UnixMilli", "UnixMicro"},
	},
	Refused: map[string][]string{
		"fmt": {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	},
}
