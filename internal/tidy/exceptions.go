package tidy

import "fmt"

// Exception lets one finding of a budget or a sleep pass, for a reason.
type Exception struct {
	Rule    string // "file", "func", "interface", "nesting", "package" or "sleep"
	Subject string // as in the finding: "journal/log.go", "journal/log.go:Log.Append"
	Why     string // the reason, for the next reader
}

// Except drops the findings that are excepted. An exception without a reason is a
// finding, and so is one that nothing needs any more.
func Except(found []Finding, exceptions []Exception) []Finding {
	var left []Finding
	needed := make([]bool, len(exceptions))
	for _, f := range found {
		excepted := false
		for i, e := range exceptions {
			if f.Rule != "" && e.Rule == f.Rule && e.Subject == f.Subject {
				excepted, needed[i] = true, true
			}
		}
		if !excepted {
			left = append(left, f)
		}
	}
	for i, e := range exceptions {
		if e.Why == "" {
			left = append(left, Finding{Path: "internal/tidy/table.go", Message: fmt.Sprintf("the exception %s %s gives no reason", e.Rule, e.Subject)})
		}
		if !needed[i] {
			left = append(left, Finding{Path: "internal/tidy/table.go", Message: fmt.Sprintf("the exception %s %s is no longer needed", e.Rule, e.Subject)})
		}
	}
	return left
}
