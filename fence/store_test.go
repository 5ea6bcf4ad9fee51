package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/fence"
)

func ExampleCheck() {
	ctx := context.Background()
	store := fence.Memory()
	for _, s := range []string{"0-42.1", "0-57.1", "0-42.1"} {
		token, err := tenure.ParseToken(s)
		if err != nil {
			panic(err)
		}
		fmt.Println(s, fence.Check(ctx, store, "orders/42", token))
	}
	// Output:
	// 0-42.1 <nil>
	// 0-57.1 <nil>
	// 0-42.1 tenure: stale orders/42: token 0-42.1 is below 0-57.1, the highest seen here: its holder has lost the lease and has to acquire again
}

func ExampleFile() {
	parent, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(parent)
	store, err := fence.File(parent + "/fence") // next to the data, on the same disk
	if err != nil {
		panic(err)
	}
	token := tenure.Token{Lease: tenure.LeaseID{LSN: 42}, Epoch: 1}
	err = store.Do(context.Background(), "orders/42", token, func(context.Context) error {
		fmt.Println("writing under", token)
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: writing under 0-42.1
}

func token(s string) tenure.Token {
	t, err := tenure.ParseToken(s)
	if err != nil {
		panic(err)
	}
	return t
}

const order = tenure.Resource("orders/42")

// each runs a test on every store. peer is the same store as another process
// sees it, or as another goroutine does where only one process can.
func each(t *testing.T, test func(t *testing.T, store, peer fence.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := fence.Memory()
		test(t, s, s)
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir() + "/fence"
		test(t, file(t, dir), file(t, dir))
	})
}

func file(t *testing.T, dir string) fence.Store {
	t.Helper()
	s, err := fence.File(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// proves: T5, T7
func TestATokenBelowTheHighestSeenIsRefused(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		for _, step := range []struct {
			token   string
			highest string // in the way
		}{
			{"0-9.1", ""},
			{"0-9.1", ""}, // equal
			{"0-10.1", ""},
			{"0-9.1", "0-10.1"}, // numbers, not text
			{"0-9.7", "0-10.1"},
			{"0-10.2", ""}, // a later epoch
			{"0-10.1", "0-10.2"},
			{"0-10.10", ""},
			{"0-10.9", "0-10.10"},
			{"1-1.1", ""},
			{"0-9223372036854775807.4294967295", "1-1.1"},
			{"65535-9223372036854775807.4294967295", ""},
			{"1-1.1", "65535-9223372036854775807.4294967295"},
		} {
			store, peer = peer, store
			ran := false
			err := store.Do(t.Context(), order, token(step.token), func(context.Context) error {
				ran = true
				return nil
			})
			if step.highest == "" && (err != nil || !ran) {
				t.Errorf("%s: %v", step.token, err)
			}
			if step.highest != "" && (ran || !errors.Is(err, tenure.ErrStale) || !strings.Contains(err.Error(), step.token+" is below "+step.highest+",")) {
				t.Errorf("%s ran: %v, error %v; want stale, with %s named", step.token, ran, err, step.highest)
			}
		}
		if err := fence.Check(t.Context(), store, "orders/43", token("0-1.1")); err != nil {
			t.Errorf("another resource: %v", err)
		}
	})
}

func TestWhatIsMalformedIsRefused(t *testing.T) {
	each(t, func(t *testing.T, store, _ fence.Store) {
		good := token("0-9.1")
		for name, c := range map[string]struct {
			r tenure.Resource
			t tenure.Token
		}{
			"no token":          {order, tenure.Token{}},
			"no resource":       {"", good},
			"no namespace":      {"42", good},
			"control character": {"orders/4\n2", good},
			"path":              {"../../etc/passwd", good},
			"key of 513 bytes":  {tenure.Resource("orders/" + strings.Repeat("x", 513)), good},
			"element of 64":     {tenure.Resource(strings.Repeat("x", 64) + "/42"), good},
		} {
			if err := fence.Check(t.Context(), store, c.r, c.t); !errors.Is(err, tenure.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestNamesThatLookAlikeAreFencedApart(t *testing.T) {
	long := strings.Repeat("Ü", 256)
	names := []tenure.Resource{
		"a/b", "a/B", "A/b", "a.b/c", "a/b/c", "a/b%2fc", "a/..", "a/.", "a/ ", "a/größe", "a/%", "a/%25", "a/mark",
		tenure.Resource("a/" + long), tenure.Resource("b/" + long), tenure.Resource("a/" + strings.Repeat("x", 512)),
	}
	each(t, func(t *testing.T, store, peer fence.Store) {
		for i, r := range names {
			if err := fence.Check(t.Context(), store, r, token(fmt.Sprintf("0-%d.1", 100-i))); err != nil {
				t.Errorf("%q: %v", r, err)
			}
		}
		for i, r := range names {
			if err := fence.Check(t.Context(), peer, r, token(fmt.Sprintf("0-%d.1", 99-i))); !errors.Is(err, tenure.ErrStale) {
				t.Errorf("%q: %v, want stale", r, err)
			}
		}
	})
}

func TestWhatTheWorkReturnsIsReturned(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		broken := errors.New("disk full")
		if err := store.Do(t.Context(), order, token("0-9.1"), func(context.Context) error { return broken }); err != broken {
			t.Error(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = store.Do(t.Context(), order, token("0-9.1"), func(context.Context) error { panic("boom") })
		}()
		if err := fence.Check(t.Context(), peer, order, token("0-10.1")); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// start runs work that ends when the test says so, and returns when it runs.
func start(t *testing.T, s fence.Store, tok string) (end func()) {
	t.Helper()
	begun, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Do(context.Background(), order, token(tok), func(context.Context) error {
			close(begun)
			<-stop
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatalf("%s did not run: %v", tok, err)
	}
	return sync.OnceFunc(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", tok, err)
		}
	})
}

// A stale request that was admitted and is slow must not write after the newer
// holder has: the newer one waits for it, and none like it comes in meanwhile.
//
// proves: T5
func TestAHigherTokenWaitsForWhatRunsBelowItAndShutsItOut(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		end := start(t, store, "0-9.1")
		also := start(t, peer, "0-9.1") // under one token, side by side
		var order9Running sync.Mutex
		running := true
		newer := make(chan error, 2)
		for _, s := range []fence.Store{peer, store} { // the second under an equal token must not slip in either
			go func() {
				newer <- s.Do(context.Background(), order, token("0-10.1"), func(context.Context) error {
					order9Running.Lock()
					defer order9Running.Unlock()
					if running {
						return errors.New("the newer holder was let in beside the older one")
					}
					return nil
				})
			}()
		}
		for _, s := range []fence.Store{store, peer} {
			shutOut := false
			for until := time.Now().Add(10 * time.Second); !shutOut && time.Now().Before(until); {
				shutOut = errors.Is(fence.Check(t.Context(), s, order, token("0-9.1")), tenure.ErrStale)
			}
			if !shutOut {
				t.Error("the older token still passes while the newer one waits")
			}
		}
		also()
		select {
		case err := <-newer:
			t.Errorf("the newer holder did not wait for all: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		order9Running.Lock()
		running = false
		order9Running.Unlock()
		end()
		if err := errors.Join(<-newer, <-newer); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		end := start(t, store, "0-9.1")
		defer end()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := fence.Check(ctx, peer, order, token("0-10.1"))
		if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want unavailable and why", err)
		}
		if err := fence.Check(t.Context(), store, order, token("0-9.1")); !errors.Is(err, tenure.ErrStale) {
			t.Errorf("the higher token was seen, and then: %v", err)
		}
	})
}

func TestAHigherTokenOvertakenWhileItWaitsIsRefused(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		end := start(t, store, "0-9.1")
		waits := make(chan error, 1)
		go func() { waits <- fence.Check(context.Background(), peer, order, token("0-10.1")) }()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for range 2 { // whichever of 10 and 11 comes first, 11 is seen
			_ = fence.Check(ctx, store, order, token("0-11.1"))
		}
		end()
		if err := <-waits; !errors.Is(err, tenure.ErrStale) {
			t.Errorf("%v, want stale", err)
		}
	})
}

// Holders that come and go, each with several requests at a time: no two tokens
// are ever at work at once, and they only rise.
//
// proves: T1, T7
func TestTokensAtWorkOnlyRise(t *testing.T) {
	each(t, func(t *testing.T, store, peer fence.Store) {
		var mu sync.Mutex
		var highest tenure.Token
		working, ran := map[tenure.Token]int{}, 0
		var all sync.WaitGroup
		for i := range 60 {
			s := []fence.Store{store, peer}[i%2]
			tok := tenure.Token{Lease: tenure.LeaseID{LSN: tenure.LSN(1 + i/4)}, Epoch: 1}
			all.Go(func() {
				err := s.Do(context.Background(), order, tok, func(context.Context) error {
					mu.Lock()
					working[tok]++
					ran++
					if len(working) != 1 || tok.Compare(highest) < 0 {
						t.Errorf("at work: %v, after %v", working, highest)
					}
					highest = tok
					mu.Unlock()
					<-time.After(time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					if working[tok]--; working[tok] == 0 {
						delete(working, tok)
					}
					return nil
				})
				if err != nil && !errors.Is(err, tenure.ErrStale) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ran < 4 || highest != (tenure.Token{Lease: tenure.LeaseID{LSN: 15}, Epoch: 1}) {
			t.Errorf("%d ran, the last under %v", ran, highest)
		}
	})
}
