package tidy_test

import (
	"testing"

	"github.com/tenurehq/tenure/internal/tidy"
)

const stated = "// Package house has rules.\n//\n//   - T1 First. T2 is another.\n//     T9 is not stated.\n//   - T2 Second.\npackage house\n"

func TestInvariants(t *testing.T) {
	proved := "package house\nimport \"testing\"\n// proves: T1, T2\nfunc TestBoth(t *testing.T) {}\n"
	check(t, []rule{
		{"named by a comment", files{"doc.go": stated, "a_test.go": proved}, nil},
		{"named by its name", files{"doc.go": stated, "a_test.go": "package house\nfunc TestT1_First(t *testing.T) {}\nfunc FuzzT2(f *testing.F) {}\n"}, nil},
		{"not named", files{"doc.go": stated, "a_test.go": "package house\n// proves: T1\nfunc TestOne(t *testing.T) {}\n"}, []string{"no test names T2"}},
		{"T10 is not T1", files{"doc.go": stated, "a_test.go": "package house\n// proves: T2\nfunc TestT10_Other(t *testing.T) {}\n"}, []string{"no test names T1"}},
		{"a longer word is not T1", files{"doc.go": stated, "a_test.go": "package house\n// proves: T2\nfunc TestT1st(t *testing.T) {}\n"}, []string{"no test names T1"}},
		{"named outside of a test", files{"doc.go": stated, "a_test.go": proved, "a.go": "package house\n// proves: T1\nfunc TestLike() {}\n"}, []string{"a.go:2: says what it proves, but does not stand directly above a test"}},
		{"not a test", files{"doc.go": stated, "a_test.go": proved + "// proves: T1\nfunc Testing() {}\n"}, []string{"does not stand directly above"}},
		{"not directly above", files{"doc.go": stated, "a_test.go": "package house\n// proves: T1, T2\n\nfunc TestBoth(t *testing.T) {}\n"}, []string{"does not stand directly above", "no test names T1", "no test names T2"}},
		{"not a list", files{"doc.go": stated, "a_test.go": proved + "// proves: T1 and T2\nfunc TestMore(t *testing.T) {}\n"}, []string{`proves "T1 and T2": want T1 or E1`}},
		{"in a suite", files{"doc.go": stated, "suite/cases.go": "package suite\nvar cases = []Case{\n\t// proves: T1, T2\n\t{ID: \"E1\"},\n}\n"}, nil},
		{"one dropped", files{"doc.go": "// - T1 First.\npackage house\n", "a_test.go": proved}, []string{"states T1, not T1 to T2"}},
		{"one added", files{"doc.go": "// - T1 First.\n// - T2 Second.\n// - T3 Third.\npackage house\n", "a_test.go": proved}, []string{"states T1, T2, T3, not T1 to T2"}},
		{"no doc", files{"a_test.go": proved}, []string{"states no invariant"}},
	}, func(tree *tidy.Tree) []tidy.Finding {
		names, misplaced := tidy.NamesOf(tree, []string{"suite"})
		return append(misplaced, tidy.Invariants(names, 2)...)
	})
}

func TestCases(t *testing.T) {
	check(t, []rule{
		{"numbered", files{"suite/a.go": `package suite; var a = []Case{{ID: "E1"}, {ID: "E3"}}`, "suite/b.go": `package suite; var b = Case{ID: "E2", Name: "E9"}`}, nil},
		{"twice", files{"suite/a.go": `package suite; var a = []Case{{ID: "E1"}, {ID: "E1"}}`}, []string{"E1 is used for 2 cases"}},
		{"left out", files{"suite/a.go": `package suite; var a = []Case{{ID: "E1"}, {ID: "E3"}}`}, []string{"E2 is left out"}},
		{"elsewhere", files{"a.go": `package house; var a = []Case{{ID: "E1"}}`}, []string{"declares no case"}},
		{"unknown", files{
			"suite/a.go": `package suite; var a = []Case{{ID: "E1"}}`,
			"a_test.go":  "package house\n// proves: E1, E2, T3\nfunc TestOne(t *testing.T) {}\n",
		}, []string{"a_test.go: a_test.go:TestOne names E2, which is stated nowhere", "names T3"}},
	}, func(tree *tidy.Tree) []tidy.Finding {
		names, _ := tidy.NamesOf(tree, []string{"suite"})
		return append(tidy.Cases(names, "suite"), tidy.Unknown(names)...)
	})
}

func TestWaits(t *testing.T) {
	check(t, []rule{
		{"sleep", files{"a_test.go": "package a\nimport \"time\"\nfunc TestA() { time.Sleep(1) }\n"}, []string{"a_test.go:3: TestA sleeps"}},
		{"sleep under another name", files{"a_test.go": "package a\nimport clock \"time\"\nvar x = clock.Sleep\n"}, []string{"sleeps"}},
		{"another Sleep", files{"a_test.go": "package a\nfunc TestA() { clock.Sleep(1) }\n"}, nil},
		{"sleep in a bubble", files{"a_test.go": "package a\nimport \"time\"\nimport \"testing/synctest\"\nfunc TestA() { synctest.Test(t, func() { time.Sleep(1) }) }\n"}, nil},
		{"sleep after a bubble", files{"a_test.go": "package a\nimport \"time\"\nimport \"testing/synctest\"\nfunc TestA() { synctest.Test(t, nil); synctest.Wait(time.Sleep) }\n"}, []string{"TestA sleeps"}},
		{"sleep in production", files{"a.go": "package a\nimport \"time\"\nvar x = time.Sleep\n"}, nil},
		{"skip", files{"a_test.go": "package a\nfunc TestA(t *testing.T) { func() { t.Skipf(\"\") }() }\n"}, []string{"a_test.go:2: TestA skips"}},
		{"skip in a suite", files{"suite/a.go": "package suite\nfunc Run(tb testing.TB) { tb.SkipNow() }\n"}, []string{"Run skips"}},
		{"skip of a random history", files{"a_test.go": "package a\nfunc TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }\n"}, nil},
		{"skip where it may", files{"env/deep/a.go": "package deep\nfunc Need(t testing.TB) { t.Skip() }\n"}, nil},
	}, func(tree *tidy.Tree) []tidy.Finding { return tidy.Waits(tree, "env") })
}

func TestWords(t *testing.T) {
	later := "TO" + "DO"
	shared, work := "../"+"shared/x.md", "/"+"work/main"
	check(t, []rule{
		{"clean", files{"a.go": "package a // to do, todos, PREFIXME\n", "README.md": "homework/ and a/" + "work/ are fine"}, nil},
		{"comment", files{"a.go": "package a\n// " + later + ": more\n"}, []string{"a.go:2: " + later}},
		{"panic", files{"a.go": "package a\nfunc f() { panic(\"" + later + "\") }\n"}, []string{"a.go:2"}},
		{"script", files{"scripts/test": "#!/bin/bash\n# " + "FIX" + "ME\n"}, []string{"scripts/test:2"}},
		{"other modules", files{"bench/a.go": "package a // " + later}, []string{"bench/a.go:1"}},
		{"shared", files{"docs/a.md": "see " + shared}, []string{"docs/a.md:1: mentions"}},
		{"absolute", files{"a.go": "package a\nconst x = \"" + work + "\"\n"}, []string{"a.go:2: mentions"}},
		{"at the start of a line", files{"a.md": "x\n" + work}, []string{"a.md:"}},
	}, func(tree *tidy.Tree) []tidy.Finding { return append(tidy.Later(tree), tidy.Outside(tree)...) })
}

func TestLinks(t *testing.T) {
	check(t, []rule{
		{"good", files{
			"README.md":             "# Top\n[a](docs/a.md) [b](docs/a.md#the-law-and-more) [c](https://x.org/y) [d](#top) [e](docs)\n`[f](nowhere.md)`\n```\n[g](nowhere.md)\n```\n[h]: docs/a.md\n",
			"docs/a.md":             "## The `law`, and more\n[up](../README.md) [test](../kernel/testdata)",
			"kernel/testdata/x.txt": "",
		}, nil},
		{"no such file", files{"README.md": "x\n[a](docs/b.md)"}, []string{"README.md:2: links to docs/b.md: no such file"}},
		{"after a code block", files{"README.md": "~~~\n```\n~~~\n[a](b.md)"}, []string{"README.md:4"}},
		{"no such heading", files{"README.md": "# Top\n[a](#bottom)"}, []string{"no such heading"}},
		{"no such reference", files{"README.md": "[a]: b.md"}, []string{"no such file"}},
		{"absolute", files{"README.md": "[a](/README.md)"}, []string{"is relative"}},
	}, tidy.Links)
}

func TestReadme(t *testing.T) {
	check(t, []rule{
		{"good", files{"README.md": "run ./scripts/test"}, nil},
		{"none", files{"docs/README.md": "run ./scripts/test"}, []string{"README.md: there is none"}},
		{"no test", files{"README.md": "run go test"}, []string{"does not name ./scripts/test"}},
	}, tidy.Readme)
}
