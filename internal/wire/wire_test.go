package wire_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// Every code has a row, and every error comes back as it was, over gRPC and in
// an answer of a packed stream.
func TestEveryCodeCrosses(t *testing.T) {
	for _, code := range tenure.Codes() {
		sent := &tenure.Error{
			Code: code, Resource: "a/1", Lease: tenure.LeaseID{LSN: 42}, Holder: "me", Free: 1500 * time.Millisecond,
			Field: "ttl", LSN: 77, Op: tenure.NewOp(76), Why: "because",
		}
		err := wire.Status(fmt.Errorf("wrapped: %w", sent))
		if c := status.Code(err); c == codes.OK || c == codes.Canceled || c == codes.DeadlineExceeded {
			t.Errorf("%v leaves as %v", code, c)
		}
		got, answered := wire.FromStatus(err)
		if !answered || !reflect.DeepEqual(got, sent) || wire.Cut(err) {
			t.Errorf("%+v\ncame back as %+v (cut: %v)", sent, got, wire.Cut(err))
		}
		if got := wire.ToError(wire.FromError(sent)); !reflect.DeepEqual(got, sent) {
			t.Errorf("%+v\ncame back as %+v", sent, got)
		}
		if got, answered := wire.FromStatus(wire.Status(code)); !answered || got.Code != code {
			t.Errorf("the bare code %v came back as %v", code, got)
		}
		if s := wire.HTTPStatus(code); s < 400 || s > 599 {
			t.Errorf("%v is HTTP %d", code, s)
		}
	}
	if got := wire.HTTPStatus(tenure.ErrHeld); got != 409 || status.Code(wire.Status(tenure.ErrHeld)) != codes.FailedPrecondition {
		t.Errorf("held is HTTP %d and %v", got, status.Code(wire.Status(tenure.ErrHeld)))
	}
	if wire.Status(nil) != nil {
		t.Error("no error has a status")
	}
}

// What is not a *tenure.Error says nothing about what happened, and what lies
// below an error survives as text.
func TestErrorsOfOtherOrigin(t *testing.T) {
	if m := wire.FromError(errors.New("disk \xff")); m.Code != "unknown_outcome" || !strings.Contains(m.Why, "disk") || !proto.Equal(m, roundTrip(t, m)) {
		t.Errorf("%v", m)
	}
	m := wire.FromError(&tenure.Error{Code: tenure.ErrHalted, Why: "a write failed", Cause: errors.New("no space"), Free: 2000 * time.Hour})
	if m.Why != "a write failed: no space" || m.FreeInMs != 1<<32-1 {
		t.Errorf("%v", m)
	}
	if e := wire.ToError(&pb.Error{Code: "tired", Why: "at night"}); e.Code != tenure.ErrUnknownOutcome || !strings.Contains(e.Why, "tired") {
		t.Errorf("a newer code: %v", e)
	}
	for code, cut := range map[codes.Code]bool{
		codes.Unavailable: true, codes.Canceled: true, codes.Internal: true, codes.Unknown: true,
		codes.Unauthenticated: false, codes.Unimplemented: false, codes.ResourceExhausted: false, codes.InvalidArgument: false,
	} {
		if err := status.Error(code, "x"); wire.Cut(err) != cut {
			t.Errorf("%v cuts: %v", code, !cut)
		}
	}
}

func roundTrip[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	back := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, back); err != nil {
		t.Fatal(err)
	}
	return back
}

func genLease(t *rapid.T) tenure.Lease {
	ms := func(most int64) time.Duration {
		return time.Duration(rapid.Int64Range(0, most).Draw(t, "ms")) * time.Millisecond
	}
	at := func(name string) time.Time {
		if n := rapid.Int64Range(-1, 1<<40).Draw(t, name); n >= 0 {
			return time.UnixMilli(n).UTC()
		}
		return time.Time{}
	}
	l := tenure.Lease{
		ID:    tenure.LeaseID{Shard: rapid.Uint16().Draw(t, "shard"), LSN: tenure.LSN(rapid.Uint64Range(1, uint64(tenure.MaxLSN)).Draw(t, "id"))},
		Epoch: tenure.Epoch(rapid.Uint32Min(1).Draw(t, "epoch")), State: tenure.State(rapid.Uint8Range(1, 6).Draw(t, "state")),
		Holder: tenure.Holder(rapid.String().Draw(t, "holder")), TTL: ms(1<<32 - 1), Grace: ms(1<<32 - 1),
		Prior: tenure.Ending(rapid.Uint8Range(0, 3).Draw(t, "prior")), Replayed: rapid.Bool().Draw(t, "replayed"),
		Result: tenure.Result{Outcome: tenure.Outcome(rapid.Uint8Range(0, 4).Draw(t, "outcome")), Detail: rapid.String().Draw(t, "detail")},
		LSN:    tenure.LSN(rapid.Uint64Max(uint64(tenure.MaxLSN)).Draw(t, "lsn")), AsOf: tenure.LSN(rapid.Uint64Max(uint64(tenure.MaxLSN)).Draw(t, "as of")),
		GrantedAt: at("granted"), EndedAt: at("ended"), ExpiresIn: ms(1 << 31), FreeIn: ms(1 << 31),
	}
	l.Resources = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) tenure.Resource {
		return tenure.Resource("n/" + rapid.StringN(1, 8, 20).Draw(t, "key"))
	}), 1, 4).Draw(t, "resources")
	l.Resource = rapid.SampledFrom(l.Resources).Draw(t, "resource")
	if rapid.Bool().Draw(t, "no ttl") {
		l.TTL = tenure.NoTTL
	}
	if meta := rapid.SliceOf(rapid.Byte()).Draw(t, "meta"); len(meta) > 0 {
		l.Meta = meta
	}
	if l.State.Held() {
		l.Token = tenure.Token{Lease: l.ID, Epoch: l.Epoch}
	}
	return l
}

func TestLeaseCrosses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sent := genLease(rt)
		got, err := wire.ToLease(roundTrip(t, wire.FromLease(&sent)))
		if err != nil || !reflect.DeepEqual(got, sent) {
			rt.Fatalf("%+v\ncame back as %+v, %v", sent, got, err)
		}
		ev := tenure.Event{Position: tenure.Position{LSN: sent.LSN, Index: 3}, Kind: tenure.EventRevoking, At: sent.GrantedAt, Lease: sent}
		if got, err := wire.ToEvent(roundTrip(t, wire.FromEvent(&ev, 0))); err != nil || !reflect.DeepEqual(got, ev) {
			rt.Fatalf("%+v\ncame back as %+v, %v", ev, got, err)
		}
	})
}

// The time left is never told longer than it is, the time until something is
// free never shorter, and 0 is kept for what is not known.
//
// proves: T6
func TestRemainingTimesAreRoundedToTheSafeSide(t *testing.T) {
	for _, c := range []struct{ d, expires, free time.Duration }{
		{0, 0, 0},
		{1, time.Millisecond, time.Millisecond},
		{time.Millisecond, time.Millisecond, time.Millisecond},
		{1999 * time.Microsecond, time.Millisecond, 2 * time.Millisecond},
		{-time.Second, 0, 0},
		{1200 * time.Hour, (1<<32 - 1) * time.Millisecond, (1<<32 - 1) * time.Millisecond},
	} {
		l := tenure.Lease{State: tenure.StateActive, ExpiresIn: c.d, FreeIn: c.d}
		got, err := wire.ToLease(wire.FromLease(&l))
		if err != nil || got.ExpiresIn != c.expires || got.FreeIn != c.free {
			t.Errorf("%v: expires in %v, free in %v, %v", c.d, got.ExpiresIn, got.FreeIn, err)
		}
	}
}

func TestCommandsCross(t *testing.T) {
	ref := tenure.Ref{Token: tenure.Token{Lease: tenure.LeaseID{Shard: 3, LSN: 42}, Epoch: 7}, Resource: "a/1"}
	back := func(c tenure.Command) (tenure.Command, error) {
		r, err := wire.FromCommand(c)
		if err != nil {
			return nil, err
		}
		switch c := roundTrip(t, r).Call.(type) {
		case *pb.Request_Activate:
			return wire.ToActivate(c.Activate)
		case *pb.Request_Release:
			return wire.ToRelease(c.Release)
		case *pb.Request_Revoke:
			return wire.ToRevoke(c.Revoke)
		case *pb.Request_Reclaim:
			return wire.ToReclaim(c.Reclaim)
		}
		return nil, fmt.Errorf("it became %v", r)
	}
	for _, c := range []tenure.Command{
		tenure.Activate{Ref: ref, Holder: "me"}, tenure.Activate{},
		tenure.Release{Ref: ref, Holder: "me"}, tenure.Release{Ref: ref, Holder: "me", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "x"}},
		tenure.Revoke{Lease: ref.Token.Lease, Resource: "a/1", Reason: "why\nnot"}, tenure.Revoke{},
		tenure.Reclaim{Lease: ref.Token.Lease, Resource: "a/1", HolderIsDead: true}, tenure.Reclaim{Lease: ref.Token.Lease},
	} {
		if got, err := back(c); err != nil || got != c {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
	for _, c := range []tenure.Command{
		nil, tenure.Activate{Ref: tenure.Ref{Resource: "\xff"}}, tenure.Release{Holder: "\xff"}, tenure.Revoke{Reason: "\xff"}, tenure.Reclaim{Resource: "\xff"},
	} {
		if got, err := back(c); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func TestFiltersCross(t *testing.T) {
	f := tenure.Filter{Resource: "a/1", Namespace: "a", Children: true, Holder: "me", State: tenure.StateRevoking, MinLSN: 9}
	list := f
	list.Ended = true
	if got, err := wire.ToList(roundTrip(t, wire.FromList(list, 5, "x"))); err != nil || got != list {
		t.Errorf("%+v came back as %+v, %v", list, got, err)
	}
	watch := f
	watch.From = tenure.Position{LSN: 8, Index: 2}
	if got, err := wire.ToWatch(roundTrip(t, wire.FromWatch(watch))); err != nil || got != watch {
		t.Errorf("%+v came back as %+v, %v", watch, got, err)
	}
	for _, q := range []tenure.Query{{Resource: "a/1", MinLSN: 4}, {ID: tenure.LeaseID{LSN: 3}}} {
		m, err := wire.FromQuery(q)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ToQuery(roundTrip(t, m)); err != nil || got != q {
			t.Errorf("%+v came back as %+v, %v", q, got, err)
		}
	}
	// Every capability has a field of its own.
	caps := reflect.TypeFor[tenure.Caps]()
	for i := range caps.NumField() {
		var c tenure.Caps
		reflect.ValueOf(&c).Elem().Field(i).SetBool(true)
		if got := wire.ToCaps(wire.FromCaps(c)); got != c {
			t.Errorf("%+v came back as %+v", c, got)
		}
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"resources":["a/1"],"holder":"me","ttl_ms":1000,"meta":"aGk="}`,
		`{"ttlMs":"7","no_ttl":null}`, `{"resources":[{"a":1}]}`, `{"meta":"%"}`, "{\"holder\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var m pb.AcquireRequest
		if err := wire.UnmarshalJSON(body, &m); err != nil {
			var e *tenure.Error
			if !errors.As(err, &e) || e.Code != tenure.ErrInvalid || e.Field == "" || e.Why == "" {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		line, err := wire.MarshalJSON(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back pb.AcquireRequest
		if err := wire.UnmarshalJSON(line, &back); err != nil || !proto.Equal(&m, &back) {
			t.Fatalf("%q\nbecame %s\nthen %v, %v", body, line, &back, err)
		}
	})
}
