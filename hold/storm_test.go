package hold_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/hold"
)

// Contenders for one resource, on an engine that withdraws authority at the
// first moment it may and grants the resource in the same moment, over calls
// that are late, lost and refused at random: whenever a grant is made, nobody
// else believes.
//
// proves: T1, T14
func TestNobodyBelievesWhenAnotherIsGranted(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func storm(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	e := newStrict()
	var mu sync.Mutex
	holds := map[tenure.LeaseID]*hold.Hold{}
	works, grants := 0, 0

	e.granted = func(granted tenure.Lease) {
		mu.Lock()
		defer mu.Unlock()
		grants++
		for id, h := range holds {
			if !h.Token().IsZero() || h.Remaining() != 0 {
				t.Errorf("seed %d: %v was granted while the holder of %v believes for %v more", seed, granted.ID, id, h.Remaining())
			}
		}
	}
	weather := 0
	e.does(func(string, int) fault {
		if weather--; weather < -20 {
			weather = rnd.IntN(20) // a bad spell begins
		}
		if weather < 0 {
			return fault{slow: time.Duration(rnd.IntN(20)) * ms}
		}
		f := fault{deaf: rnd.IntN(4) == 0, late: time.Duration(rnd.IntN(1500)) * ms, slow: time.Duration(rnd.IntN(1500)) * ms}
		switch rnd.IntN(4) {
		case 0:
			f.refuse = errGone
		case 1:
			f.refuse = errMaze
		case 2:
			f.lose = errMaze
		}
		return f
	})

	c := claim
	c.TTL, c.Wait = 2*s, time.Minute
	var done sync.WaitGroup
	for i := range uint64(4) {
		own := rand.New(rand.NewPCG(seed, 2+i))
		done.Go(func() {
			for range 4 {
				_ = hold.Do(t.Context(), e, c, func(ctx context.Context) error {
					h := hold.From(ctx)
					mu.Lock()
					holds[h.Lease().ID] = h
					works++
					mu.Unlock()
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(own.IntN(8000)) * ms):
					}
					mu.Lock()
					defer mu.Unlock()
					delete(holds, h.Lease().ID)
					return nil
				}, hold.WithRand(func() float64 { return 0.5 }))
			}
		})
	}
	done.Wait()
	pass(time.Minute) // for renewals that nobody waits for any more
	if works < 4 {
		t.Errorf("seed %d: only %d pieces of work ran on %d grants: nothing was tested", seed, works, grants)
	}
}
