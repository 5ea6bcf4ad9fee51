package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/server"
)

// scripted is an engine whose answers a test decides; it keeps no leases.
type scripted struct {
	tenure.Engine
	acquire func(context.Context, tenure.Claim) (tenure.Lease, error)
	done    chan tenure.Command
	renewed chan []tenure.Ref
	leases  int // that a listing yields
}

func (e *scripted) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return e.acquire(ctx, c)
}

func (e *scripted) Do(_ context.Context, c tenure.Command) (tenure.Lease, error) {
	e.done <- c
	return tenure.Lease{State: tenure.StateReleased}, nil
}

func (e *scripted) Renew(_ context.Context, refs []tenure.Ref) ([]error, error) {
	e.renewed <- refs
	each := make([]error, len(refs))
	for i, ref := range refs {
		if ref.Token.Lease.LSN%2 == 1 {
			each[i] = &tenure.Error{Code: tenure.ErrStale, Lease: ref.Token.Lease}
		}
	}
	return each, nil
}

func (e *scripted) List(context.Context, tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return func(yield func(tenure.Lease, error) bool) {
		for i := range e.leases {
			if !yield(tenure.Lease{ID: tenure.LeaseID{LSN: tenure.LSN(i + 1)}, State: tenure.StateActive}, nil) {
				return
			}
		}
	}
}

func (e *scripted) Caps() tenure.Caps { return tenure.Caps{Fair: true, JudgesLate: true} }

// granted is a lease on the first resource of a claim.
func granted(c tenure.Claim, lsn tenure.LSN) tenure.Lease {
	id := tenure.LeaseID{LSN: lsn}
	return tenure.Lease{
		Ref: tenure.Ref{Token: tenure.Token{Lease: id, Epoch: 1}, Resource: c.Resources[0]}, ID: id, Epoch: 1,
		Resources: c.Resources, Holder: c.Holder, State: tenure.StateActive, TTL: c.TTL, LSN: lsn, AsOf: lsn,
	}
}

func scriptedClient(t testing.TB, e *scripted) *client.Client {
	t.Helper()
	address, _ := serve(t, e, server.Config{})
	return dial(t, address)
}

// The wait ends while the grant is on its way: it is given back.
func TestRacedGrantIsGivenBack(t *testing.T) {
	for _, closes := range []bool{false, true} {
		waits := make(chan struct{})
		e := &scripted{done: make(chan tenure.Command, 1), acquire: func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			close(waits)
			<-ctx.Done()
			return granted(c, 42), nil
		}}
		c := scriptedClient(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			claim := on("a/1", "me")
			claim.Wait = tenure.WaitForever
			_, err := c.Acquire(ctx, claim)
			failed <- err
		}()
		<-waits
		cancel()
		if err := <-failed; !errors.Is(err, tenure.ErrHeld) {
			t.Fatalf("the wait ended with %v", err)
		}
		if closes { // at once: the grant must not be left behind
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		r, ok := (<-e.done).(tenure.Release)
		if !ok || r.Ref.Token.String() != "0-42.1" || r.Ref.Resource != "a/1" || r.Holder != "me" {
			t.Fatalf("given back: %+v", r)
		}
	}
}

// A repeat that is told that its tenure is over asks again under a fresh
// operation if the client had drawn it; a caller's own is its own affair.
func TestReplayThatIsOver(t *testing.T) {
	var asked []tenure.Op
	e := &scripted{acquire: func(_ context.Context, c tenure.Claim) (tenure.Lease, error) {
		asked = append(asked, c.Op)
		l := granted(c, tenure.LSN(10+len(asked)))
		if len(asked) != 2 {
			l.Replayed, l.Token, l.State = true, tenure.Token{}, tenure.StateReleased
		}
		return l, nil
	}}
	c := scriptedClient(t, e)
	l, err := c.Acquire(t.Context(), on("a/1", "me"))
	if err != nil || l.Token.IsZero() || len(asked) != 2 || asked[0].ID == asked[1].ID || asked[1].Seen < 11 {
		t.Fatalf("%+v %v, asked %v", l, err, asked)
	}
	claim := on("a/1", "me")
	claim.Op = tenure.NewOp(5)
	l, err = c.Acquire(t.Context(), claim)
	if err != nil || !l.Replayed || !l.Token.IsZero() || len(asked) != 3 || asked[2] != claim.Op {
		t.Fatalf("%+v %v, asked %v", l, err, asked)
	}
}

// A client that had not heard from the server for long draws an operation that
// is too old at birth. It was never executed, so another may follow.
func TestOperationTooOldAtBirth(t *testing.T) {
	var asked []tenure.Op
	e := &scripted{acquire: func(_ context.Context, c tenure.Claim) (tenure.Lease, error) {
		asked = append(asked, c.Op)
		if c.Op.Seen < 500 {
			return tenure.Lease{}, &tenure.Error{Code: tenure.ErrRetired, LSN: 700}
		}
		return granted(c, 701), nil
	}}
	c := scriptedClient(t, e)
	if _, err := c.Acquire(t.Context(), on("a/1", "me")); err != nil || len(asked) != 2 || asked[1].Seen != 700 {
		t.Fatalf("%v, asked %v", err, asked)
	}
	claim := on("a/1", "me")
	claim.Op = tenure.NewOp(5)
	if _, err := c.Acquire(t.Context(), claim); !errors.Is(err, tenure.ErrRetired) || len(asked) != 3 {
		t.Fatalf("a caller's own: %v, asked %v", err, asked)
	}
}

// What the claim asks for arrives as it was asked, defaults resolved here.
func TestClaimCrossesTheWire(t *testing.T) {
	var got tenure.Claim
	e := &scripted{acquire: func(_ context.Context, c tenure.Claim) (tenure.Lease, error) {
		got = c
		return granted(c, 3), nil
	}}
	c := scriptedClient(t, e)
	claims := []tenure.Claim{
		tenure.On("a/1"),
		{Resources: []tenure.Resource{"a/1", "b.c/2"}, Holder: "me", TTL: tenure.NoTTL, Grace: time.Second, Meta: []byte{0, 255}},
		{Resources: []tenure.Resource{"a/1"}, Holder: "me", TTL: 1500 * time.Microsecond, Grace: tenure.NoGrace, Reserve: time.Hour},
		{Resources: []tenure.Resource{"a/1"}, Holder: "me", Wait: tenure.WaitForever, Op: tenure.NewOp(77)},
	}
	for _, claim := range claims {
		if _, err := c.Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		want := claim.Resolve()
		if want.Op.IsZero() {
			want.Op = got.Op
		}
		if got.Op.IsZero() || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v\narrived as %+v", want, got)
		}
	}
	for _, bad := range []tenure.Claim{
		on("a/\xff", "me"), on("a/1", "\xff"), {Resources: []tenure.Resource{"a/1"}, Holder: "me", TTL: -5 * time.Second},
		{Resources: []tenure.Resource{"a/1"}, Holder: "me", Wait: -1}, {Resources: []tenure.Resource{"a/1"}, Holder: "me", TTL: 2000 * time.Hour},
		{Resources: []tenure.Resource{"a/1"}, Holder: "me", Meta: make([]byte, 1<<20)},
	} {
		got = tenure.Claim{}
		if _, err := c.Acquire(t.Context(), bad); !errors.Is(err, tenure.ErrInvalid) || got.Holder != "" {
			t.Errorf("%.200v: %v", fmt.Sprintf("%+v", bad), err)
		}
	}
}

// 10,000 refs with long names are more than one message may hold.
func TestRenewSplitsMessages(t *testing.T) {
	e := &scripted{renewed: make(chan []tenure.Ref, 100)}
	c := scriptedClient(t, e)
	refs := make([]tenure.Ref, tenure.MaxRefsPerRenew)
	for i := range refs {
		refs[i] = tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{LSN: tenure.LSN(i + 2)}, Epoch: 1}, Resource: tenure.Resource(fmt.Sprintf("name.space/%0200d", i))}
	}
	refs[5000].Resource = "a/\xff"
	each, err := c.Renew(t.Context(), refs)
	if err != nil || len(each) != len(refs) {
		t.Fatal(err)
	}
	for i, err := range each {
		want := tenure.Code(0)
		if i%2 == 1 {
			want = tenure.ErrStale
		}
		if i == 5000 {
			want = tenure.ErrInvalid
		}
		if tenure.CodeOf(err) != want {
			t.Fatalf("ref %d: %v, want %v", i, err, want)
		}
	}
	messages, arrived := len(e.renewed), 0
	for range messages {
		arrived += len(<-e.renewed)
	}
	if messages < 2 || arrived != len(refs)-1 {
		t.Fatalf("%d refs in %d messages", arrived, messages)
	}
	if _, err := c.Renew(t.Context(), append(refs, refs[0])); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("one ref too many: %v", err)
	}
	if each, err := c.Renew(t.Context(), nil); err != nil || len(each) != 0 {
		t.Errorf("no refs: %v %v", each, err)
	}
}

func TestListTurnsPages(t *testing.T) {
	c := scriptedClient(t, &scripted{leases: 2*tenure.MaxPageSize + 1})
	n := 0
	for l, err := range c.List(t.Context(), tenure.Filter{}) {
		if n++; err != nil || l.ID.LSN != tenure.LSN(n) {
			t.Fatalf("lease %d: %+v %v", n, l, err)
		}
	}
	if n != 2*tenure.MaxPageSize+1 {
		t.Fatalf("%d leases", n)
	}
	for range c.List(t.Context(), tenure.Filter{}) {
		break
	}
	if caps := c.Caps(); caps != (tenure.Caps{Fair: true, JudgesLate: true}) {
		t.Errorf("%+v", caps)
	}
}
