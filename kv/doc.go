// Package kv is a [tenure.Engine] over one record per resource in a store that
// can compare and set: a bucket of NATS, or this process's memory. Nothing of
// Tenure runs beside the store.
//
//	js, err := jetstream.New(conn)
//	eng, err := kv.NATS(ctx, js, "leases", kv.NATSOptions{Replicas: 3})
//
// One lease covers one resource (no bundles), waiting is not in order, history
// is the present record, and a newcomer has to watch a silent holder before it
// may take over ([tenure.Caps].JudgesLate).
//
// # The rules
//
// Every write is on condition of the revision that was judged, so of any
// number of writers one wins and the others judge anew. The record's count is
// the LSN of the grant, max(previous LSN + 1, the writer's unix microseconds),
// and every change lifts its LSN likewise: tokens rise across releases, a
// bucket that was purged, and one that was created anew (T7).
//
// What a claim meets, and when it may write itself over it:
//
//	found             taken over                                              prior of the new tenure
//	blank             at once                                                 as the blank says: clean, taken, …
//	reserved          first seen in this process ≥ its window ago             as the reservation's own
//	active            seen unchanged for ≥ its TTL + grace                    taken
//	active, no TTL    never                                                   –
//	revoking          seen unchanged since the revoke for ≥ TTL + grace       taken
//	revoking, no TTL  never: only a reclaim that asserts its holder is dead   –
//	deleted, or       absent for ≥ the claim's own TTL + grace                unknown
//	 bucket is young
//	never there, in   at once                                                 never
//	 an older bucket
//	not a record      never: an error names the key and the remedy            –
//
// "Seen unchanged" is two readings of one revision, and the time between them
// on this process's own clock, which counts suspend: no timestamp is compared,
// so no wall clock blocks or hastens anything. A holder's belief is counted
// from the send of its last write, and the first reading came after that
// write, so the belief has ended before the resource changes hands (T6, T14).
// A revoke is a write: silence is counted anew from when it is seen. What this
// process wrote itself counts as seen when it was acknowledged. What was seen
// is remembered between calls, for a bounded number of resources.
//
// Deleting a key by hand asserts that its holder is dead.
//
// # Operations
//
// A record remembers the operation that created it and those of the eight
// tenures before it. An older one is refused (ErrRetired) if its Seen does not
// show that it is newer than what was forgotten. Deleting a key or a bucket
// forgets everything.
//
// # Assumptions
//
// A store orders the writes of a key and loses none that it acknowledged.
// NATS acknowledges before it syncs by default: a bucket is as durable as its
// servers are configured to be. Reading goes to the stream's leader. A bucket
// that was restored from a backup, or created anew by other means than
// [InitNATS], may repeat revisions: stop its holders first.
package kv
