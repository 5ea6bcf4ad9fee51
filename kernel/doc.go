// Package kernel is the law of Tenure: who owns what, as a pure function over
// an ordered history of commands.
//
// [State.Step] is total and deterministic (T8). It is the only way by which a
// state changes: live, in replay, in a follower, in a database engine and in a
// simulator alike. There is no clock, I/O, goroutine or randomness in it, and
// no order of a map reaches an outcome, a row, an encoding or the digest. Slots
// and LSNs come from whoever orders the commands ([At]); observations about who
// is alive come as commands of their own (lapse, expire), and can be refused
// like any other.
//
// # What a state keeps
//
// A lease is kept while it is live, and as history for a bounded time after it
// ended; then a tick retires it, and its operation and the resources that it
// was the last to own are forgotten with it. A resource has a record exactly as
// long as its last lease is kept. What was forgotten is answered cautiously:
//
//   - an operation that could belong to a retired lease is refused
//     ([Retired]), never executed again (T10): its client had seen less than
//     the retirement floor, the highest LSN among retired grants;
//   - the prior ending of a resource without record is the most cautious of
//     what was dropped, see [State.Resource].
//
// The package makes no promise of compatibility; its encodings do, see [State.Encode],
// [AppendCommand] and [AppendLease].
package kernel

// Rules is the version of the law. It grows whenever the same history would be
// judged differently, so that a program refuses a history written under rules
// that it does not know.
const Rules uint16 = 1
