package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal/memlog"
)

// A claim that names nothing reaches the sequencer, and is refused there, also
// when it repeats the operation of a claim that waits.
func TestARepeatWithoutResourcesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := opened(t, memlog.New())
		first := acquire(t, e, tenure.On("a/b"))
		op := tenure.NewOp(first.LSN)
		go e.Acquire(context.Background(), tenure.Claim{Resources: first.Resources, Holder: "h", Wait: time.Minute, Op: op})
		synctest.Wait()
		_, err := e.Acquire(context.Background(), tenure.Claim{Holder: "h", Op: op})
		wantCode(t, err, tenure.ErrConflict)
	})
}

// So is one whose context ends in flight.
func TestAClaimWithoutResourcesCanBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		open := g.shut()
		go e.Acquire(context.Background(), tenure.On("a/x"))
		<-g.entered
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("PANIC %v", v)
				}
			}()
			_, err = e.Acquire(ctx, tenure.Claim{Wait: time.Minute})
			return err
		})
		synctest.Wait()
		cancel()
		err := <-got
		open()
		if err != nil && strings.Contains(err.Error(), "PANIC") {
			t.Error(err)
		}
	})
}

// proves: T10
//
// However much history was retired while a claim waited, it was not executed.
func TestAWaitThatIsOverSaysWhoHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := tenure.DefaultLimits()
		lim.History = 0
		e := opened(t, memlog.New(), func(c *Config) { c.Limits = lim })
		held := acquire(t, e, tenure.Claim{Resources: tenure.On("a/b").Resources, TTL: tenure.NoTTL})
		got := async(func() error {
			_, err := e.Acquire(context.Background(), tenure.Claim{Resources: held.Resources, Wait: time.Minute})
			return err
		})
		synctest.Wait()
		release(t, e, acquire(t, e, tenure.On("a/other")))
		wantCode(t, <-got, tenure.ErrHeld)
	})
}

// A caller that leaves while its grant is on the way to the disk does not know,
// since the engine may stop before it has released what nobody took.
//
// proves: T11
func TestT11_ALeaverIsNotToldWhatMayBeUntrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		g := newGate(log)
		e := opened(t, g)
		open := g.shut()
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() error {
			_, err := e.Acquire(ctx, tenure.Claim{Resources: tenure.On("a/b").Resources, Wait: time.Hour, TTL: tenure.NoTTL})
			return err
		})
		<-g.entered
		cancel()
		err := <-got
		broken(log, memlog.After)
		open()
		synctest.Wait()
		e.Close()
		again := opened(t, log.Crash(true))
		l, lerr := again.Lookup(context.Background(), tenure.Query{Resource: "a/b"})
		if lerr == nil && tenure.CodeOf(err) != tenure.ErrUnknownOutcome {
			t.Errorf("told definitely %v; yet it stands as %v %v ttl %v", err, l.ID, l.State, l.TTL)
		}
	})
}

// proves: T11
func TestT11_SettlingWithAWaitIsNotGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		claim := tenure.On("a/b")
		claim.Op, claim.TTL = tenure.NewOp(e.LSN()), tenure.NoTTL
		open := g.shut()
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() error { _, err := e.Acquire(ctx, claim); return err })
		<-g.entered
		cancel()
		wantCode(t, <-got, tenure.ErrUnknownOutcome)
		claim.Wait = time.Hour
		ctx, cancel = context.WithCancel(context.Background())
		got = async(func() error { _, err := e.Acquire(ctx, claim); return err })
		synctest.Wait()
		cancel()
		err := <-got
		open()
		synctest.Wait()
		l, lerr := e.Lookup(context.Background(), tenure.Query{Resource: "a/b"})
		if lerr == nil && tenure.CodeOf(err) == tenure.ErrHeld {
			t.Errorf("the repeat was told %v; its own lease stands: %v %v", err, l.ID, l.State)
		}
	})
}

// Grants whose callers have all left are released, each handing over to a wide
// bundle: as many in one record as it can hold, the rest in the next.
//
// proves: T12
func TestT12_OrphansAreBoundedByTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(memlog.New())
		e := opened(t, g)
		const n = 64 * 16
		var owners []tenure.Lease
		for b := 0; b < 16; b++ {
			c := tenure.Claim{TTL: tenure.NoTTL}
			for i := 0; i < 64; i++ {
				c.Resources = append(c.Resources, tenure.Resource(fmt.Sprintf("a/%d", b*64+i)))
			}
			owners = append(owners, acquire(t, e, c))
		}
		ctx, cancel := context.WithCancel(context.Background())
		for i := range n {
			go e.Acquire(ctx, tenure.Claim{Resources: tenure.On(fmt.Sprintf("a/%d", i)).Resources, Wait: time.Hour})
		}
		synctest.Wait()
		for i := range n {
			c := tenure.Claim{Resources: tenure.On(fmt.Sprintf("a/%d", i)).Resources, Wait: time.Hour, Meta: make([]byte, 4096)}
			for j := 1; j < 64; j++ {
				c.Resources = append(c.Resources, longName(i, j))
			}
			go e.Acquire(context.Background(), c)
		}
		synctest.Wait()
		open := g.shut()
		go e.Acquire(context.Background(), tenure.On("a/plug")) // the next records gather behind this one
		<-g.entered
		for _, l := range owners {
			go e.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder})
		}
		synctest.Wait()
		open()
		open = g.shut()
		<-g.entered // the releases' record, with 1024 grants
		cancel()    // one connection broke
		synctest.Wait()
		open()
		synctest.Wait()
		if err := e.Halted(); err != nil {
			t.Error(err)
		}
	})
}

// The engine draws an operation before the turn that judges it; history that is
// retired in between does not make it old.
//
// proves: T10
func TestAFreshOperationIsNeverTooOld(t *testing.T) {
	e, err := OpenLog(memlog.New(), "", Config{Limits: func() tenure.Limits { l := tenure.DefaultLimits(); l.History = 4; return l }()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	bad, all := 0, 0
	for w := range 16 {
		wg.Go(func() {
			for range 500 {
				l, err := e.Acquire(context.Background(), tenure.On(fmt.Sprintf("a/%d", w)))
				mu.Lock()
				all++
				if errors.Is(err, tenure.ErrRetired) {
					bad++
				}
				mu.Unlock()
				if err == nil {
					e.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder})
				}
			}
		})
	}
	wg.Wait()
	if bad > 0 {
		t.Errorf("%d of %d fresh claims were refused as retired", bad, all)
	}
}

// Random claims, bundles, releases and cancelled waits, against a plain list:
// who comes first and finds everything free is granted, nobody else.
func TestWaitersAreServedInOrder(t *testing.T) {
	for seed := range 40 {
		synctest.Test(t, func(t *testing.T) {
			l := &line{t: t, seed: seed, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), owned: map[tenure.Resource]bool{}}
			l.engine = opened(t, memlog.New(), func(c *Config) { c.SnapshotBytes = 2000 })
			for i := range 80 {
				l.act(i)
				for l.pass() {
				}
				l.check()
			}
			for _, w := range append(l.waiting, l.held...) {
				w.cancel()
			}
			synctest.Wait()
		})
	}
}

// line is the plain list: who waits, in order, and who holds.
type line struct {
	t       *testing.T
	seed    int
	rnd     *rand.Rand
	engine  *Engine
	waiting []*standing
	held    []*standing
	owned   map[tenure.Resource]bool
}

// standing is one claim.
type standing struct {
	id     int
	wants  []tenure.Resource
	cancel context.CancelFunc
	answer chan error // nil once it was checked
	lease  tenure.Lease
}

// act does one random thing.
func (l *line) act(i int) {
	switch k := l.rnd.IntN(10); {
	case k < 5:
		l.claim(i)
	case k < 8 && len(l.held) > 0:
		j := l.rnd.IntN(len(l.held))
		w := l.held[j]
		l.held = slices.Delete(l.held, j, j+1)
		release(l.t, l.engine, w.lease)
		for _, r := range w.wants {
			delete(l.owned, r)
		}
	case len(l.waiting) > 0:
		j := l.rnd.IntN(len(l.waiting))
		l.waiting[j].cancel()
		<-l.waiting[j].answer
		l.waiting = slices.Delete(l.waiting, j, j+1)
	}
}

func (l *line) claim(i int) {
	w := &standing{id: i, answer: make(chan error, 1)}
	for _, j := range l.rnd.Perm(5)[:1+l.rnd.IntN(3)] {
		w.wants = append(w.wants, tenure.Resource(fmt.Sprintf("a/%d", j)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	answer := w.answer
	go func() {
		var err error
		w.lease, err = l.engine.Acquire(ctx, tenure.Claim{Resources: w.wants, TTL: tenure.NoTTL, Wait: tenure.WaitForever})
		answer <- err
	}()
	l.waiting = append(l.waiting, w)
}

// pass grants to the first that may pass, and reports whether there was one.
func (l *line) pass() bool {
	wanted := map[tenure.Resource]bool{}
	for i, w := range l.waiting {
		stopped := slices.ContainsFunc(w.wants, func(r tenure.Resource) bool { return l.owned[r] || wanted[r] })
		for _, r := range w.wants {
			wanted[r] = true
			l.owned[r] = l.owned[r] || !stopped
		}
		if !stopped {
			l.held = append(l.held, w)
			l.waiting = slices.Delete(l.waiting, i, i+1)
			return true
		}
	}
	return false
}

// check compares the engine with the list.
func (l *line) check() {
	synctest.Wait()
	for _, w := range l.held {
		if w.answer == nil {
			continue
		}
		select {
		case err := <-w.answer:
			if err != nil {
				l.t.Fatalf("seed %d: %d: %v", l.seed, w.id, err)
			}
			w.answer = nil
		default:
			l.t.Fatalf("seed %d: %d was not granted", l.seed, w.id)
		}
	}
	for _, w := range l.waiting {
		select {
		case err := <-w.answer:
			l.t.Fatalf("seed %d: %d was answered %v, it should wait", l.seed, w.id, err)
		default:
		}
	}
}

// Bundles, repeats and callers that leave at any moment, beside snapshots: in
// the end nobody waits and nothing is left behind.
//
// proves: T1, T7
func TestStress(t *testing.T) {
	e, err := OpenLog(memlog.New(), "", Config{SnapshotBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := &stress{t: t, engine: e, high: map[tenure.Resource]tenure.Token{}}
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Second)
	for w := range 24 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 7))
			for time.Now().Before(stop) {
				s.turn(rnd, tenure.Holder(fmt.Sprint("h", w)))
			}
		})
	}
	wg.Wait()
	s.twins.Wait()
	st, _ := e.Stats(context.Background())
	for deadline := time.Now().Add(10 * time.Second); st.Waiters+st.Live > 0 && time.Now().Before(deadline); {
		st, _ = e.Stats(context.Background()) // each is a turn; the last orphans are released in one
	}
	if st.Waiters != 0 || st.Live != 0 {
		t.Errorf("left behind: %d waiters, %d leases", st.Waiters, st.Live)
	}
}

type stress struct {
	t      *testing.T
	engine *Engine
	twins  sync.WaitGroup

	mu   sync.Mutex
	high map[tenure.Resource]tenure.Token
}

// turn claims a random bundle for a random time, now and then twice under one
// operation, and releases what it got.
func (s *stress) turn(rnd *rand.Rand, h tenure.Holder) {
	c := tenure.Claim{Holder: h, Wait: time.Duration(1 + rnd.IntN(4000000)), TTL: tenure.NoTTL, Op: tenure.NewOp(s.engine.LSN())}
	for _, i := range rnd.Perm(5)[:1+rnd.IntN(3)] {
		c.Resources = append(c.Resources, tenure.Resource(fmt.Sprintf("a/%d", i)))
	}
	patience := func() time.Duration { return time.Duration(rnd.IntN(3000)) * time.Microsecond }
	twin := rnd.IntN(3) == 0
	if twin {
		d := patience()
		s.twins.Go(func() { s.claim(c, d, true) })
	}
	s.claim(c, patience(), twin)
}

// saw notes a token while its lease is held.
func (s *stress) saw(l *tenure.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range l.Resources {
		if high := s.high[r]; l.Token.Compare(high) < 0 {
			s.t.Errorf("%v was granted after %v", l.Token, high)
		}
		s.high[r] = l.Token
	}
}

func (s *stress) claim(c tenure.Claim, patience time.Duration, twin bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := s.engine.Acquire(ctx, c)
	switch tenure.CodeOf(err) {
	case 0:
		if !l.Token.IsZero() {
			if !twin {
				s.saw(&l)
			}
			_, _ = s.engine.Do(context.Background(), tenure.Release{Ref: l.Ref, Holder: l.Holder}) // its twin may have
		}
	case tenure.ErrHeld, tenure.ErrUnavailable, tenure.ErrUnknownOutcome:
	default:
		s.t.Error(err)
	}
}

func longName(i, j int) tenure.Resource {
	return tenure.Resource(strings.Repeat(strings.Repeat("n", 63)+".", 7) + strings.Repeat("n", 63) + "/" + fmt.Sprintf("%04d-%04d-", i, j) + strings.Repeat("k", 502))
}
