package tidy_test

import (
	"fmt"
	"log"
	"testing/fstest"

	"github.com/tenurehq/tenure/internal/tidy"
)

// A repository in which the law looks at a network.
func ExampleFloors() {
	tree, err := tidy.Load(fstest.MapFS{
		"kernel/step.go": {Data: []byte("package kernel\n\nimport _ \"example.com/house/server\"\n")},
	})
	if err != nil {
		log.Fatal(err)
	}
	house := []tidy.Room{{Path: "kernel", Floor: 1}, {Path: "server", Floor: 3, Down: true}}
	for _, f := range tidy.Floors(tree, "example.com/house", house) {
		fmt.Println(f)
	}
	// Output:
	// kernel/step.go:3: imports example.com/house/server: it stands on floor 3, above kernel on floor 1
}
