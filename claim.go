package tenure

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"
)

// Markers for durations whose zero value means the default.
const (
	NoTTL       time.Duration = -1            // held until released or revoked: never stale, never reaped, on any engine
	NoGrace     time.Duration = -1            // reusable as soon as authority was withdrawn
	WaitForever time.Duration = math.MaxInt64 // until the context ends
)

// Claim asks for a lease. Zero fields mean the default.
type Claim struct {
	Resources []Resource    // one, or a bundle that is granted whole or not at all (needs [Caps].Bundles); order is kept
	Holder    Holder        // "" = [DefaultHolder]
	TTL       time.Duration // how long the holder may stay silent, a lower bound; 0 = [DefaultTTL]; [NoTTL]
	Grace     time.Duration // how long the resources stay unusable after authority was withdrawn; 0 = max(TTL/10, [MinDefaultGrace]), none for NoTTL; [NoGrace]
	Reserve   time.Duration // > 0: reserve, to be activated within this (needs [Caps].Reserve)
	Meta      []byte        // opaque, at most [MaxMetaBytes], kept with the lease
	Op        Op            // the same operation with the same claim is the same lease; zero = a fresh one
	Wait      time.Duration // 0 = never wait for a live holder; [WaitForever]; not part of the operation's identity
}

// On is a claim, all defaults, for the named resources. A name that is not
// well formed is refused by the engine.
func On(resources ...string) Claim {
	c := Claim{Resources: make([]Resource, len(resources))}
	for i, r := range resources {
		c.Resources[i] = Resource(r)
	}
	return c
}

// Resolve replaces every default by what it stands for, rounds durations up to
// the whole milliseconds that engines count in, and leaves the operation to
// the engine. A resolved claim resolves to itself.
func (c Claim) Resolve() Claim {
	if c.Holder == "" {
		c.Holder = DefaultHolder()
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	switch {
	case c.Grace == 0 && c.TTL == NoTTL:
		c.Grace = NoGrace
	case c.Grace == 0:
		c.Grace = max(c.TTL/10, MinDefaultGrace)
	}
	c.TTL, c.Grace, c.Reserve = roundUp(c.TTL), roundUp(c.Grace), roundUp(c.Reserve)
	return c
}

// Validate checks a resolved claim against the limits in the order of the law:
// resources (none, malformed, twice, too many), holder, meta, TTL, grace,
// reserve window. It returns an [*Error] with code [ErrInvalid] that names the
// field, or nil.
func (c Claim) Validate(l Limits) error {
	if len(c.Resources) == 0 {
		return invalid("resources", "", "a claim names at least one resource")
	}
	if len(c.Resources) > l.Bundle {
		return invalid("resources", "", fmt.Sprintf("a bundle of %d resources: at most %d are allowed", len(c.Resources), l.Bundle))
	}
	for i, r := range c.Resources {
		if err := r.Validate(); err != nil {
			return err
		}
		for _, earlier := range c.Resources[:i] {
			if r == earlier {
				return invalid("resources", r, "it is named twice in one claim")
			}
		}
	}
	if err := c.Holder.Validate(); err != nil {
		return err
	}
	if len(c.Meta) > MaxMetaBytes {
		return invalid("meta", "", fmt.Sprintf("%d bytes, at most %d are allowed", len(c.Meta), MaxMetaBytes))
	}
	if c.TTL != NoTTL && (c.TTL < l.MinTTL || c.TTL > l.MaxTTL) {
		return invalid("ttl", "", fmt.Sprintf("%v is out of range, %v to %v are allowed, or no TTL at all", c.TTL, l.MinTTL, l.MaxTTL))
	}
	if c.Grace != NoGrace && (c.Grace < 0 || c.Grace > l.MaxGrace) {
		return invalid("grace", "", fmt.Sprintf("%v is out of range, at most %v is allowed", c.Grace, l.MaxGrace))
	}
	if c.Reserve != 0 && (c.Reserve < l.MinReserve || c.Reserve > l.MaxReserve) {
		return invalid("reserve", "", fmt.Sprintf("%v is out of range, %v to %v are allowed, or 0 for none", c.Reserve, l.MinReserve, l.MaxReserve))
	}
	return nil
}

// DefaultHolder is this process's holder where a claim names none: the host's
// name and a random suffix, the same for the life of the process.
var DefaultHolder = sync.OnceValue(func() Holder {
	host, err := os.Hostname()
	if err != nil || host == "" || badText(host) != "" || len(host) > MaxHolderBytes-16 {
		host = "unknown-host"
	}
	op := NewOp(0)
	return Holder(fmt.Sprintf("%s-%x", host, op.ID[:4]))
})

// roundUp rounds a positive duration up to whole milliseconds; markers stay.
func roundUp(d time.Duration) time.Duration {
	if rest := d % time.Millisecond; d > 0 && rest != 0 {
		return d - rest + time.Millisecond
	}
	return d
}
