package hold

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
)

// Option changes how a hold is kept.
type Option func(*config)

// Clock tells the time since a fixed origin, and never goes back.
type Clock = clock.Clock

// WithMargin sets how long before the end of the TTL a holder stops believing;
// [DefaultMargin] otherwise. It has to cover what the work needs to stop after
// its context ended, as far as the claim's grace does not. It is smaller than
// the TTL and not negative.
func WithMargin(d time.Duration) Option {
	return func(c *config) { c.margin = d }
}

// WithClock replaces the clock that counts suspend. Go's monotonic clock counts
// beside it, and whichever says that less time is left is believed.
func WithClock(k Clock) Option {
	return func(c *config) { c.boot = k }
}

// WithRand replaces the source of jitter: numbers in [0, 1), safe for
// concurrent use.
func WithRand(float func() float64) Option {
	return func(c *config) { c.float = float }
}

// WithLogger sends failed renewals and releases (warn) and losses (error)
// there. Without it a hold says nothing: what matters reaches its caller.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.log = l }
}

// OnRenew calls fn after every renewal that was answered, for programs that
// hand their deadline on, to a child process say. The next renewal waits for
// fn, so it must be quick.
func OnRenew(fn func(*Hold)) Option {
	return func(c *config) { c.renewed = fn }
}

// config is how one hold is kept, defaults resolved.
type config struct {
	ttl     time.Duration
	margin  time.Duration
	boot    Clock
	mono    Clock
	float   func() float64
	log     *slog.Logger
	renewed func(*Hold)
}

// noTTLBeat is how often a lease without TTL is renewed all the same: nothing
// depends on it but how soon a holder hears that its authority was withdrawn.
const noTTLBeat = 5 * time.Second

func configure(ttl time.Duration, opts []Option) (config, error) {
	c := config{
		ttl:     ttl,
		margin:  DefaultMargin(ttl),
		boot:    clock.Boot(),
		mono:    clock.Monotonic(),
		float:   rand.Float64,
		log:     slog.New(slog.DiscardHandler),
		renewed: func(*Hold) {},
	}
	for _, o := range opts {
		o(&c)
	}
	_, err := NewDeadline(c.ttl, c.margin)
	return c, err
}

func (c *config) now() Instant { return Instant{Boot: c.boot.Now(), Mono: c.mono.Now()} }

// belief is how long one answer carries.
func (c *config) belief() time.Duration {
	if c.ttl == tenure.NoTTL {
		return 3 * noTTLBeat
	}
	return c.ttl - c.margin
}

// interval is the time between the sends of two renewals: a third of the TTL,
// or less where a large margin leaves no room for a second attempt.
func (c *config) interval() time.Duration {
	if c.ttl == tenure.NoTTL {
		return noTTLBeat
	}
	return min(c.ttl/3, c.belief()/2)
}

// backoff is the pause after so many failures in a row (1, 2, …): a sixteenth
// of the interval, doubling up to half of it, half of that by chance.
func (c *config) backoff(failures int) time.Duration {
	step := c.interval() / 16 << min(failures-1, 3)
	return step/2 + time.Duration(c.float()*float64(step/2))
}
