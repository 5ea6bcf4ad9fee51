// Package hold keeps a lease alive while work runs under it, and ends the work
// before the lease can be lost.
//
// [Do] is the whole of it for most programs: acquire, run a function, release.
// [Acquire] gives the pieces, [Mutex] the familiar shape, and [Deadline] the
// arithmetic of belief alone, for programs with a loop of their own.
//
// # What a hold promises
//
// The context of a hold ends before the engine may grant the resource to
// anybody else: belief counts from the moment a request was first sent, never
// from its answer, and stops a margin before the TTL is over, on a clock that
// goes on while the machine is suspended (T14). A process that wakes after the
// deadline finds its hold over with the first look at it: [Hold.Err],
// [Hold.Token] and the methods of the hold's context read the clock
// themselves. A context derived from it ends with the timer, which stands
// still while the machine sleeps: at most a third of the TTL after the wake.
//
// # What it cannot promise
//
// A write that was sent before the deadline can arrive after it, and work that
// ignores its context goes on. Only the resource can refuse a stale owner: pass
// it [Hold.Token], and let it check (package fence).
package hold
