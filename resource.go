package tenure

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Resource names what is owned, in its canonical form "namespace/key":
// "runner.reserve/r-42". The namespace ends at the first slash; the key may
// contain further ones. See [ParseResource] for the alphabet.
type Resource string

// ParseResource checks s and returns it as a Resource. The namespace is 1 to
// [MaxNamespaceElements] elements of [A-Za-z0-9_-], each 1 to
// [MaxElementBytes] bytes, joined with dots; the key is 1 to [MaxKeyBytes]
// bytes of UTF-8 without control characters. The error is an [*Error] with
// code [ErrInvalid].
func ParseResource(s string) (Resource, error) {
	r := Resource(s)
	if err := r.Validate(); err != nil {
		return "", err
	}
	return r, nil
}

// Namespace is the part before the first slash.
func (r Resource) Namespace() Namespace {
	ns, _, _ := strings.Cut(string(r), "/")
	return Namespace(ns)
}

// Key is the part after the first slash.
func (r Resource) Key() string {
	_, key, _ := strings.Cut(string(r), "/")
	return key
}

// Validate reports, as an [*Error] with code [ErrInvalid], what is wrong with
// the name; nil when it is well formed.
func (r Resource) Validate() error {
	ns, key, found := strings.Cut(string(r), "/")
	if !found {
		return invalid("resource", r, fmt.Sprintf("%s has no namespace: write namespace/key, for example default/%s", quote(string(r)), shorten(string(r))))
	}
	if err := Namespace(ns).validate(r); err != nil {
		return err
	}
	switch {
	case key == "":
		return invalid("resource", r, fmt.Sprintf("%s has an empty key: write namespace/key", quote(string(r))))
	case len(key) > MaxKeyBytes:
		return invalid("resource", "", fmt.Sprintf("the key of %s has %d bytes, at most %d are allowed", quote(string(r)), len(key), MaxKeyBytes))
	}
	if why := badText(key); why != "" {
		return invalid("resource", "", fmt.Sprintf("the key of %s %s", quote(string(r)), why))
	}
	return nil
}

// Namespace groups resources: dot-separated elements, "runner.reserve". It is
// compared element by element, never by string prefix.
type Namespace string

// Validate reports, as an [*Error] with code [ErrInvalid], what is wrong with
// the namespace; nil when it is well formed.
func (n Namespace) Validate() error { return n.validate("") }

func (n Namespace) validate(r Resource) error {
	elements := 1
	length := 0
	for i := 0; i <= len(n); i++ {
		if i < len(n) && n[i] != '.' {
			if !namespaceByte(n[i]) {
				return invalid("namespace", r, fmt.Sprintf("%s has %q, only letters, digits, '_', '-' and the dot between elements are allowed", quote(string(n)), n[i]))
			}
			length++
			continue
		}
		if length == 0 || length > MaxElementBytes {
			return invalid("namespace", "", fmt.Sprintf("%s has an element of %d bytes, 1 to %d are allowed", quote(string(n)), length, MaxElementBytes))
		}
		if i < len(n) {
			elements++
			length = 0
		}
	}
	if elements > MaxNamespaceElements {
		return invalid("namespace", "", fmt.Sprintf("%s has %d elements, at most %d are allowed", quote(string(n)), elements, MaxNamespaceElements))
	}
	return nil
}

// Covers reports whether m is n, or, with children, lies below it: "a" covers
// "a.b" with children, and never "ab".
func (n Namespace) Covers(m Namespace, children bool) bool {
	if n == m {
		return true
	}
	return children && len(m) > len(n) && m[len(n)] == '.' && m[:len(n)] == n
}

func namespaceByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// Holder is who owns a lease: a name chosen by the client, 1 to
// [MaxHolderBytes] bytes of UTF-8 without control characters. It is never
// proof of authority by itself; the token is.
type Holder string

// Validate reports, as an [*Error] with code [ErrInvalid], what is wrong with
// the name; nil when it is well formed.
func (h Holder) Validate() error {
	if h == "" {
		return invalid("holder", "", "the holder is empty: name who is to own the lease")
	}
	if len(h) > MaxHolderBytes {
		return invalid("holder", "", fmt.Sprintf("the holder has %d bytes, at most %d are allowed", len(h), MaxHolderBytes))
	}
	if why := badText(string(h)); why != "" {
		return invalid("holder", "", fmt.Sprintf("the holder %s %s", quote(string(h)), why))
	}
	return nil
}

// badText says what keeps s from being printable in a log line: broken UTF-8
// or a control character (C0, DEL, C1).
func badText(s string) string {
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b < 0x20 || b == 0x7f {
				return fmt.Sprintf("has the control character %q at byte %d", b, i)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("is not UTF-8 at byte %d", i)
		}
		if r >= 0x80 && r < 0xa0 {
			return fmt.Sprintf("has the control character %U at byte %d", r, i)
		}
		i += size
	}
	return ""
}

// shorten keeps a name that is too long from filling an error message.
func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

func quote(s string) string { return fmt.Sprintf("%q", shorten(s)) }

// badUTF8 allows the line breaks and tabs of free text.
func badUTF8(s string) string {
	if !utf8.ValidString(s) {
		return "it is not UTF-8"
	}
	if strings.ContainsRune(s, 0) {
		return "it contains a zero byte"
	}
	return ""
}
