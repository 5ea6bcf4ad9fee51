package tidy

import (
	"path"
	"regexp"
	"strings"
)

// The patterns are put together from halves, so that this file passes itself.
var (
	later   = regexp.MustCompile(`\b(` + "TO" + `DO|` + "FIX" + `ME)\b`)
	outside = regexp.MustCompile(`\.\./` + `shared\b|(^|[^\w.~-])/` + `work/`)

	link      = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference = regexp.MustCompile(`^\s{0,3}\[[^\]^]+\]:\s+<?([^\s>]+)>?`)
	inlined   = regexp.MustCompile("`[^`]*`")
	scheme    = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	unslug    = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// Later finds work that was left in a text for somebody else.
func Later(t *Tree) []Finding {
	return t.grep(later, func(match string) string { return match + ": do it, or open an issue" })
}

// Outside finds mentions of places that only exist on somebody's machine.
func Outside(t *Tree) []Finding {
	return t.grep(outside, func(match string) string {
		return "mentions " + strings.TrimSpace(match) + ", which a reader does not have"
	})
}

func (t *Tree) grep(pattern *regexp.Regexp, say func(match string) string) []Finding {
	var found []Finding
	for _, x := range t.Texts {
		matches(x.Body, pattern, func(line int, match string) {
			found = append(found, Finding{Path: x.Path, Line: line, Message: say(match)})
		})
	}
	return found
}

// Links finds relative links of Markdown files that lead nowhere: no such file,
// or no such heading in it. What stands in code is no link.
func Links(t *Tree) []Finding {
	var found []Finding
	for _, x := range t.Texts {
		if path.Ext(x.Path) == ".md" {
			found = append(found, t.links(x)...)
		}
	}
	return found
}

func (t *Tree) links(page Text) []Finding {
	var found []Finding
	for i, line := range prose(page.Body) {
		for _, target := range targets(line) {
			if why := t.broken(page, target); why != "" {
				found = append(found, Finding{Path: page.Path, Line: i + 1, Message: "links to " + target + ": " + why})
			}
		}
	}
	return found
}

// Readme finds a README that does not exist, or that names no way to test.
func Readme(t *Tree) []Finding {
	readme, ok := t.find("README.md")
	switch {
	case !ok:
		return []Finding{{Path: "README.md", Message: "there is none"}}
	case !strings.Contains(readme.Body, "./scripts/test"):
		return []Finding{{Path: "README.md", Message: "does not name ./scripts/test"}}
	}
	return nil
}

// prose returns the lines of a Markdown text, those of code blocks blank.
func prose(body string) []string {
	all := strings.Split(body, "\n")
	fence := ""
	for i, line := range all {
		mark := strings.TrimLeft(line, " ")
		switch {
		case fence == "" && (strings.HasPrefix(mark, "```") || strings.HasPrefix(mark, "~~~")):
			fence = mark[:3]
		case fence == "":
			continue
		case strings.HasPrefix(mark, fence):
			fence = ""
		}
		all[i] = ""
	}
	return all
}

func targets(line string) []string {
	line = inlined.ReplaceAllString(line, "``")
	var all []string
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		all = append(all, m[1])
	}
	if m := reference.FindStringSubmatch(line); m != nil {
		all = append(all, m[1])
	}
	return all
}

func (t *Tree) broken(from Text, target string) string {
	if scheme.MatchString(target) || strings.HasPrefix(target, "//") {
		return ""
	}
	if strings.HasPrefix(target, "/") {
		return "a link in the repository is relative"
	}
	file, heading, _ := strings.Cut(target, "#")
	to := from.Path
	if file != "" {
		to = path.Join(path.Dir(from.Path), file)
	}
	if !t.Paths[to] {
		return "no such file"
	}
	if heading == "" || path.Ext(to) != ".md" {
		return ""
	}
	if page, ok := t.find(to); !ok || !headings(page.Body)[heading] {
		return "no such heading"
	}
	return ""
}

// headings returns the anchors that code hosts give to the headings of a page.
func headings(body string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range prose(body) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		anchors[strings.ReplaceAll(unslug.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return anchors
}
