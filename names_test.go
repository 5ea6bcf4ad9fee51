package tenure

import (
	"errors"
	"strings"
	"testing"
)

func TestResourceNames(t *testing.T) {
	element := strings.Repeat("a", MaxElementBytes)
	longest := strings.Repeat(element+".", MaxNamespaceElements-1) + element + "/" + strings.Repeat("k", MaxKeyBytes)
	if len(longest) != MaxResourceBytes {
		t.Fatalf("the longest name has %d bytes, MaxResourceBytes says %d", len(longest), MaxResourceBytes)
	}
	for _, good := range []string{
		"a/b", "runner.reserve/r-42", "A_b-9/x", "a/b/c", "a/ b", "a/ü", longest, "a/\u00a0", "a.b.c.d.e.f.g.h/k",
	} {
		r, err := ParseResource(good)
		if err != nil {
			t.Errorf("%q: %v", good, err)
		}
		if string(r.Namespace())+"/"+r.Key() != good {
			t.Errorf("%q falls apart into %q and %q", good, r.Namespace(), r.Key())
		}
	}
	for _, bad := range []struct{ name, field string }{
		{"", "resource"}, {"plain", "resource"}, {"/k", "namespace"}, {"a/", "resource"}, {".a/k", "namespace"},
		{"a./k", "namespace"}, {"a..b/k", "namespace"}, {"ä/k", "namespace"}, {"a b/k", "namespace"},
		{element + "a/k", "namespace"}, {"a.b.c.d.e.f.g.h.i/k", "namespace"},
		{"a/" + strings.Repeat("k", MaxKeyBytes+1), "resource"},
		{"a/\n", "resource"}, {"a/\x7f", "resource"}, {"a/\u0085", "resource"}, {"a/\xff", "resource"}, {"a/x\x00", "resource"},
	} {
		_, err := ParseResource(bad.name)
		var e *Error
		if !errors.As(err, &e) || e.Code != ErrInvalid || e.Field != bad.field || e.Why == "" {
			t.Errorf("%.40q: got %v, want invalid %s with a reason", bad.name, err, bad.field)
		}
	}
}

func TestNamespaceCoversElementsNotPrefixes(t *testing.T) {
	for _, c := range []struct {
		n, m     Namespace
		children bool
		want     bool
	}{
		{"a", "a", false, true}, {"a", "a", true, true}, {"a", "a.b", true, true}, {"a", "a.b", false, false},
		{"a", "ab", true, false}, {"a.b", "a", true, false}, {"module", "modules", true, false}, {"a.b", "a.b.c.d", true, true},
	} {
		if got := c.n.Covers(c.m, c.children); got != c.want {
			t.Errorf("%q covers %q (children %v): %v", c.n, c.m, c.children, got)
		}
	}
}

func TestHolderNames(t *testing.T) {
	for h, good := range map[Holder]bool{
		"": false, "x": true, Holder(strings.Repeat("h", MaxHolderBytes)): true,
		Holder(strings.Repeat("h", MaxHolderBytes+1)): false, "a\tb": false, "host 7": true, "\xc3": false,
	} {
		if err := h.Validate(); (err == nil) != good {
			t.Errorf("%.20q: %v", h, err)
		}
	}
	if err := DefaultHolder().Validate(); err != nil {
		t.Error(err)
	}
	if first, second := DefaultHolder(), DefaultHolder(); first != second {
		t.Error("the default holder changed within one process")
	}
}

// proves: T7
func TestTokensCompareAsNumbers(t *testing.T) {
	rising := []string{"0-1.1", "0-9.1", "0-10.1", "0-10.2", "0-10.10", "0-9223372036854775807.4294967295"}
	for i, a := range rising {
		for j, b := range rising {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := mustToken(t, a).Compare(mustToken(t, b)); got != want {
				t.Errorf("%s compared to %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

func mustToken(t *testing.T, s string) Token {
	t.Helper()
	token, err := ParseToken(s)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestOnlyCanonicalFormsParse(t *testing.T) {
	for _, s := range []string{"", "0-1", "0-1.", "0-01.1", "00-1.1", "+0-1.1", "0-1.01", "0-0.1", "0-1.0", "65536-1.1", "0-9223372036854775808.1", "0-1.4294967296", " 0-1.1", "0-1.1 ", "0-1.1.1", "0_1.1"} {
		if token, err := ParseToken(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("token %q parsed to %v (%v)", s, token, err)
		}
	}
	for _, s := range []string{"", "1", "0-", "-1", "0-0", "0-1.1", "0-99999999999999999999"} {
		if id, err := ParseLeaseID(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("lease id %q parsed to %v (%v)", s, id, err)
		}
	}
	for _, s := range []string{"zz", "00000000000000000000000000000000", strings.Repeat("a", 31), strings.Repeat("a", 33), strings.Repeat("a", 32) + "@", strings.Repeat("a", 32) + "@x"} {
		if op, err := ParseOp(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("operation %q parsed to %v (%v)", s, op, err)
		}
	}
	for _, s := range []string{"", "x", "1.", ".1", "1.01", "-1"} {
		if p, err := ParsePosition(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("position %q parsed to %v (%v)", s, p, err)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"0-42.1", "0-42", "42.0", "a/b", "0123456789abcdef0123456789abcdef@7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := ParseToken(s); err == nil && token.String() != s {
			t.Errorf("token %q prints as %q", s, token)
		}
		if id, err := ParseLeaseID(s); err == nil && id.String() != s {
			t.Errorf("lease id %q prints as %q", s, id)
		}
		if op, err := ParseOp(s); err == nil {
			if again, err := ParseOp(op.String()); err != nil || again != op {
				t.Errorf("operation %q reads back as %v (%v)", s, again, err)
			}
		}
		if p, err := ParsePosition(s); err == nil {
			if again, err := ParsePosition(p.String()); err != nil || again != p {
				t.Errorf("position %q reads back as %v (%v)", s, again, err)
			}
		}
		if r, err := ParseResource(s); err == nil && (string(r) != s || len(s) > MaxResourceBytes) {
			t.Errorf("resource %q", s)
		}
	})
}
