package kernel

import (
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is the cause of every refusal of bytes by [DecodeCommand] and
// [Decode].
var ErrMalformed = errors.New("malformed")

// reader takes canonical fields from bytes, or from a stream of them. After an
// error it yields zeros; the first error stays. It never allocates for a length
// that it has not checked against its bound and against what is there.
type reader struct {
	b   []byte    // read, not yet taken
	src io.Reader // nil: b is all there is
	buf []byte    // where b lies if there is a source
	err error
}

// chunk is what is asked of a stream at once; every field is shorter.
const chunk = 32 << 10

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("kernel: %w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

// fill makes n bytes available if there are so many.
func (r *reader) fill(n int) bool {
	if len(r.b) >= n || r.src == nil || r.err != nil {
		return len(r.b) >= n && r.err == nil
	}
	if r.buf == nil {
		r.buf = make([]byte, chunk)
	}
	have := copy(r.buf, r.b)
	m, err := io.ReadAtLeast(r.src, r.buf[have:], n-have)
	r.b = r.buf[:have+m]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		r.err = fmt.Errorf("kernel: read: %w", err)
	}
	return len(r.b) >= n && r.err == nil
}

// take yields n bytes, valid until the next call.
func (r *reader) take(n int, what string) []byte {
	if r.err != nil || !r.fill(n) {
		r.fail("%s: it is cut off", what)
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// uvarint reads a number of at most most in its shortest form.
func (r *reader) uvarint(what string, most uint64) uint64 {
	if r.err != nil {
		return 0
	}
	r.fill(10)
	var x uint64
	for i, c := range r.b {
		if i == 9 && c > 1 {
			break
		}
		x |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if c == 0 && i > 0 {
			r.fail("%s: a number is not in its shortest form", what)
			return 0
		}
		r.b = r.b[i+1:]
		if x > most {
			r.fail("%s: %d, at most %d is possible", what, x, most)
			return 0
		}
		return x
	}
	r.fail("%s: a number has no end", what)
	return 0
}

func (r *reader) varint(what string) int64 {
	u := r.uvarint(what, 1<<64-1)
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) byte(what string, most uint8) uint8 {
	b := r.take(1, what)
	if len(b) == 0 {
		return 0
	}
	if b[0] > most {
		r.fail("%s: %d, at most %d is possible", what, b[0], most)
		return 0
	}
	return b[0]
}

// blob reads a length of at most most and so many bytes, valid until the next
// call.
func (r *reader) blob(what string, most int) []byte {
	return r.take(int(r.uvarint(what, uint64(most))), what)
}

func (r *reader) text(what string, most int) string { return string(r.blob(what, most)) }

func (r *reader) id(what string) (b [16]byte) {
	copy(b[:], r.take(len(b), what))
	return b
}

// end asserts that nothing is left.
func (r *reader) end() {
	if r.err == nil && r.fill(1) {
		r.fail("something follows the end")
	}
}
