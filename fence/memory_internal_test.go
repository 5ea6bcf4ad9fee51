package fence

import (
	"errors"
	"testing"

	"github.com/tenurehq/tenure"
)

// proves: T12
func TestMemoryIsBounded(t *testing.T) {
	m := Memory().(*memory)
	m.limit = 2
	token := tenure.Token{Lease: tenure.LeaseID{LSN: 1}, Epoch: 1}
	for r, want := range map[tenure.Resource]bool{"a/1": true, "a/2": true} {
		if err := Check(t.Context(), m, r, token); (err == nil) != want {
			t.Errorf("%s: %v", r, err)
		}
	}
	if err := Check(t.Context(), m, "a/3", token); !errors.Is(err, tenure.ErrFull) {
		t.Errorf("one more: %v, want full", err)
	}
	if err := Check(t.Context(), m, "a/1", token); err != nil {
		t.Errorf("one that is remembered: %v", err)
	}
}
