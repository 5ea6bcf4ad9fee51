package kernel

import (
	"fmt"
	"math"
	"time"

	"github.com/tenurehq/tenure"
)

// Command is one command to the law: a flat union, so that a batch of them is
// one block of memory. Which fields a kind reads is said beside them; the
// others are zero.
type Command struct {
	Kind Kind

	// acquire
	Resources []tenure.Resource // the names are kept by the lease, the slice is not
	Holder    tenure.Holder     // activate and release, too
	TTL       uint32            // ms; 0 = no TTL
	Grace     uint32            // ms
	Reserve   uint32            // ms; > 0: reserve, to be activated within this window
	Meta      []byte            // copied by the lease
	Op        [16]byte          // not zero
	Seen      tenure.LSN        // what the client had seen when it first sent the operation; not part of the operation's identity

	// all that name a lease
	Lease    tenure.LeaseID
	Epoch    tenure.Epoch    // activate, release, lapse
	Resource tenure.Resource // "" or one of the lease's, else the lease is not found; a way to find it, so not encoded

	Result       tenure.Result // release
	Reason       string        // revoke
	HolderIsDead bool          // reclaim: an operator's assertion, on record; the law does not depend on it
	Deadline     Slot          // expire: the deadline that was found due
	Limits       tenure.Limits // configure
}

// Kind tells commands apart. Its numbers are in the journal and never change.
type Kind uint8

// Clients send the first five. The internal ones are proposed by an engine for
// itself; no network path decodes them.
const (
	KindAcquire   Kind = 1 // a reserve when Reserve is set
	KindActivate  Kind = 2
	KindRelease   Kind = 3
	KindRevoke    Kind = 4
	KindReclaim   Kind = 5
	KindLapse     Kind = 6 // internal: the holder of that epoch was silent for longer than its TTL
	KindExpire    Kind = 7 // internal: a reservation's deadline is due
	KindTick      Kind = 8 // internal: retire history that is due, at most [TickBatch] leases
	KindConfigure Kind = 9 // internal: the limits from here on
)

var kindNames = [...]string{
	KindAcquire: "acquire", KindActivate: "activate", KindRelease: "release", KindRevoke: "revoke", KindReclaim: "reclaim",
	KindLapse: "lapse", KindExpire: "expire", KindTick: "tick", KindConfigure: "configure",
}

// String is the kind's name in transcripts and dumps.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Internal reports whether only an engine may propose it.
func (k Kind) Internal() bool { return k >= KindLapse && k <= KindConfigure }

// FromClaim is the command for a resolved claim ([tenure.Claim.Resolve]).
// Durations that no limits allow stay out of range: the law refuses them.
func FromClaim(c tenure.Claim) Command {
	return Command{
		Kind:      KindAcquire,
		Resources: c.Resources,
		Holder:    c.Holder,
		TTL:       ttlMillis(c.TTL),
		Grace:     graceMillis(c.Grace),
		Reserve:   millis(c.Reserve),
		Meta:      c.Meta,
		Op:        c.Op.ID,
		Seen:      c.Op.Seen,
	}
}

// FromCommand is the command for one of the vocabulary's. A command of another
// type is a bug of the caller, and panics.
func FromCommand(c tenure.Command) Command {
	switch c := c.(type) {
	case tenure.Activate:
		return Command{Kind: KindActivate, Lease: c.Ref.Token.Lease, Epoch: c.Ref.Token.Epoch, Resource: c.Ref.Resource, Holder: c.Holder}
	case tenure.Release:
		return Command{Kind: KindRelease, Lease: c.Ref.Token.Lease, Epoch: c.Ref.Token.Epoch, Resource: c.Ref.Resource, Holder: c.Holder, Result: c.Result}
	case tenure.Revoke:
		return Command{Kind: KindRevoke, Lease: c.Lease, Resource: c.Resource, Reason: c.Reason}
	case tenure.Reclaim:
		return Command{Kind: KindReclaim, Lease: c.Lease, Resource: c.Resource, HolderIsDead: c.HolderIsDead}
	}
	panic(fmt.Sprintf("kernel: there is no command %T", c))
}

// claim is what an acquire asks for, in the vocabulary's words, so that its
// rules exist once.
func (c *Command) claim() tenure.Claim {
	return tenure.Claim{
		Resources: c.Resources,
		Holder:    c.Holder,
		TTL:       ttlOf(c.TTL),
		Grace:     graceOf(c.Grace),
		Reserve:   duration(c.Reserve),
		Meta:      c.Meta,
	}
}

// outOfRange is a duration that no limits allow: 49 days.
const outOfRange = math.MaxUint32

func millis(d time.Duration) uint32 {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++ // up, as Resolve does: a holder is never given less time than it asked for
	}
	if ms < 0 || ms > outOfRange || d < 0 {
		return outOfRange
	}
	return uint32(ms)
}

func ttlMillis(d time.Duration) uint32 {
	switch d {
	case tenure.NoTTL:
		return 0
	case 0:
		return outOfRange // an unresolved claim must not become one that is never reaped
	}
	return millis(d)
}

func graceMillis(d time.Duration) uint32 {
	if d == tenure.NoGrace {
		return 0
	}
	return millis(d)
}

func duration(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

func ttlOf(ms uint32) time.Duration {
	if ms == 0 {
		return tenure.NoTTL
	}
	return duration(ms)
}

func graceOf(ms uint32) time.Duration {
	if ms == 0 {
		return tenure.NoGrace
	}
	return duration(ms)
}
