// Package tenure answers one question for distributed programs: who owns this,
// right now, and can a stale owner still do harm?
//
// It is the vocabulary that every part of Tenure shares: resources, holders,
// leases, tokens, the claim that asks for a lease, the errors that refuse one,
// the limits, and [Engine], the seam behind which leases are kept. It imports
// the standard library only and holds no logic beyond the rules of its own words.
//
// Authority is durable, ordered and fenced: a pure, deterministic function over
// an ordered history decides who owns a resource. Liveness is volatile, local,
// and only ever advises: an observation that a holder fell silent never changes
// ownership by itself, it can only propose a command that is ordered like any
// other.
//
// # Lifecycle
//
//	          reserve                activate
//	(free) ───────────▶ reserved ───────────────▶ active ──revoke, lapse──▶ revoking ──reclaim──▶ revoked
//	   │                  │   │                    ▲  │
//	   │                  │   └──expire──▶ expired │  └──release──▶ released
//	   │                  └──────release──▶ released
//	   └──────────────────acquire──────────────────┘
//
// # Invariants
//
// Every engine keeps these; at least one test names each of them.
//
//   - T1 Exclusive. A resource has at most one live lease (reserved, active or
//     revoking).
//   - T2 All or nothing. A bundle becomes visible whole or not at all.
//   - T3 One authority. Every resource of a live lease points at exactly that
//     lease; an ended lease owns nothing.
//   - T4 Lifecycle. Only the arrows above exist. An ended lease never lives
//     again. Active and revoking never expire.
//   - T5 Fenced. A holder's command must carry the current token; every loss of
//     authority raises the epoch.
//   - T6 Late, never early. A resource is freed only by release, by expire at or
//     after the deadline slot, or by reclaim after revoke.
//   - T7 Monotone. Tokens of one resource strictly increase for ever: across
//     release, delete, restart, failover, restore, and a re-created store.
//   - T8 Deterministic. The same snapshot and the same history give the same
//     state and the same outcomes, byte for byte.
//   - T9 One position. Every committed command has exactly one LSN and one
//     outcome; an event's position is (LSN, index).
//   - T10 Idempotent. The same operation with the same command is executed at
//     most once, and a repeat is told what became of it; with another command it
//     is a conflict; one too old to be judged is refused, never executed a
//     second time.
//   - T11 Acknowledged is durable, within the durability domain that the engine
//     names. An outcome that is not known is reported as unknown, never guessed.
//     Nothing derived from an undurable step leaves the engine: no read, watch,
//     metric, wake-up, liveness entry.
//   - T12 Bounded. Every table, queue, batch, wait and window has an explicit
//     limit, and reaching it is a clear refusal.
//   - T13 Strict reads. A read says which LSN it observed, and can demand one.
//   - T14 Liveness advises. No clock, heartbeat or timer changes ownership except
//     through an ordered command; and a holder's own belief in its lease always
//     ends before anyone may reuse the resource, except where an operator
//     asserted that the holder is dead.
package tenure
