package enginetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tenurehq/tenure"
)

// fieldCases are about what may be asked: every field at its limits, and
// capabilities that are lacking.
var fieldCases = []testCase{
	{
		ID: "E18", Name: "every name at its limits",
		Says: "Given names of resources and holders at and beyond their limits, when they are claimed, then the former are granted as they are, the latter are invalid by the name of the field.",
		Run: func(p *probe) {
			key := func(n int) tenure.Resource { return tenure.Resource("suite/" + strings.Repeat("k", n)) }
			holder := func(s string) func(*tenure.Claim) { return func(c *tenure.Claim) { c.Holder = tenure.Holder(s) } }
			resource := func(r tenure.Resource) func(*tenure.Claim) {
				return func(c *tenure.Claim) { c.Resources = []tenure.Resource{r} }
			}
			p.fields([]field{
				{"", "a key of 1 byte", resource(key(1))},
				{"", "a key of 512 bytes", resource(key(tenure.MaxKeyBytes))},
				{"", "a key with everything in it", resource("suite/ä b/.*>$%\"'\\\u00a0\U0001f680")},
				{"", "8 elements of 63 bytes", resource(tenure.Resource(strings.Repeat("."+strings.Repeat("n", tenure.MaxElementBytes), tenure.MaxNamespaceElements)[1:] + "/" + strings.Repeat("k", tenure.MaxKeyBytes)))},
				{"resource", "no namespace", resource("press")},
				{"resource", "an empty key", resource("suite/")},
				{"resource", "a key of 513 bytes", resource(key(tenure.MaxKeyBytes + 1))},
				{"resource", "a control character", resource("suite/a\x07")},
				{"resource", "a C1 control character", resource("suite/a\u0085")},
				{"resource", "broken UTF-8", resource("suite/a\xff")},
				{"namespace", "an element of 64 bytes", resource(tenure.Resource(strings.Repeat("n", tenure.MaxElementBytes+1) + "/k"))},
				{"namespace", "9 elements", resource(tenure.Resource(strings.Repeat("n.", tenure.MaxNamespaceElements) + "n/k"))},
				{"namespace", "an empty element", resource("a..b/k")},
				{"namespace", "a foreign letter", resource("sömmer/k")},
				{"resources", "no resource", func(c *tenure.Claim) { c.Resources = nil }},
				{"", "a holder of 1 byte", holder("h")},
				{"", "a holder of 256 bytes", holder(strings.Repeat("h", tenure.MaxHolderBytes))},
				{"", "a holder in UTF-8", holder("Jürgen / 日本")},
				{"holder", "a holder of 257 bytes", holder(strings.Repeat("h", tenure.MaxHolderBytes+1))},
				{"holder", "a holder with a line break", holder("a\nb")},
				{"holder", "a holder that is not UTF-8", holder("a\xc0")},
			})
		},
	},
	{ // proves: T12
		ID: "E19", Name: "every duration and the meta at their limits",
		Set: func(l *tenure.Limits) {
			l.MinTTL, l.MaxTTL, l.MaxGrace = 200*time.Millisecond, time.Hour, time.Minute
		},
		Says: "Given TTL, grace, wait and meta at, below and above their limits, when they are claimed, then what is within is granted as asked, the rest is invalid by the name of the field.",
		Run: func(p *probe) {
			ttl := func(d time.Duration) func(*tenure.Claim) { return func(c *tenure.Claim) { c.TTL = d } }
			grace := func(d time.Duration) func(*tenure.Claim) { return func(c *tenure.Claim) { c.Grace = d } }
			const ms = time.Millisecond
			p.fields([]field{
				{"", "the shortest TTL", ttl(p.limits.MinTTL)},
				{"", "the longest TTL", func(c *tenure.Claim) { c.TTL, c.Grace = p.limits.MaxTTL, tenure.NoGrace }},
				{"", "no TTL", ttl(tenure.NoTTL)},
				{"", "a TTL that is rounded up into range", ttl(p.limits.MinTTL - ms/2)},
				{"ttl", "a TTL too short", ttl(p.limits.MinTTL - ms)},
				{"ttl", "a TTL too long", ttl(p.limits.MaxTTL + ms)},
				{"ttl", "a TTL of centuries", ttl(1<<63 - 1)},
				{"ttl", "a negative TTL", ttl(-2)},
				{"", "no grace", grace(tenure.NoGrace)},
				{"", "a grace of 1 ms", grace(ms)},
				{"", "the longest grace", grace(p.limits.MaxGrace)},
				{"grace", "a grace too long", grace(p.limits.MaxGrace + ms)},
				{"grace", "a negative grace", grace(-2)},
				{"wait", "a negative wait", func(c *tenure.Claim) { c.Wait = -1 }},
				{"", "a wait that is not needed", func(c *tenure.Claim) { c.Wait = time.Hour }},
				{"", "meta of 4 KiB", func(c *tenure.Claim) { c.Meta = bytes.Repeat([]byte{0, 255}, tenure.MaxMetaBytes/2) }},
				{"meta", "meta of more", func(c *tenure.Claim) { c.Meta = make([]byte, tenure.MaxMetaBytes+1) }},
			})
		},
	},
	{
		ID: "E20", Name: "the reserve window at its limits", Needs: tenure.Caps{Reserve: true},
		Set:  func(l *tenure.Limits) { l.MinReserve, l.MaxReserve = 200*time.Millisecond, time.Hour },
		Says: "Given reserve windows at, below and above their limits, when they are claimed, then what is within is reserved, the rest is invalid by the name of the field.",
		Run: func(p *probe) {
			reserve := func(d time.Duration) func(*tenure.Claim) { return func(c *tenure.Claim) { c.Reserve = d } }
			p.fields([]field{
				{"", "the shortest window", reserve(p.limits.MinReserve)},
				{"", "the longest window", reserve(p.limits.MaxReserve)},
				{"reserve", "a window too short", reserve(p.limits.MinReserve - time.Millisecond)},
				{"reserve", "a window too long", reserve(p.limits.MaxReserve + time.Millisecond)},
				{"reserve", "a negative window", reserve(-time.Second)},
			})
		},
	},
	{
		ID: "E21", Name: "commands and questions that are malformed",
		Says: "Given commands, reads and filters with one malformed field each, when they are sent, then each is invalid by the name of the field, and the lease is untouched.",
		Run:  malformedRequests,
	},
	{ // proves: T12
		ID: "E22", Name: "the size of a renewal is bounded",
		Says: "Given a lease, when it is renewed in a call with 10,000 refs, then each is answered; with one more, the call as a whole is invalid; with none, there is no answer and no error.",
		Run: func(p *probe) {
			l := p.acquire(p.claim("ann", "press"))
			refs := make([]tenure.Ref, tenure.MaxRefsPerRenew+1)
			for i := range refs {
				refs[i] = ref(l)
			}
			each, err := p.Engine.Renew(p.ctx, refs[1:])
			if err != nil || len(each) != len(refs)-1 {
				p.Fatalf("%d answers, %v", len(each), err)
			}
			for i, err := range each {
				if err != nil {
					p.Fatalf("answer %d: %v", i, err)
				}
			}
			_, err = p.Engine.Renew(p.ctx, refs)
			p.code(err, tenure.ErrInvalid)
			if each, err := p.Engine.Renew(p.ctx, nil); err != nil || len(each) != 0 {
				p.Errorf("no refs: %d answers, %v", len(each), err)
			}
		},
	},
	{
		ID: "E23", Name: "what is not claimed is refused by name",
		Says: "Given an engine that lacks a capability, when it is asked for it, then the answer is that this is not supported, and nothing has happened.",
		Run: func(p *probe) {
			unsupported := func(err error) {
				p.Helper()
				if p.code(err, tenure.ErrUnsupported).Field == "" {
					p.Errorf("%v does not name the capability", err)
				}
			}
			l := p.acquire(p.claim("ann", "press"))
			if !p.caps.Bundles {
				_, err := p.Engine.Acquire(p.ctx, p.claim("bob", "a", "b"))
				unsupported(err)
				p.free("a")
			}
			if !p.caps.Reserve {
				_, err := p.Engine.Acquire(p.ctx, p.reservation("bob", time.Minute, "a"))
				unsupported(err)
				p.free("a")
			}
			if !p.caps.History {
				for _, err := range p.Engine.List(p.ctx, tenure.Filter{Ended: true}) {
					unsupported(err)
				}
			}
			if !p.caps.MinLSN {
				_, err := p.Engine.Lookup(p.ctx, tenure.Query{Resource: at("press"), MinLSN: l.LSN})
				unsupported(err)
				for _, err := range p.Engine.List(p.ctx, tenure.Filter{MinLSN: l.LSN}) {
					unsupported(err)
				}
			}
			p.same(l)
		},
	},
}

// field is a claim with one field changed; name is the field of the refusal,
// empty if there is none.
type field struct {
	name string
	what string
	set  func(*tenure.Claim)
}

func (p *probe) fields(all []field) {
	p.Helper()
	for _, f := range all {
		c := p.claim("ann", "press")
		f.set(&c)
		l, err := p.Engine.Acquire(p.ctx, c)
		switch {
		case f.name == "" && err != nil:
			p.Errorf("%s: %v", f.what, err)
		case f.name == "":
			p.asAsked(f.what, c, p.note(l))
			p.release(l)
		case err == nil:
			p.Errorf("%s was granted", f.what)
			p.release(l)
		default:
			if e := p.code(err, tenure.ErrInvalid); e.Field != f.name {
				p.Errorf("%s: the field is %q, want %q", f.what, e.Field, f.name)
			}
		}
	}
}

// asAsked asserts that a grant kept what was asked for, also for a later reader.
func (p *probe) asAsked(what string, c tenure.Claim, granted tenure.Lease) {
	p.Helper()
	c = c.Resolve()
	grace := max(c.Grace, 0) // NoGrace
	for _, l := range []tenure.Lease{granted, p.look(granted)} {
		if l.Resource != c.Resources[0] || l.Holder != c.Holder || l.TTL != c.TTL || l.Grace != grace || !bytes.Equal(l.Meta, c.Meta) {
			p.Errorf("%s: granted %q to %q, TTL %v, grace %v, %d B of meta; asked for %q, %q, %v, %v, %d B",
				what, l.Resource, l.Holder, l.TTL, l.Grace, len(l.Meta), c.Resources[0], c.Holder, c.TTL, grace, len(c.Meta))
		}
	}
}

func malformedRequests(p *probe) {
	l := p.acquire(p.claim("ann", "press"))
	long := strings.Repeat("x", tenure.MaxReasonBytes+1)
	for _, x := range []struct {
		field string
		c     tenure.Command
	}{
		{"command", nil},
		{"token", tenure.Release{Holder: "ann", Ref: tenure.Ref{Resource: at("press")}}},
		{"resource", tenure.Release{Holder: "ann", Ref: tenure.Ref{Token: l.Token, Resource: "press"}}},
		{"holder", tenure.Release{Ref: l.Ref}},
		{"holder", tenure.Release{Ref: l.Ref, Holder: "a\nb"}},
		{"result", tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeLapsed}}},
		{"detail", tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: long}}},
		{"detail", tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: "\xff"}}},
		{"token", tenure.Activate{Holder: "ann", Ref: tenure.Ref{Resource: at("press")}}},
		{"holder", tenure.Activate{Ref: l.Ref}},
		{"lease", tenure.Revoke{Resource: at("press")}},
		{"reason", tenure.Revoke{Lease: l.ID, Resource: at("press"), Reason: long}},
		{"lease", tenure.Reclaim{Resource: at("press"), HolderIsDead: true}},
	} {
		if err := p.refused(x.c, tenure.ErrInvalid); err.Field != x.field {
			p.Errorf("%T: the field is %q, want %q", x.c, err.Field, x.field)
		}
	}
	_, err := p.Engine.Lookup(p.ctx, tenure.Query{})
	p.code(err, tenure.ErrInvalid)
	_, err = p.Engine.Lookup(p.ctx, tenure.Query{Resource: "press"})
	p.code(err, tenure.ErrInvalid)
	p.code(p.renew(tenure.Ref{Resource: at("press")}), tenure.ErrInvalid)
	for _, f := range []tenure.Filter{{Resource: "press"}, {Namespace: "a..b"}, {Holder: "a\n"}, {State: 99}} {
		p.code(first(p.Engine.List(p.ctx, f)), tenure.ErrInvalid)
		p.code(first(p.Engine.Watch(p.ctx, f)), tenure.ErrInvalid)
	}
	p.same(l)
	p.do(tenure.Release{Ref: l.Ref, Holder: "ann", Result: tenure.Result{Outcome: tenure.OutcomeFailed, Detail: long[1:]}})
}

// first is the error of the first element.
func first[V any](seq func(yield func(V, error) bool)) (first error) {
	for _, err := range seq {
		return err
	}
	return nil
}

func endedContext(p *probe) {
	l := p.acquire(p.claim("ann", "press"))
	cause := errors.New("the shift is over")
	ctx, end := context.WithCancelCause(p.ctx)
	end(cause)
	asked := map[string]func() error{
		"claim":         func() error { _, err := p.Engine.Acquire(ctx, p.claim("bob", "drill")); return err },
		"waiting claim": func() error { _, err := p.Engine.Acquire(ctx, waits(p.claim("bob", "press"))); return err },
		"command":       func() error { _, err := p.Engine.Do(ctx, release(l)); return err },
		"lookup":        func() error { _, err := p.Engine.Lookup(ctx, tenure.Query{Resource: at("press")}); return err },
		"list":          func() error { return first(p.Engine.List(ctx, tenure.Filter{})) },
	}
	for what, ask := range asked {
		if err := ask(); !errors.Is(err, cause) {
			p.Errorf("%s: %v does not wrap the cause", what, err)
		}
	}
	p.same(l)
	p.free("drill")
	p.release(l)
	p.acquire(p.claim("cid", "press"))
}
