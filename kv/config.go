package kv

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
)

// Config is how an [Engine] works. The zero value is right in production.
type Config struct {
	Clock   clock.Clock      // observations and deadlines; nil = one that counts suspend
	Wall    func() time.Time // feeds counts, and times for people; nil = time.Now
	Random  io.Reader        // sessions, operations, jitter; nil = crypto/rand
	Limits  tenure.Limits    // the zero value means tenure.DefaultLimits
	Timeout time.Duration    // one request to the store, 10 ms to 1 min; 0 = 2 s
	Poll    time.Duration    // a waiting claim looks this often beside its watch, jittered, 10 ms to 1 h; 0 = 5 s
	Renewal int              // renewals in flight in one Renew, 1 to 1,024; 0 = 32
	Sights  int              // resources whose observation is remembered between calls, at least 16; 0 = 10,000
	Logger  *slog.Logger     // nil = nothing is logged
}

// attempts bounds how often one write is sent until its outcome is known, and
// how often one command is judged anew because the record had changed.
const attempts = 6

func (c Config) resolve() (Config, error) {
	if c.Clock == nil {
		c.Clock = clock.Boot()
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Limits == (tenure.Limits{}) {
		c.Limits = tenure.DefaultLimits()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&c.Timeout, 2*time.Second)
	orDefault(&c.Poll, 5*time.Second)
	orDefault(&c.Renewal, 32)
	orDefault(&c.Sights, 10_000)
	return c, c.validate()
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c Config) validate() error {
	for _, f := range []struct {
		name           string
		v, least, most int64
	}{
		{"timeout", int64(c.Timeout), int64(10 * time.Millisecond), int64(time.Minute)},
		{"poll", int64(c.Poll), int64(10 * time.Millisecond), int64(time.Hour)},
		{"renewal", int64(c.Renewal), 1, 1024},
		{"sights", int64(c.Sights), 16, 100_000_000},
	} {
		if f.v < f.least || f.v > f.most {
			return &tenure.Error{Code: tenure.ErrInvalid, Field: f.name, Why: fmt.Sprintf("%d is out of range, %d to %d are allowed", f.v, f.least, f.most)}
		}
	}
	return c.Limits.Validate()
}
