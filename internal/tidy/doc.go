// Package tidy holds the rules of the house, and the test that keeps them:
//
//   - floors: imports go down only, by the table [House];
//   - budgets: lines of a file and of a function, methods of an interface, depth
//     of nesting, names of packages;
//   - purity: no clock, I/O, goroutine, channel, lock, randomness or map order in
//     the kernel;
//   - names: every invariant is named by a test, every conformance case has a
//     number of its own and none is left out, nothing in a test sleeps or skips;
//   - words: links resolve, and nothing is left to be done later in a comment.
//
// Each rule is a pure function from a [Tree] to its [Finding] list, so that the
// rules themselves are tested, on small trees in which each is broken. What a
// contributor may have to change is in table.go.
package tidy
