package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Tree is what the checks look at: the texts of a repository and its parsed Go
// files. A Tree is read-only once loaded.
type Tree struct {
	Fset  *token.FileSet
	Texts []Text // every file a person writes, in path order
	Go    []*Source
	Paths map[string]bool // every file and directory, for links
}

// Text is one file as it is written.
type Text struct {
	Path string // slash-separated, relative to the root
	Body string
}

// Source is one parsed Go file of the module.
type Source struct {
	Text
	File      *ast.File
	Test      bool // its name ends in _test.go
	Generated bool // it carries the "Code generated … DO NOT EDIT." line
}

// Finding is one place where a rule is broken.
type Finding struct {
	Path    string
	Line    int    // 0: the file or room as a whole
	Rule    string // the name an [Exception] uses; "" when there can be none
	Subject string // what an [Exception] names, such as "journal/log.go:Append"
	Message string
}

// Dir is the room the file stands in, "." for the root.
func (s *Source) Dir() string { return path.Dir(s.Path) }

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Message)
}

// kept matches what stands in a directory that the go command passes over.
var kept = regexp.MustCompile(`(^|/)(testdata|_[^/]*)/`)

// Load reads a repository. Hidden directories other than .ci are left out; what
// stands in testdata, or below a name with a leading underscore, can be linked to
// and is not read; Go files under tools/ and bench/, which are modules of their
// own, are read as text only.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet(), Paths: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && d.Name()[0] == '.' && d.Name() != ".ci" {
			return fs.SkipDir
		}
		t.Paths[name] = true
		if d.IsDir() || !written(name) || kept.MatchString(name) {
			return nil
		}
		return t.read(fsys, name)
	})
	return t, err
}

func (t *Tree) read(fsys fs.FS, name string) error {
	body, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	text := Text{Path: name, Body: string(body)}
	t.Texts = append(t.Texts, text)
	if path.Ext(name) != ".go" || otherModule(name) {
		return nil
	}
	file, err := parser.ParseFile(t.Fset, name, body, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Go = append(t.Go, &Source{
		Text:      text,
		File:      file,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(file),
	})
	return nil
}

// Room returns the Go files that stand in a directory.
func (t *Tree) Room(dir string) []*Source {
	var found []*Source
	for _, s := range t.Go {
		if s.Dir() == dir {
			found = append(found, s)
		}
	}
	return found
}

func (t *Tree) line(p token.Pos) int { return t.Fset.Position(p).Line }

func (t *Tree) find(name string) (Text, bool) {
	i := slices.IndexFunc(t.Texts, func(x Text) bool { return x.Path == name })
	if i < 0 {
		return Text{}, false
	}
	return t.Texts[i], true
}

func otherModule(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == "tools" || first == "bench"
}

// written tells the files that people write from those that they only keep.
func written(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".sh", ".proto", ".yml", ".yaml", ".mod", ".txt":
		return true
	}
	first, _, _ := strings.Cut(name, "/")
	return first == "scripts" || first == ".ci"
}

// lines counts lines as an editor does: a last line without a newline counts.
func lines(body string) int {
	n := strings.Count(body, "\n")
	if body != "" && !strings.HasSuffix(body, "\n") {
		n++
	}
	return n
}

// matches calls found for every place where pattern occurs, with its line.
func matches(body string, pattern *regexp.Regexp, found func(line int, match string)) {
	text := []byte(body)
	for _, at := range pattern.FindAllIndex(text, -1) {
		found(1+bytes.Count(text[:at[0]], []byte("\n")), string(text[at[0]:at[1]]))
	}
}
