package kv

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tenurehq/tenure"
)

// sample is a record as an engine writes it.
func sample(t *testing.T) (*MemoryStore, *Engine, tenure.Lease) {
	t.Helper()
	m := Memory()
	e, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := tenure.On("default/press")
	c.Holder, c.Meta = "ann <ann@example.org>", []byte{0, 1, 2}
	l, err := e.Acquire(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m, e, l
}

func edited(t *testing.T, value []byte, edit func(r map[string]any)) []byte {
	t.Helper()
	var r map[string]any
	if err := json.Unmarshal(value, &r); err != nil {
		t.Fatal(err)
	}
	edit(r)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealed gives a record that contradicts itself a check that fits.
func sealed(t *testing.T, value []byte, edit func(r *record)) []byte {
	t.Helper()
	r, err := decode(value)
	if err != nil {
		t.Fatal(err)
	}
	edit(r)
	b, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// proves: T1
func TestWhatCannotBeTrustedIsLeftAlone(t *testing.T) {
	m, _, _ := sample(t)
	good := m.entries["default/press"].Value
	for name, bad := range map[string][]byte{
		"empty":            {},
		"garbage":          []byte("\x00\xffnothing"),
		"a word":           []byte(`"free"`),
		"null":             []byte(`null`),
		"somebody else's":  []byte(`{"owner":"ann"}`),
		"cut off":          good[:len(good)-20],
		"something behind": append(append([]byte{}, good...), " {}"...),
		"newer version":    edited(t, good, func(r map[string]any) { r["tenure"] = 2 }),
		"unknown field":    edited(t, good, func(r map[string]any) { r["more"] = 1 }),
		"holder edited":    edited(t, good, func(r map[string]any) { r["holder"] = "" }),
		"TTL edited":       edited(t, good, func(r map[string]any) { r["ttl_ms"] = 1 }),
		"freed by hand":    edited(t, good, func(r map[string]any) { r["holder"], r["state"], r["epoch"] = "", "released", 2 }),
		"no such state":    sealed(t, good, func(r *record) { r.State = "owned" }),
		"blank, active":    sealed(t, good, func(r *record) { r.Holder = "" }),
		"held, released":   sealed(t, good, func(r *record) { r.State = "released" }),
		"blank, no ending": sealed(t, good, func(r *record) { r.blank(tenure.StateReleased, 99, time.Time{}); r.Epoch = 2 }),
		"active, epoch 2":  sealed(t, good, func(r *record) { r.Epoch = 2 }),
		"count 0":          sealed(t, good, func(r *record) { r.Count = 0 }),
		"LSN behind":       sealed(t, good, func(r *record) { r.LSN = r.Count - 1 }),
		"LSN beyond":       sealed(t, good, func(r *record) { r.LSN = 1 << 63 }),
		"TTL 0":            sealed(t, good, func(r *record) { r.TTL = 0 }),
		"negative grace":   sealed(t, good, func(r *record) { r.Grace = -1 }),
		"reserved":         sealed(t, good, func(r *record) { r.State = "reserved" }),
		"no prior":         sealed(t, good, func(r *record) { r.Prior = "perhaps" }),
		"control bytes":    sealed(t, good, func(r *record) { r.Holder = "a\x01" }),
	} {
		t.Run(name, func(t *testing.T) { leftAlone(t, bad) })
	}
}

func leftAlone(t *testing.T, bad []byte) {
	ctx := context.Background()
	m, e, l := sample(t)
	m.Put("default/press", bad)
	revision := m.last
	other := tenure.On("default/press")
	other.Holder = "bob"
	_, claimed := e.Acquire(ctx, other)
	_, looked := e.Lookup(ctx, tenure.Query{Resource: "default/press"})
	_, released := e.Do(ctx, tenure.Release{Ref: l.Ref, Holder: l.Holder})
	_, revoked := e.Do(ctx, tenure.Revoke{Lease: l.ID, Resource: l.Resource})
	each, err := e.Renew(ctx, []tenure.Ref{l.Ref})
	if err != nil {
		t.Fatal(err)
	}
	for call, err := range map[string]error{"claim": claimed, "lookup": looked, "release": released, "revoke": revoked, "renewal": each[0]} {
		if tenure.CodeOf(err) != tenure.ErrInvalidState || !strings.Contains(err.Error(), `"default/press"`) || !strings.Contains(err.Error(), "nats kv del") {
			t.Errorf("%s: %v, want the key and the remedy", call, err)
		}
	}
	if m.last != revision {
		t.Errorf("revision %d was written over %d", m.last, revision)
	}
	errs := 0
	for _, err := range e.List(ctx, tenure.Filter{}) {
		if err != nil {
			errs++
		}
	}
	if errs != 1 {
		t.Errorf("a list told of it %d times", errs)
	}
	m.Erase("default/press")
	if _, err := e.Acquire(ctx, other); err != nil {
		t.Errorf("after the remedy: %v", err)
	}
}

func TestRecordReadsBack(t *testing.T) {
	m, _, l := sample(t)
	value := m.entries["default/press"].Value
	r, err := decode(value)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.encode()
	if err != nil || string(again) != string(value) {
		t.Errorf("%s\nbecame\n%s, %v", value, again, err)
	}
	if got := r.public(l.Resource); got.Token != l.Token || got.Holder != l.Holder || string(got.Meta) != string(l.Meta) || got.TTL != l.TTL || got.Grace != l.Grace {
		t.Errorf("%+v, was %+v", got, l)
	}
}

func FuzzDecode(f *testing.F) {
	r := newRecord(&tenure.Claim{Holder: "ann", TTL: time.Second})
	r.Count, r.LSN, r.Prior = 1, 1, "never"
	value, err := r.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add([]byte(`{"tenure":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decode(value)
		if err != nil {
			return
		}
		// Whatever is trusted has a sum of its own making, so it was encoded once.
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Errorf("%s is trusted, and not when written again: %v", value, err)
		}
	})
}

func TestKeys(t *testing.T) {
	for r, want := range map[tenure.Resource]string{
		"default/routestar":      "default/routestar",
		"runner.reserve/r-42":    "runner.reserve/r-42",
		"a/b/c":                  "a/b/c",
		"a/b.c":                  "a/b=2Ec",
		"a/..":                   "a/=2E=2E",
		"a/=2E":                  "a/=3D2E",
		"a/ü *>":                 "a/=C3=BC=20=2A=3E",
		"_kv/x":                  "=5Fkv/x",
		"a/_":                    "a/_",
		"a//":                    "a//",
		"default/x y":            "default/x=20y",
		"default/$JS.API.STREAM": "default/=24JS=2EAPI=2ESTREAM",
	} {
		got := keyOf(r)
		back, err := resourceOf(got)
		if got != want || err != nil || back != r {
			t.Errorf("%q: key %q, want %q; back %q, %v", r, got, want, back, err)
		}
	}
	for _, foreign := range []string{"", "x", "a/", "a/b.c", "a/=2e", "a/=2", "a/=", "a/=41", "a=2Fb", "_kv/x", "a/=GG", "a..b/c", "a/b*"} {
		if r, err := resourceOf(foreign); err == nil {
			t.Errorf("the foreign key %q was read as %q", foreign, r)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("default/x", "a/=2E")
	f.Fuzz(func(t *testing.T, a, b string) {
		ra, rb := tenure.Resource(a), tenure.Resource(b)
		if ra.Validate() != nil || rb.Validate() != nil {
			return
		}
		ka, kb := keyOf(ra), keyOf(rb)
		if (ka == kb) != (ra == rb) {
			t.Errorf("%q and %q have keys %q and %q", a, b, ka, kb)
		}
		if back, err := resourceOf(ka); err != nil || back != ra {
			t.Errorf("%q came back as %q, %v", a, back, err)
		}
		if strings.Trim(ka, "-/_=.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" || strings.HasPrefix(ka, "_kv") {
			t.Errorf("%q is no key of NATS", ka)
		}
	})
}
