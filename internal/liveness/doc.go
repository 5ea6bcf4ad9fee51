// Package liveness keeps who was heard from, and until when that counts: the
// heartbeat [Table] of an engine, and the [Reaper] that proposes to end what
// fell silent. All of it is volatile. It decides nothing (T14): it proposes,
// and whoever orders commands judges each proposal like any other.
//
// # Rules
//
//  1. A beat extends only the current epoch of a lease that is not condemned.
//     Each ref gets its own answer. A halted table answers none.
//  2. What is due is judged once more in the critical section that condemns it,
//     so a beat that came before wins; a condemned lease's beats are refused
//     from then on, also while its lapse has yet to be ordered. After the grace
//     its reclaim is proposed; without grace both are, in one batch.
//  3. A withdrawn lease, whoever withdrew it, is proposed for reclaim one grace
//     after the end of what its last answered beat allowed or, if it was
//     withdrawn later than that, one grace after it was. The holder of a
//     lease without TTL may believe in it for ever: it never lapses, and once it
//     is revoked it is never proposed for reclaim; only an operator, who asserts
//     that the holder is dead, ends it.
//  4. A reservation is proposed for expiry at its deadline. Beats do not move it.
//  5. A lease is judged only by time in which this process could take beats.
//     See below.
//  6. A beat that was answered yes allows the TTL from the moment it arrived,
//     and no judgement contradicts that before.
//
// A moment at which something is due is the first at which it may be proposed:
// a beat and the reaper that meet exactly there are decided by who comes first.
//
// # Time in which beats could be taken
//
// The table does not count by its clock but by the part of it in which this
// process could listen. The reaper looks at the clock every [Config].Sweep at
// least, and says beforehand when it will be back. If nobody at all looked at
// the clock from then until [Config].Pause later, then the process itself was
// paused (stopped, suspended with its machine, starved), and
//
//   - the pause does not count: what every lease had left before, it has left
//     afterwards;
//   - a lease with a TTL not longer than the pause starts again with its full
//     TTL, a revoking one with one TTL and the grace, as after an open (a TTL up
//     to twice the pause may be treated so: late, never early);
//   - nothing is reaped for one sweep, so that beats which waited at the door are
//     read first.
//
// Shorter pauses are not told from ordinary scheduling; Pause is therefore not
// above the shortest TTL that limits permit. A reservation's deadline is a slot
// and counts by the clock, pauses included: the law refuses an activation past
// it however it came to be late. Its expiry may be proposed as much later as
// this process was paused.
package liveness
