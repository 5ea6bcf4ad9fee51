package tidy_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenurehq/tenure/internal/tidy"
)

const module = "example.com/house"

// files are a small repository: path to content.
type files map[string]string

// rule is one small repository and the findings that a check must make in it,
// each given by a part of its text. No wants: nothing may be found.
type rule struct {
	name  string
	files files
	wants []string
}

func check(t *testing.T, rules []rule, run func(*tidy.Tree) []tidy.Finding) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) { compare(t, run(load(t, r.files)), r.wants) })
	}
}

func load(t *testing.T, files files) *tidy.Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, body := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(body)}
	}
	tree, err := tidy.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func compare(t *testing.T, found []tidy.Finding, wants []string) {
	t.Helper()
	left := slices.Clone(found)
	for _, want := range wants {
		i := slices.IndexFunc(left, func(f tidy.Finding) bool { return strings.Contains(f.String(), want) })
		if i < 0 {
			t.Errorf("nothing found like %q in %v", want, found)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, f := range left {
		t.Errorf("found also: %v", f)
	}
}

var small = []tidy.Room{
	{Path: ".", Std: true},
	{Path: "law", Floor: 1, May: []string{"."}},
	{Path: "log", Floor: 2, Kind: tidy.Engine, May: []string{".", "law", "log/..."}},
	{Path: "log/disk", Floor: 2, Kind: tidy.Engine, May: []string{"log/..."}},
	{Path: "hold", Floor: 2, Kind: tidy.Use, May: []string{"."}},
	{Path: "elect", Floor: 2, Kind: tidy.Use, May: []string{".", "hold"}},
	{Path: "logs", Floor: 2, Kind: tidy.Engine},
	{Path: "web", Floor: 3},
	{Path: "net", Floor: 3, Down: true},
	{Path: "fakes", Floor: 0, Kind: tidy.Test, May: []string{"."}},
	{Path: "suite", Floor: 1, Kind: tidy.Test, Down: true, May: []string{"fakes"}},
}

func imports(pkg string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", pkg)
	for _, name := range names {
		fmt.Fprintf(&b, "import _ %q\n", name)
	}
	return b.String()
}

func TestFloors(t *testing.T) {
	check(t, []rule{
		{"down", files{
			"root.go":           imports("house", "time"),
			"law/law.go":        imports("law", module),
			"log/log.go":        imports("log", module+"/law", module+"/log/disk"),
			"elect/elect.go":    imports("elect", module+"/hold", "other.org/thing"),
			"net/net.go":        imports("net", module+"/log", module+"/hold"),
			"suite/suite.go":    imports("suite", module, module+"/fakes"),
			"law/law_test.go":   imports("law_test", module+"/suite", module+"/log"),
			"root_test.go":      imports("house_test", "other.org/thing"),
			"bench/b/b.go":      imports("b", module+"/nowhere"),
			"law/testdata/x.go": imports("x", module+"/net"),
		}, nil},
		{"up", files{"law/law.go": imports("law", "time", module+"/net")}, []string{"law/law.go:3: imports example.com/house/net: it stands on floor 3, above law on floor 1"}},
		{"root outside the standard library", files{"root.go": imports("house", "other.org/thing")}, []string{"standard library only"}},
		{"use and engine", files{"hold/hold.go": imports("hold", module+"/log")}, []string{"uses and engines never"}},
		{"engine and use", files{"log/log.go": imports("log", module+"/hold")}, []string{"uses and engines never"}},
		{"sideways", files{"hold/hold.go": imports("hold", module+"/elect")}, []string{"the table allows hold only ."}},
		{"down, not allowed", files{"hold/hold.go": imports("hold", module+"/law")}, []string{"the table allows hold only ."}},
		{"beside", files{"net/net.go": imports("net", module+"/web")}, []string{"the table allows net only lower floors"}},
		{"another family", files{"log/log.go": imports("log", module+"/logs")}, []string{"the table allows log only ., law, log/..."}},
		{"test room in production", files{"net/net.go": imports("net", module+"/fakes")}, []string{"for tests only"}},
		{"package without a floor", files{"new/new.go": imports("new"), "new/more.go": imports("new")}, []string{"new: this package is not in the table: give it a floor in internal/tidy"}},
		{"import without a floor", files{"net/net.go": imports("net", module+"/new")}, []string{"not in the table"}},
		{"cgo", files{"log/log.go": imports("log", "C")}, []string{"without cgo"}},
	}, func(tree *tidy.Tree) []tidy.Finding { return tidy.Floors(tree, module, small) })
}

func TestTableOfFloors(t *testing.T) {
	empty := load(t, files{"README.md": ""})
	for _, c := range []struct {
		name  string
		house []tidy.Room
		want  string
	}{
		{"twice", []tidy.Room{{Path: "a"}, {Path: "a"}}, "listed twice"},
		{"up", []tidy.Room{{Path: "a", Floor: 2}, {Path: "b", Floor: 1, May: []string{"a"}}}, "imports go down"},
		{"cycle", []tidy.Room{{Path: "a", May: []string{"b"}}, {Path: "b", May: []string{"a"}}}, "not list further up"},
		{"feud", []tidy.Room{{Path: "a", Kind: tidy.Use}, {Path: "b", Kind: tidy.Engine, May: []string{"a"}}}, "never import each other"},
		{"test room", []tidy.Room{{Path: "a", Kind: tidy.Test}, {Path: "b", May: []string{"a"}}}, "tests only"},
	} {
		t.Run(c.name, func(t *testing.T) { compare(t, tidy.Floors(empty, module, c.house), []string{c.want}) })
	}
}

var budget = tidy.Budget{File: 200, Func: 10, TestFunc: 15, Methods: 2, Nesting: 3, PackageNames: []string{"util"}}

func function(name string, lines int) string {
	return "func " + name + "() {\n" + strings.Repeat("\tprintln()\n", lines-2) + "}\n"
}

// table is a function whose switch has n cases with body in each, and rest lines
// before it.
func table(n, rest int, body string) string {
	return "package a\nfunc f(x int) {\n" + strings.Repeat("println()\n", rest) +
		"switch x {\n" + strings.Repeat("case 0:\n"+body, n) + "}\n}\n"
}

func TestBudgets(t *testing.T) {
	check(t, []rule{
		{"within", files{
			"a.go":      "package a\n" + function("f", 10) + "func (x *T[K]) m() {}\ntype T[K any] struct{}\n",
			"a_test.go": "package a\n" + function("f", 15),
			"full.go":   "package a\n" + strings.Repeat("\n", 199),
		}, nil},
		{"file", files{"a.go": "package a\n" + strings.Repeat("\n", 200)}, []string{"a.go: 201 lines, at most 200"}},
		{"test file", files{"a_test.go": "package a\n" + strings.Repeat("\n", 200)}, []string{"201 lines"}},
		{"function", files{"a.go": "package a\n" + function("(t T) f", 11)}, []string{"a.go:2: T.f has 11 lines, at most 10"}},
		{"test function", files{"a_test.go": "package a\n" + function("f", 16)}, []string{"16 lines, at most 15"}},
		{"literal", files{"a.go": "package a\nvar f = " + function("", 11)}, []string{"func literal has 11 lines"}},
		{"generated", files{"a.go": "// Code generated by hand. DO NOT EDIT.\n\npackage util\n" + function("f", 300)}, nil},
		{"flat switch", files{"a.go": table(20, 3, "println()\nif x > 0 {\nprintln()\n}\n")}, nil},
		{"switch with a loop", files{"a.go": table(20, 3, "for {\n}\n")}, []string{"f has"}},
		{"switch with deep ifs", files{"a.go": table(20, 3, "if x > 0 {\nif x > 1 {\n}\n}\n")}, []string{"f has"}},
		{"switch with a large case", files{"a.go": table(5, 3, strings.Repeat("println()\n", 10))}, []string{"f has"}},
		{"switch with much around it", files{"a.go": table(5, 25, "println()\n")}, []string{"f has"}},
		{"two switches", files{"a.go": "package a\nfunc f(x int) {\nswitch x {\n}\n" + strings.TrimPrefix(table(10, 0, "println()\n"), "package a\nfunc f(x int) {\n")}, []string{"f has"}},
		{"interface", files{"a.go": "package a\ntype I interface { A(); B(); C() }\n"}, []string{"interface I has 3 methods, at most 2"}},
		{"interface by embedding", files{"a.go": "package a\ntype I interface { J; fmt.Stringer }\n", "b.go": "package a\ntype J interface { A(); B() }\n"}, []string{"interface I has 3"}},
		{"constraint", files{"a.go": "package a\ntype I interface { ~int | ~string }\n"}, nil},
		{"nesting", files{"a.go": "package a\nfunc f() { for { switch { case true: if true { select {} } } } }\n"}, []string{"a.go:2: f nests deeper than 3"}},
		{"nesting under else", files{"a.go": "package a\nfunc f() { if true {} else { if true { for { for {} } } } }\n"}, []string{"f nests"}},
		{"else if", files{"a.go": "package a\nfunc f() { if true {} else if true {} else if true { for { for {} } } }\n"}, nil},
		{"literal begins anew", files{"a.go": "package a\nfunc f() { for { for { if true { func() { for { if true {} } }() } } } }\n"}, nil},
		{"name", files{"a.go": "package util\n", "a_test.go": "package util_test\n"}, []string{`a.go: a package named "util"`, `a_test.go: a package named "util"`}},
		{"directory", files{"util/a.go": "package a\n"}, []string{`named "util"`}},
	}, func(tree *tidy.Tree) []tidy.Finding { return tidy.Budgets(tree, budget) })
}

func TestExceptions(t *testing.T) {
	tree := load(t, files{"a.go": "package a\n" + function("f", 11) + function("g", 12)})
	for _, c := range []struct {
		name       string
		exceptions []tidy.Exception
		wants      []string
	}{
		{"one", []tidy.Exception{{Rule: "func", Subject: "a.go:f", Why: "a reason"}}, []string{"g has 12"}},
		{"no reason", []tidy.Exception{{Rule: "func", Subject: "a.go:f"}}, []string{"g has 12", "gives no reason"}},
		{"not needed", []tidy.Exception{{Rule: "func", Subject: "a.go:h", Why: "a reason"}}, []string{"f has 11", "g has 12", "a.go:h is no longer needed"}},
		{"other rule", []tidy.Exception{{Rule: "nesting", Subject: "a.go:f", Why: "a reason"}}, []string{"f has 11", "g has 12", "no longer needed"}},
	} {
		t.Run(c.name, func(t *testing.T) { compare(t, tidy.Except(tidy.Budgets(tree, budget), c.exceptions), c.wants) })
	}
}

func law(body string, names ...string) files {
	var b strings.Builder
	b.WriteString("package law\n")
	for _, name := range names {
		fmt.Fprintf(&b, "import %q\n", name)
	}
	return files{
		"root.go":    "package house\ntype Table map[string]int\ntype Row struct { By map[int]int }\n",
		"law/law.go": b.String() + body,
	}
}

func TestPurity(t *testing.T) {
	std := importer.ForCompiler(token.NewFileSet(), "source", nil)
	const excuse = " //tidy:order-free adds up\n"
	check(t, []rule{
		{"pure", law("func f(s []int, d time.Duration) string { for range s {}; for range 3 {}; for range slices.Sorted(maps.Keys(map[int]int{})) {}; d += time.Second; return fmt.Sprint(d) }", "fmt", "maps", "slices", "time"), nil},
		{"no room", files{"root.go": "package house\n"}, []string{"law: there is no such package"}},
		{"its tests", files{"law/law.go": "package law\n", "law/law_test.go": "package law\nimport \"os\"\nfunc f() { go os.Exit(1) }\n"}, nil},
		{"now", law("var x = time.Now", "time"), []string{"law/law.go:3: uses time.Now"}},
		{"now under another name", files{"law/law.go": "package law\nimport clock \"time\"\nvar x = clock.Since\n"}, []string{"uses time.Since"}},
		{"timer", law("var x *time.Timer", "time"), []string{"uses time.Timer"}},
		{"world", law("var _ = os.Args; var _ sync.Mutex; var _ = rand.Int", "os", "sync", "math/rand"), []string{"imports os,", "imports sync,", "imports math/rand,"}},
		{"outside", law("", "other.org/thing"), []string{"imports other.org/thing"}},
		{"dot import", files{"law/law.go": "package law\nimport . \"time\"\nvar x = Now\n"}, []string{"dot import"}},
		{"printing", law("func f() { fmt.Println(); println() }", "fmt"), []string{"uses fmt.Println", "prints"}},
		{"goroutine", law("func f() { go f() }"), []string{"starts a goroutine"}},
		{"select", law("func f() { select {} }"), []string{"selects"}},
		{"channels", law("var c chan int\nfunc f() { c <- 1; <-c; for range c {} }"), []string{"channel type", "sends", "receives", "ranges over a channel"}},
		{"map", law("func f() { m := map[int]int{}\nfor range m {} }"), []string{"law/law.go:3: ranges over a map"}},
		{"map of another room", law("func f(x house.Table, y house.Row) {\nfor range x {}\nfor range y.By {} }", module), []string{"law.go:4: ranges over a map", "law.go:5: ranges over a map"}},
		{"map from the standard library", law("func f(m map[int]int) { for range maps.Clone(m) {} }", "maps"), []string{"ranges over a map"}},
		{"map by parameter", law("func f[M ~map[int]int](m M) { for range m {} }"), []string{"ranges over a map"}},
		{"keys unsorted", law("func f(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }", "maps", "slices"), []string{"uses maps.Keys"}},
		{"order-free", law("func f(m map[int]int) {\nfor range m {" + excuse + "}\n}\n"), nil},
		{"order-free without a reason", law("func f(m map[int]int) {\nfor range m { //tidy:order-free\n}\n}\n"), []string{"has to say why", "ranges over a map"}},
		{"order-free for nothing", law("func f(m []int) {\nfor range m {" + excuse + "}\n}\n"), []string{"law.go:3: this order-free comment excuses nothing"}},
		{"unknown type", law("func f() { for range unknown() {} }"), []string{"cannot be told"}},
	}, func(tree *tidy.Tree) []tidy.Finding { return tidy.Purity(tree, module, "law", tidy.KernelPure, std) })
}
