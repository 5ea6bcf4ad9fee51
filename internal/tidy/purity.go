package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pure is what a pure room may use of the standard library. Both lists say what
// is allowed, so that a package or a function added to Go later is refused until
// somebody has looked at it.
type Pure struct {
	Imports []string            // packages whose every result depends on their arguments alone
	Partly  map[string][]string // packages of which only these names do
	Refused map[string][]string // names of a package above that do I/O all the same
}

// orderFree excuses one range over a map, on the line of its "for" or of its
// call, when no order can reach an outcome.
var orderFree = regexp.MustCompile(`^//tidy:order-free(\s+\S.*)?$`)

// Purity finds what would let a clock, the world, another goroutine or the order
// of a map reach an outcome of the room dir. Its tests may do as they like.
func Purity(t *Tree, module, dir string, pure Pure, std types.Importer) []Finding {
	var files []*Source
	for _, s := range t.Room(dir) {
		if !s.Test {
			files = append(files, s)
		}
	}
	if len(files) == 0 {
		return []Finding{{Path: dir, Message: "there is no such package"}}
	}
	known, err := t.check(module, dir, std)
	if err != nil {
		return []Finding{{Path: dir, Message: "its types cannot be told: " + err.Error()}}
	}
	var found []Finding
	for _, s := range files {
		p := &purity{tree: t, source: s, module: module, pure: pure, info: known, excused: map[int]bool{}}
		p.run()
		found = append(found, p.found...)
	}
	return found
}

// purity is the check of one file.
type purity struct {
	tree    *Tree
	source  *Source
	module  string
	pure    Pure
	info    *types.Info
	excused map[int]bool // lines with an order-free comment; true once one was needed
	found   []Finding
}

func (p *purity) run() {
	for _, group := range p.source.File.Comments {
		for _, c := range group.List {
			p.excuse(c)
		}
	}
	for _, spec := range p.source.File.Imports {
		p.imports(spec)
	}
	visit(p.source.File, p.node)
	for line, needed := range p.excused {
		if !needed {
			p.found = append(p.found, Finding{Path: p.source.Path, Line: line, Message: "this order-free comment excuses nothing"})
		}
	}
	slices.SortFunc(p.found, func(a, b Finding) int { return a.Line - b.Line })
}

func (p *purity) report(at token.Pos, format string, args ...any) {
	p.found = append(p.found, Finding{Path: p.source.Path, Line: p.tree.line(at), Message: fmt.Sprintf(format, args...)})
}

func (p *purity) excuse(c *ast.Comment) {
	parts := orderFree.FindStringSubmatch(c.Text)
	switch {
	case parts == nil:
	case parts[1] == "":
		p.report(c.Pos(), "an order-free comment has to say why no order reaches an outcome")
	default:
		p.excused[p.tree.line(c.Pos())] = false
	}
}

func (p *purity) imports(spec *ast.ImportSpec) {
	name, err := strconv.Unquote(spec.Path.Value)
	_, partly := p.pure.Partly[name]
	switch _, inside := within(name, p.module); {
	case err != nil, inside, partly: // floors judge what is inside, use judges what is partly pure
	case !slices.Contains(p.pure.Imports, name):
		p.report(spec.Pos(), "imports %s, which is not among the pure packages", name)
	}
	if spec.Name != nil && spec.Name.Name == "." {
		p.report(spec.Pos(), "a dot import hides where a name comes from")
	}
}

func (p *purity) node(n ast.Node, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.report(n.Pos(), "starts a goroutine")
	case *ast.SelectStmt:
		p.report(n.Pos(), "selects among channels: which one is ready is chance")
	case *ast.ChanType:
		p.report(n.Pos(), "has a channel type")
	case *ast.SendStmt:
		p.report(n.Pos(), "sends on a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			p.report(n.Pos(), "receives from a channel")
		}
	case *ast.RangeStmt:
		p.ranges(n)
	case *ast.SelectorExpr:
		p.use(n, stack)
	case *ast.Ident:
		if b, ok := p.info.Uses[n].(*types.Builtin); ok && strings.HasPrefix(b.Name(), "print") {
			p.report(n.Pos(), "prints")
		}
	}
}

func (p *purity) ranges(loop *ast.RangeStmt) {
	kind := p.info.TypeOf(loop.X)
	switch {
	case kind == nil || kind == types.Typ[types.Invalid]:
		p.report(loop.Pos(), "what this loop ranges over cannot be told")
	case isMap(kind):
		p.unordered(loop.Pos(), "ranges over a map")
	case isChan(kind):
		p.report(loop.Pos(), "ranges over a channel")
	}
}

// use judges pkg.Name.
func (p *purity) use(sel *ast.SelectorExpr, stack []ast.Node) {
	of := p.packageOf(sel.X)
	name := sel.Sel.Name
	switch names, partly := p.pure.Partly[of]; {
	case of == "":
	case partly && !slices.Contains(names, name):
		p.report(sel.Pos(), "uses %s.%s; pure in %s are only %s", of, name, of, strings.Join(names, ", "))
	case slices.Contains(p.pure.Refused[of], name):
		p.report(sel.Pos(), "uses %s.%s, which is not pure", of, name)
	case of == "maps" && slices.Contains([]string{"Keys", "Values", "All", "DeleteFunc"}, name) && !p.sorted(stack):
		p.unordered(sel.Pos(), "uses maps."+name+", whose order is chance, unsorted")
	}
}

// sorted says whether maps.Keys, seen in stack, is the argument of slices.Sorted
// or one of its relatives.
func (p *purity) sorted(stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	outer, ok := stack[len(stack)-2].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := outer.Fun.(*ast.SelectorExpr)
	return ok && p.packageOf(sel.X) == "slices" && strings.HasPrefix(sel.Sel.Name, "Sorted")
}

func (p *purity) unordered(at token.Pos, what string) {
	line := p.tree.line(at)
	if _, ok := p.excused[line]; ok {
		p.excused[line] = true
		return
	}
	p.report(at, "%s: sort it, or end the line with //tidy:order-free and why no order reaches an outcome", what)
}

func (p *purity) packageOf(x ast.Expr) string {
	id, ok := x.(*ast.Ident)
	if !ok {
		return ""
	}
	of, ok := p.info.Uses[id].(*types.PkgName)
	if !ok {
		return ""
	}
	return of.Imported().Path()
}

// isMap looks through type parameters: one that may be a map counts as one.
func isMap(t types.Type) bool {
	return anyType(t, func(u types.Type) bool { _, ok := u.(*types.Map); return ok })
}

func isChan(t types.Type) bool {
	return anyType(t, func(u types.Type) bool { _, ok := u.(*types.Chan); return ok })
}

func anyType(t types.Type, is func(types.Type) bool) bool {
	param, ok := types.Unalias(t).(*types.TypeParam)
	if !ok {
		return is(t.Underlying())
	}
	face, ok := param.Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for embedded := range face.EmbeddedTypes() {
		union, ok := embedded.Underlying().(*types.Union)
		if !ok && is(embedded.Underlying()) {
			return true
		}
		if ok && anyTerm(union, is) {
			return true
		}
	}
	return false
}

func anyTerm(union *types.Union, is func(types.Type) bool) bool {
	for term := range union.Terms() {
		if is(term.Type().Underlying()) {
			return true
		}
	}
	return false
}

// check infers the types of a room. Rooms of the module are checked from the
// tree, everything else is taken from std. An error that only leaves some
// expression unknown does not matter here: a loop over one is a finding.
func (t *Tree) check(module, dir string, std types.Importer) (*types.Info, error) {
	i := &importer{tree: t, module: module, std: std, done: map[string]*types.Package{}}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	_, err := i.check(dir, info)
	return info, err
}

type importer struct {
	tree   *Tree
	module string
	std    types.Importer
	done   map[string]*types.Package
}

func (i *importer) Import(name string) (*types.Package, error) {
	if done, ok := i.done[name]; ok {
		return done, nil
	}
	dir, inside := within(name, i.module)
	if !inside {
		return i.std.Import(name)
	}
	p, err := i.check(dir, nil)
	i.done[name] = p
	return p, err
}

func (i *importer) check(dir string, info *types.Info) (*types.Package, error) {
	var files []*ast.File
	for _, s := range i.tree.Room(dir) {
		if !s.Test {
			files = append(files, s.File)
		}
	}
	if len(files) == 0 {
		return nil, errors.New(dir + ": no such package")
	}
	conf := types.Config{Importer: i, IgnoreFuncBodies: info == nil, Error: func(error) {}}
	p, _ := conf.Check(dir, i.tree.Fset, files, info)
	return p, nil
}
