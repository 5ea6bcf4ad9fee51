package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Budget is how much of a thing a reader is asked to hold at once.
type Budget struct {
	File         int // lines
	Func         int // lines, from "func" to the closing brace
	TestFunc     int // the same in _test.go files
	Methods      int // of an interface
	Nesting      int
	PackageNames []string // names that say nothing, and are therefore refused
}

// Budgets finds what is larger than the budget. Generated files are exempt.
func Budgets(t *Tree, b Budget) []Finding {
	var found []Finding
	for _, s := range t.Go {
		if s.Generated {
			continue
		}
		found = append(found, b.checkFile(s)...)
		found = append(found, b.checkFuncs(t, s)...)
		found = append(found, b.checkInterfaces(t, s)...)
		found = append(found, b.checkNesting(t, s)...)
	}
	return found
}

func (b Budget) checkFile(s *Source) []Finding {
	var found []Finding
	if n := lines(s.Body); n > b.File {
		found = append(found, Finding{Path: s.Path, Rule: "file", Subject: s.Path,
			Message: fmt.Sprintf("%d lines, at most %d", n, b.File)})
	}
	for _, name := range []string{strings.TrimSuffix(s.File.Name.Name, "_test"), path.Base(s.Dir())} {
		if slices.Contains(b.PackageNames, name) {
			return append(found, Finding{Path: s.Path, Rule: "package", Subject: s.Dir(),
				Message: fmt.Sprintf("a package named %q says nothing about what it is for", name)})
		}
	}
	return found
}

// checkFuncs measures declared functions, and literals that stand outside of
// one; a literal inside a function counts as lines of that function.
func (b Budget) checkFuncs(t *Tree, s *Source) []Finding {
	most := b.Func
	if s.Test {
		most = b.TestFunc
	}
	var found []Finding
	ast.Inspect(s.File, func(n ast.Node) bool {
		name, body := "", (*ast.BlockStmt)(nil)
		switch f := n.(type) {
		case *ast.FuncDecl:
			name, body = funcName(f), f.Body
		case *ast.FuncLit:
			name, body = "func literal", f.Body
		}
		if body == nil {
			return true
		}
		if n := t.span(n); n > most && !t.flat(body) {
			found = append(found, Finding{Path: s.Path, Line: t.line(body.Pos()), Rule: "func", Subject: s.Path + ":" + name,
				Message: fmt.Sprintf("%s has %d lines, at most %d", name, n, most)})
		}
		return false
	})
	return found
}

// The parts of a flat switch, in lines.
const (
	flatCase = 10 // one case
	flatRest = 20 // everything around the switch
)

// flat says whether a function may be long because it is a flat switch: its body
// holds exactly one switch or type switch as a statement of its own, the rest of
// the function is at most 20 lines, and each case is at most 10 lines without a
// loop, a select, a further switch, a function literal, or an if inside an if.
func (t *Tree) flat(body *ast.BlockStmt) bool {
	var table *ast.BlockStmt
	for _, stmt := range body.List {
		var inner *ast.BlockStmt
		switch s := stmt.(type) {
		case *ast.SwitchStmt:
			inner = s.Body
		case *ast.TypeSwitchStmt:
			inner = s.Body
		}
		if inner != nil && table != nil {
			return false
		}
		if inner != nil {
			table = inner
		}
	}
	if table == nil || t.span(body)-t.span(table) > flatRest {
		return false
	}
	return !slices.ContainsFunc(table.List, func(c ast.Stmt) bool {
		return t.span(c) > flatCase || !flatClause(c)
	})
}

func flatClause(clause ast.Stmt) bool {
	flat := true
	visit(clause, func(n ast.Node, stack []ast.Node) {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
			flat = false
		case *ast.IfStmt:
			flat = flat && depth(n, stack) == 1
		}
	})
	return flat
}

func (b Budget) checkInterfaces(t *Tree, s *Source) []Finding {
	var found []Finding
	ast.Inspect(s.File, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if n := t.methods(s, spec, 0); n > b.Methods {
			found = append(found, Finding{Path: s.Path, Line: t.line(spec.Pos()), Rule: "interface", Subject: s.Path + ":" + spec.Name.Name,
				Message: fmt.Sprintf("interface %s has %d methods, at most %d", spec.Name.Name, n, b.Methods)})
		}
		return true
	})
	return found
}

// methods counts the methods of an interface. One embedded from the same room is
// counted by its own methods, one from elsewhere as a single method.
func (t *Tree) methods(s *Source, spec *ast.TypeSpec, deep int) int {
	face, ok := spec.Type.(*ast.InterfaceType)
	if !ok || deep > 8 { // deep: an interface that embeds itself does not compile, but parses
		return 0
	}
	count := 0
	for _, field := range face.Methods.List {
		if len(field.Names) > 0 {
			count += len(field.Names)
			continue
		}
		switch embedded := field.Type.(type) {
		case *ast.SelectorExpr:
			count++
		case *ast.Ident:
			if other := t.typeSpec(s.Dir(), embedded.Name); other != nil {
				count += t.methods(s, other, deep+1)
			}
		}
	}
	return count
}

func (t *Tree) typeSpec(dir, name string) *ast.TypeSpec {
	for _, s := range t.Room(dir) {
		for _, decl := range s.File.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			i := slices.IndexFunc(group.Specs, func(x ast.Spec) bool { return x.(*ast.TypeSpec).Name.Name == name })
			if i >= 0 {
				return group.Specs[i].(*ast.TypeSpec)
			}
		}
	}
	return nil
}

func (b Budget) checkNesting(t *Tree, s *Source) []Finding {
	var found []Finding
	visit(s.File, func(n ast.Node, stack []ast.Node) {
		// One finding for each place, not one more for everything below it.
		if depth(n, stack) != b.Nesting+1 {
			return
		}
		name := enclosing(stack)
		found = append(found, Finding{Path: s.Path, Line: t.line(n.Pos()), Rule: "nesting", Subject: s.Path + ":" + name,
			Message: fmt.Sprintf("%s nests deeper than %d", name, b.Nesting)})
	})
	return found
}

// depth counts the if, for, switch and select statements that a statement stands
// in, itself included; 0 for any other node. An "else if" is as deep as its if,
// and a function literal begins at 0 again.
func depth(n ast.Node, stack []ast.Node) int {
	if !deepens(n, stack) {
		return 0
	}
	count := 1
	for i, outer := range slices.Backward(stack) {
		if _, ok := outer.(*ast.FuncLit); ok {
			break
		}
		if deepens(outer, stack[:i]) {
			count++
		}
	}
	return count
}

func deepens(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return true
	case *ast.IfStmt:
		if len(stack) == 0 {
			return true
		}
		outer, ok := stack[len(stack)-1].(*ast.IfStmt)
		return !ok || outer.Else != n
	}
	return false
}

// visit walks a syntax tree and passes each node with the nodes it stands in,
// outermost first.
func visit(root ast.Node, see func(n ast.Node, stack []ast.Node)) {
	var stack []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		see(n, stack)
		stack = append(stack, n)
		return true
	})
}

func enclosing(stack []ast.Node) string {
	for _, n := range stack {
		if f, ok := n.(*ast.FuncDecl); ok {
			return funcName(f)
		}
	}
	return "func literal"
}

// funcName is "Name" or "Receiver.Name".
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// span is the number of lines a node covers.
func (t *Tree) span(n ast.Node) int { return t.line(n.End()) - t.line(n.Pos()) + 1 }
