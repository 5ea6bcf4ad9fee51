package liveness_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/liveness"
)

// crowd is a table under beats, grants and a reaper at once. Every yes is
// noted with what it allows, and every judgement is held against that.
type crowd struct {
	t       *testing.T
	clk     clock.Manual
	table   *liveness.Table
	last    atomic.Int64 // the newest lease
	allowed [4000]atomic.Int64
}

func (c *crowd) grant() {
	for n := 1; n < len(c.allowed); n++ {
		l := active(n)
		l.TTL = 20 * time.Millisecond
		l.Grace = time.Duration(n%3) * 5 * time.Millisecond
		c.table.Track(l)
		c.last.Store(int64(n))
		c.clk.Advance(time.Duration(rand.IntN(int(time.Millisecond))))
	}
}

func (c *crowd) beat(done chan struct{}) {
	refs, each := make([]tenure.Ref, 50), make([]error, 50)
	for {
		select {
		case <-done:
			return
		default:
		}
		last := int(c.last.Load())
		for i := range refs {
			refs[i] = ref(max(1, last-rand.IntN(100)), 1)
		}
		arrived := c.clk.Now()
		c.table.Renew(refs, each)
		for i := range refs {
			if each[i] != nil {
				continue
			}
			note := &c.allowed[refs[i].Token.Lease.LSN]
			until := int64(arrived + 20*time.Millisecond)
			for was := note.Load(); was < until && !note.CompareAndSwap(was, until); was = note.Load() {
			}
		}
	}
}

// reap judges until every lease is over. A yes that is noted after the
// condemnation was looked at was still given before it, so what it allows is
// checked once more at the reclaim.
func (c *crowd) reap() {
	for over := 0; over < len(c.allowed)-1; {
		c.clk.Advance(time.Duration(rand.IntN(int(time.Millisecond))))
		for _, p := range c.table.Due(100, nil) {
			now := c.clk.Now()
			if yes := time.Duration(c.allowed[p.Lease.LSN].Load()); now < yes {
				c.t.Errorf("%v is proposed at %v, its holder was told yes until %v", p, now, yes)
			}
			if p.Kind == liveness.Lapse {
				c.table.Withdraw(p.Lease, p.Epoch+1)
				continue
			}
			c.table.Forget(p.Lease)
			c.table.Settle(p, true)
			over++
		}
		_, _, _ = c.table.Left(id(int(c.last.Load())))
		_, _ = c.table.Next()
		_ = c.table.Stats()
	}
}

// Rule 6. proves: T6, T14
func TestT14_AYesIsNeverContradicted(t *testing.T) {
	c := &crowd{t: t}
	c.table = liveness.New(&c.clk, liveness.Config{})
	done := make(chan struct{})
	var beats, rest sync.WaitGroup
	for range 3 {
		beats.Go(func() { c.beat(done) })
	}
	rest.Go(c.grant)
	rest.Go(c.reap)
	rest.Wait()
	close(done)
	beats.Wait()
	for n := 1; n < len(c.allowed); n++ {
		if _, _, ok := c.table.Left(id(n)); ok {
			t.Fatalf("lease %d is still known", n)
		}
	}
}
