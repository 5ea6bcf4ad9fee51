package kv

import (
	"fmt"
	"strings"

	"github.com/tenurehq/tenure"
)

// keyOf is the store's key of a resource. Plain names stay as they are:
// "default/routestar". In the part after the slash every byte outside of
// [A-Za-z0-9_/-] becomes "=" and two hexadecimal digits, the dot too, which
// separates elements of a subject in NATS. A leading "_" is escaped, since
// NATS keeps "_kv" for itself. The map is one to one: a namespace has no "=",
// and an "=" is itself escaped.
func keyOf(r tenure.Resource) string {
	ns, key, _ := strings.Cut(string(r), "/")
	var b strings.Builder
	b.Grow(len(r) + 8)
	if strings.HasPrefix(ns, "_") {
		b.WriteString("=5F")
		ns = ns[1:]
	}
	b.WriteString(ns)
	b.WriteByte('/')
	for i := range len(key) {
		if c := key[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// resourceOf is the inverse of keyOf; a key that keyOf does not make is
// somebody else's.
func resourceOf(key string) (tenure.Resource, error) {
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		if key[i] != '=' {
			b.WriteByte(key[i])
			continue
		}
		if i+2 >= len(key) {
			return "", foreign(key)
		}
		b.WriteByte(unhex(key[i+1])<<4 | unhex(key[i+2]))
		i += 2
	}
	r := tenure.Resource(b.String())
	if r.Validate() != nil || keyOf(r) != key {
		return "", foreign(key)
	}
	return r, nil
}

func foreign(key string) error {
	return &tenure.Error{Code: tenure.ErrInvalidState, Why: fmt.Sprintf("the key %q is no resource's: something else writes into this bucket; give leases a bucket of their own, or delete the key", key)}
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '/'
}

// unhex takes anything; resourceOf compares the whole key afterwards.
func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0
}
