// Package journal is the engine that folds an ordered history of commands
// through the law in package kernel: embedded in a process, or behind a Tenure
// server.
//
// One sequencer orders commands. It takes whatever arrived while the last
// record was being made durable, steps the kernel for each in order, writes
// the commands that changed something as one record, makes the record durable,
// and only then answers all of them, refusals and reads included. One record
// is in flight, so group commit needs no timer, and nothing derived from an
// undurable step leaves the sequencer (T11).
//
// A failed write or sync halts the engine: it acknowledges nothing more,
// renewals included, reads fail closed, and callers in flight are told that
// their outcome is unknown. Recovery is a fresh open.
//
// # What is kept
//
// A [Log] of records (journal/record has the byte table) and snapshots of the
// folded state. Opening loads the newest snapshot that verifies and folds
// every record behind it through the same Step. A snapshot is itself a
// recovery that writes its result: the previous snapshot and the records up to
// a cut, folded in the background by recovery's own code; its digest must
// equal the live one at the cut, so every snapshot proves T8.
//
// # Waiting
//
// Waiting claims are served in arrival order over the whole engine: a claim is
// granted when all its resources are free and no earlier waiter wants one of
// them; later claims, those that do not wait included, do not pass it. A
// release hands over in the same record. A waiter is known by its operation: a
// repeat attaches to it. The order is not kept over a restart.
package journal
