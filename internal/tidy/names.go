package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// proves matches a line that says what the function below it proves.
var proves = regexp.MustCompile(`^//\s*proves:\s*(.*)$`)

var (
	number    = regexp.MustCompile(`^[TE][1-9][0-9]*$`)
	statement = regexp.MustCompile(`(?m)^\s*[-*]\s+\**(T[1-9][0-9]*)\b\**[ .]`)
	testName  = regexp.MustCompile(`^(?:Test|Fuzz)([TE][1-9][0-9]*)(?:_|$)`)
)

// Names tells which invariants are stated, which conformance cases are declared,
// and which of both a test names.
type Names struct {
	Stated   []string          // T1, T2, … of the root's doc.go, in its order
	Declared []string          // E1, E2, … of the suite, in the order of its files
	Proved   map[string]string // T1 or E1: the first test that names it, "file:Test"
}

// NamesOf reads the names. The cases are the struct literals with an ID field in
// the room suite. A test names what it proves with TestT6_… or in a line
// "// proves: T6, E17" of the comment directly above it; in a conformance suite,
// whose cases are not test functions, such a line may stand above anything.
func NamesOf(t *Tree, suites []string) (Names, []Finding) {
	n := Names{Proved: map[string]string{}}
	var found []Finding
	for _, s := range t.Go {
		if s.Path == "doc.go" {
			for _, m := range statement.FindAllStringSubmatch(s.File.Doc.Text(), -1) {
				n.Stated = append(n.Stated, m[1])
			}
		}
		if len(suites) > 0 && s.Dir() == suites[0] {
			n.Declared = append(n.Declared, declaredCases(s)...)
		}
		found = append(found, n.readTests(t, s, slices.Contains(suites, s.Dir()))...)
	}
	return n, found
}

// Invariants finds what is wrong with the names: fewer or more invariants than
// the constitution has, one that no test names, a case numbered twice or a number
// left out, and a test that names something that does not exist.
func Invariants(n Names, invariants int) []Finding {
	var found []Finding
	for i := 1; i <= max(invariants, len(n.Stated)); i++ {
		id := "T" + strconv.Itoa(i)
		switch {
		case i > invariants || i > len(n.Stated) || n.Stated[i-1] != id:
			return append(found, Finding{Path: "doc.go", Message: fmt.Sprintf("states %s, not T1 to T%d in their order", list(n.Stated), invariants)})
		case n.Proved[id] == "":
			found = append(found, Finding{Path: "doc.go", Message: "no test names " + id + `: give the one that proves it the line "// proves: ` + id + `"`})
		}
	}
	return found
}

// Cases finds numbers of the suite that are used twice or left out.
func Cases(n Names, suite string) []Finding {
	if len(n.Declared) == 0 {
		return []Finding{{Path: suite, Message: `declares no case (a struct literal with ID: "E1")`}}
	}
	var found []Finding
	count := map[int]int{}
	highest := 0
	for _, id := range n.Declared {
		i, err := strconv.Atoi(id[1:])
		if err != nil {
			continue // number has matched
		}
		count[i]++
		highest = max(highest, i)
	}
	for i := 1; i <= highest; i++ {
		switch count[i] {
		case 0:
			found = append(found, Finding{Path: suite, Message: fmt.Sprintf("E%d is left out", i)})
		case 1:
		default:
			found = append(found, Finding{Path: suite, Message: fmt.Sprintf("E%d is used for %d cases", i, count[i])})
		}
	}
	return found
}

// Unknown finds tests that name an invariant or a case that does not exist.
func Unknown(n Names) []Finding {
	var found []Finding
	for _, id := range slices.Sorted(maps.Keys(n.Proved)) {
		if !slices.Contains(n.Stated, id) && !slices.Contains(n.Declared, id) {
			file, _, _ := strings.Cut(n.Proved[id], ":")
			found = append(found, Finding{Path: file, Message: fmt.Sprintf("%s names %s, which is stated nowhere", n.Proved[id], id)})
		}
	}
	return found
}

func declaredCases(s *Source) []string {
	var ids []string
	ast.Inspect(s.File, func(n ast.Node) bool {
		field, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isID := field.Key.(*ast.Ident)
		value, isText := field.Value.(*ast.BasicLit)
		if !isID || !isText || key.Name != "ID" {
			return true
		}
		if id, err := strconv.Unquote(value.Value); err == nil && strings.HasPrefix(id, "E") && number.MatchString(id) {
			ids = append(ids, id)
		}
		return true
	})
	return ids
}

// readTests collects what the tests of one file name.
func (n *Names) readTests(t *Tree, s *Source, suite bool) []Finding {
	above := map[*ast.CommentGroup]string{}
	for _, decl := range s.File.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !s.Test || !isTest(f.Name.Name) {
			continue
		}
		if m := testName.FindStringSubmatch(f.Name.Name); m != nil {
			n.prove(m[1], s.Path+":"+f.Name.Name)
		}
		if f.Doc != nil {
			above[f.Doc] = f.Name.Name
		}
	}
	var found []Finding
	for _, group := range s.File.Comments {
		test, ok := above[group]
		if suite && !ok {
			test, ok = "a case", true
		}
		for _, c := range group.List {
			m := proves.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			at := Finding{Path: s.Path, Line: t.line(c.Pos())}
			if !ok {
				at.Message = "says what it proves, but does not stand directly above a test"
				found = append(found, at)
				continue
			}
			found = append(found, n.readList(m[1], s.Path+":"+test, at)...)
		}
	}
	return found
}

func (n *Names) readList(ids, test string, at Finding) []Finding {
	var found []Finding
	for id := range strings.SplitSeq(ids, ",") {
		id = strings.TrimSpace(id)
		if !number.MatchString(id) {
			at.Message = fmt.Sprintf("proves %q: want T1 or E1, separated by commas", id)
			found = append(found, at)
			continue
		}
		n.prove(id, test)
	}
	return found
}

func (n *Names) prove(id, test string) {
	if n.Proved[id] == "" {
		n.Proved[id] = test
	}
}

// isTest is go test's own rule for the names it runs, benchmarks left out.
func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			r, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(r)
		}
	}
	return false
}

// Waits finds tests that sleep instead of waiting for what they wait for, and
// tests that skip themselves: only the room allowed to may do that, so that a
// tool that is missing fails where everything is required. A sleep written inside
// a call of synctest.Test takes no time, and is how such a test lets time pass.
func Waits(t *Tree, maySkip string) []Finding {
	var found []Finding
	for _, s := range t.Go {
		visit(s.File, func(n ast.Node, stack []ast.Node) {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return
			}
			of, ok := sel.X.(*ast.Ident)
			if !ok {
				return
			}
			at := Finding{Path: s.Path, Line: t.line(n.Pos()), Subject: s.Path + ":" + enclosing(stack)}
			switch name := sel.Sel.Name; {
			case s.Test && name == "Sleep" && imported(s.File, of.Name) == "time" && !inBubble(s.File, stack):
				at.Rule, at.Message = "sleep", enclosing(stack)+" sleeps: use testing/synctest, an injected clock or a signal"
				found = append(found, at)
			case (name == "Skip" || name == "Skipf" || name == "SkipNow") && !inFamily(s.Dir(), maySkip) && isTestingT(of.Name, stack):
				at.Message = enclosing(stack) + " skips: use testenv.Need, which fails where everything is required"
				found = append(found, at)
			}
		})
	}
	return found
}

func inBubble(f *ast.File, stack []ast.Node) bool {
	return slices.ContainsFunc(stack, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Test" {
			return false
		}
		of, ok := sel.X.(*ast.Ident)
		return ok && imported(f, of.Name) == "testing/synctest"
	})
}

// imported returns what a package name in a file stands for.
func imported(f *ast.File, name string) string {
	for _, spec := range f.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(full)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == name {
			return full
		}
	}
	return ""
}

// isTestingT says whether a name is a parameter of a type of package testing;
// that of rapid, whose Skip drops one random history, is not.
func isTestingT(name string, stack []ast.Node) bool {
	for _, n := range slices.Backward(stack) {
		var params *ast.FieldList
		switch f := n.(type) {
		case *ast.FuncDecl:
			params = f.Type.Params
		case *ast.FuncLit:
			params = f.Type.Params
		default:
			continue
		}
		if of := paramType(params, name); of != nil {
			return fromTesting(of)
		}
	}
	return false
}

func paramType(params *ast.FieldList, name string) ast.Expr {
	for _, field := range params.List {
		if slices.ContainsFunc(field.Names, func(id *ast.Ident) bool { return id.Name == name }) {
			return field.Type
		}
	}
	return nil
}

func fromTesting(of ast.Expr) bool {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	sel, ok := of.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "testing"
}

func list(ids []string) string {
	if len(ids) == 0 {
		return "no invariant"
	}
	return strings.Join(ids, ", ")
}
