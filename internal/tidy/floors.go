package tidy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Room is one package of the module and what its production code may import.
type Room struct {
	Path  string // its directory, "." for the root
	Floor int
	Kind  Kind

	// May lists the rooms it may import. "DIR/..." stands for DIR and all rooms
	// in it. Every entry names a room further up in the table, which keeps the
	// table itself free of cycles; "DIR/..." is for the members of one family,
	// and may name the family of the room itself.
	May []string

	// Down allows every room of a lower floor, test rooms excepted.
	Down bool

	// Std allows nothing but the standard library outside the module.
	Std bool
}

// Kind says which neighbours a room can never have.
type Kind uint8

const (
	Plain  Kind = iota
	Use         // runs on any engine, so it imports none
	Engine      // serves any use, so it imports none
	Test        // imported by tests and other test rooms only
)

// Floors finds imports that the table does not allow, rooms that it does not
// list, and faults of the table itself. Tests may import any room: a use is
// tested on a real engine.
func Floors(t *Tree, module string, house []Room) []Finding {
	found := checkTable(house)
	unlisted := map[string]bool{}
	for _, s := range t.Go {
		i := slices.IndexFunc(house, func(r Room) bool { return r.Path == s.Dir() })
		if i >= 0 {
			found = append(found, checkImports(t, s, module, house, house[i])...)
			continue
		}
		if !unlisted[s.Dir()] {
			unlisted[s.Dir()] = true
			found = append(found, Finding{Path: s.Dir(), Message: "this package is not in the table: give it a floor in internal/tidy (table.go)"})
		}
	}
	return found
}

func checkTable(house []Room) []Finding {
	var found []Finding
	fault := func(r Room, format string, args ...any) {
		found = append(found, Finding{Path: "internal/tidy/table.go", Message: r.Path + ": " + fmt.Sprintf(format, args...)})
	}
	above := map[string]Room{}
	for _, r := range house {
		if _, twice := above[r.Path]; twice {
			fault(r, "is listed twice")
		}
		for _, may := range r.May {
			family := strings.TrimSuffix(may, "/...")
			to, ok := above[family]
			switch {
			case family != may && inFamily(r.Path, family):
			case !ok:
				fault(r, "may import %s, which the table does not list further up", may)
			case to.Floor > r.Floor:
				fault(r, "stands on floor %d and may import %s on floor %d: imports go down", r.Floor, may, to.Floor)
			case feud(r, to):
				fault(r, "uses and engines never import each other, and it may import %s", may)
			case to.Kind == Test && r.Kind != Test:
				fault(r, "may import %s, which is for tests only", may)
			}
		}
		above[r.Path] = r
	}
	return found
}

func checkImports(t *Tree, s *Source, module string, house []Room, from Room) []Finding {
	var found []Finding
	for _, spec := range s.File.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it already
		}
		if why := refuse(name, module, house, from, s.Test); why != "" {
			found = append(found, Finding{Path: s.Path, Line: t.line(spec.Pos()), Message: fmt.Sprintf("imports %s: %s", name, why)})
		}
	}
	return found
}

// refuse says why a room must not import a package, or nothing.
func refuse(name, module string, house []Room, from Room, test bool) string {
	if name == "C" {
		return "Tenure builds without cgo"
	}
	dir, inside := within(name, module)
	if !inside {
		first, _, _ := strings.Cut(name, "/")
		if from.Std && !test && strings.Contains(first, ".") {
			return from.Path + " imports the standard library only"
		}
		return ""
	}
	if test {
		return ""
	}
	i := slices.IndexFunc(house, func(r Room) bool { return r.Path == dir })
	if i < 0 {
		return "it is not in the table of internal/tidy"
	}
	to := house[i]
	switch {
	case to.Kind == Test && from.Kind != Test:
		return "it is for tests only"
	case feud(from, to):
		return "uses and engines never import each other"
	case from.Down && to.Floor < from.Floor, allowed(from, dir):
		return ""
	case to.Floor > from.Floor:
		return fmt.Sprintf("it stands on floor %d, above %s on floor %d", to.Floor, from.Path, from.Floor)
	}
	may := slices.Clone(from.May)
	if from.Down {
		may = slices.Insert(may, 0, "lower floors")
	}
	if len(may) == 0 {
		may = []string{"packages outside of the module"}
	}
	return fmt.Sprintf("the table allows %s only %s", from.Path, strings.Join(may, ", "))
}

func allowed(from Room, dir string) bool {
	return slices.ContainsFunc(from.May, func(may string) bool {
		family := strings.TrimSuffix(may, "/...")
		return may == dir || family != may && inFamily(dir, family)
	})
}

func feud(a, b Room) bool {
	return a.Kind == Use && b.Kind == Engine || a.Kind == Engine && b.Kind == Use
}

func inFamily(dir, family string) bool {
	return dir == family || strings.HasPrefix(dir, family+"/")
}

// within turns an import path into a directory of the module.
func within(name, module string) (dir string, ok bool) {
	if name == module {
		return ".", true
	}
	rest, ok := strings.CutPrefix(name, module+"/")
	return path.Clean(rest), ok
}
