package tidy_test

import (
	"go/importer"
	"go/token"
	"os"
	"testing"

	"github.com/tenurehq/tenure/internal/tidy"
)

// TestHouse holds this repository to its rules.
func TestHouse(t *testing.T) {
	tree, err := tidy.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	names, misplaced := tidy.NamesOf(tree, tidy.Suites)
	std := importer.ForCompiler(token.NewFileSet(), "source", nil)

	checks := []struct {
		name string
		run  func() []tidy.Finding
	}{
		{"floors", func() []tidy.Finding { return tidy.Floors(tree, tidy.Module, tidy.House) }},
		{"budgets", func() []tidy.Finding { return tidy.Except(tidy.Budgets(tree, tidy.Limits), tidy.OverBudget) }},
		{"kernel purity", func() []tidy.Finding {
			return tidy.Purity(tree, tidy.Module, "kernel", tidy.KernelPure, std)
		}},
		{"invariants named", func() []tidy.Finding {
			return append(misplaced, tidy.Invariants(names, tidy.InvariantCount)...)
		}},
		{"cases numbered", func() []tidy.Finding { return tidy.Cases(names, tidy.Suites[0]) }},
		{"names known", func() []tidy.Finding { return tidy.Unknown(names) }},
		{"no sleep, no skip", func() []tidy.Finding {
			return tidy.Except(tidy.Waits(tree, "internal/testenv"), tidy.Sleeps)
		}},
		{"nothing for later", func() []tidy.Finding { return tidy.Later(tree) }},
		{"nothing from outside", func() []tidy.Finding { return tidy.Outside(tree) }},
		{"links", func() []tidy.Finding { return tidy.Links(tree) }},
		{"readme", func() []tidy.Finding { return tidy.Readme(tree) }},
	}
	for _, check := range checks {
		t.Run(check.name, func(t *testing.T) {
			for _, f := range check.run() {
				t.Error(f)
			}
		})
	}
}
