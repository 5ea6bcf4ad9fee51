package liveness

import (
	"time"

	"github.com/tenurehq/tenure"
)

// renewHold is how many beats are judged under one lock.
const renewHold = 128

type verdict uint8

const (
	alive verdict = iota
	unknown
	stale
)

// Renew takes the beats of refs, which arrive now, and writes one answer each
// into each, which has the same length. nil allows the lease's TTL from the
// moment of the call: until then nothing here proposes to withdraw it. For a
// reservation nil confirms that it stands; its deadline is not moved.
//
// Errors: ErrNotFound, no live lease of that name is known (the history may say
// what became of it); ErrStale, the epoch is not the current one, or authority
// is or is being withdrawn; of a halted table, its error for all.
func (t *Table) Renew(refs []tenure.Ref, each []error) {
	each = each[:len(refs)]
	var said [renewHold]verdict
	for len(refs) > 0 {
		n := min(len(refs), renewHold)
		err := t.beats(refs[:n], said[:n])
		for i := range each[:n] {
			if each[i] = err; err == nil {
				each[i] = said[i].refusal(&refs[i])
			}
		}
		refs, each = refs[n:], each[n:]
	}
}

func (t *Table) beats(refs []tenure.Ref, said []verdict) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted != nil {
		return t.halted
	}
	now := t.now()
	refused := 0
	for i := range refs {
		said[i] = t.beat(refs[i].Token, now)
		if said[i] != alive {
			refused++
		}
	}
	t.stats.Refused += uint64(refused)
	t.stats.Answered += uint64(len(refs) - refused)
	return nil
}

// beat does not touch the wheel: the entry is filed again when its slot comes.
func (t *Table) beat(token tenure.Token, now time.Duration) verdict {
	i, ok := t.find(token.Lease)
	if !ok {
		return unknown
	}
	e := t.entries.at(i)
	if e.epoch != token.Epoch || e.phase == Revoking || e.flags.has(condemned) {
		return stale
	}
	if e.phase == Active && e.ttl > 0 {
		t.stats.silent(now-(e.until-e.ttl), e.ttl)
		e.until = max(e.until, later(now, e.ttl))
	}
	return alive
}

func (v verdict) refusal(ref *tenure.Ref) error {
	switch v {
	case unknown:
		return &tenure.Error{Code: tenure.ErrNotFound, Lease: ref.Token.Lease, Resource: ref.Resource,
			Why: "no such lease is alive: acquire again, under a new token"}
	case stale:
		return &tenure.Error{Code: tenure.ErrStale, Lease: ref.Token.Lease, Resource: ref.Resource,
			Why: "the token " + ref.Token.String() + " carries no authority any more: stop the work, then acquire again"}
	}
	return nil
}
