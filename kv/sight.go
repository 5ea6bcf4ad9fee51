package kv

import (
	"container/list"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// sight is what this process has seen of one key. The same revision seen at
// two moments means that nothing was written between them, however long
// nobody looked: so an observation lasts from one call to the next.
type sight struct {
	key   string
	state identity
	since time.Duration // when this state was first received
	lead  time.Duration // when the tenure in it was first received: renewals do not move it
	alive bool          // it was seen to replace another state, or is this process's own write
	count uint64        // of the tenure; kept while the key is absent, so that the next one is higher

	session string        // of the tenure, if this process created it
	sent    time.Duration // when that grant was first sent
	own     *record       // what this process wrote last, so that a renewal need not read
}

// identity tells one state of a key from every other.
type identity struct {
	revision uint64
	check    string    // of the record; a revision alone repeats in a bucket that was created anew
	bucket   time.Time // of an absent key: the bucket it is absent from
}

// sights is a bounded table of them; the least recently used goes first, and
// costs only time: its observation begins again.
type sights struct {
	mu    sync.Mutex
	most  int
	byKey map[string]*list.Element
	order *list.List // front = latest
}

func newSights(most int) *sights {
	return &sights{most: most, byKey: map[string]*list.Element{}, order: list.New()}
}

// see notes what was received at now, and returns what is known of it.
func (t *sights) see(key string, id identity, rec *record, now time.Duration) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.entry(key)
	s.note(id, rec, now, known)
	return *s
}

// wrote notes this process's own write, sent first at sent, acknowledged at now.
func (t *sights) wrote(key string, id identity, rec *record, granted bool, sent, now time.Duration) sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.entry(key)
	s.note(id, rec, now, true)
	if granted {
		s.session, s.sent = rec.Session, sent
	}
	if rec.state().Held() && s.session == rec.Session {
		s.own = rec
	}
	return *s
}

// peek is what is known of a key without looking.
func (t *sights) peek(key string) (sight, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, known := t.byKey[key]
	if !known {
		return sight{}, false
	}
	return *e.Value.(*sight), true
}

// forget drops the cached record: what stands there now has to be read.
func (t *sights) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, known := t.byKey[key]; known {
		e.Value.(*sight).own = nil
	}
}

func (t *sights) entry(key string) (s *sight, known bool) {
	if e, ok := t.byKey[key]; ok {
		t.order.MoveToFront(e)
		return e.Value.(*sight), true
	}
	if t.order.Len() >= t.most {
		last := t.order.Back()
		delete(t.byKey, last.Value.(*sight).key)
		t.order.Remove(last)
	}
	s = &sight{key: key}
	t.byKey[key] = t.order.PushFront(s)
	return s, false
}

func (s *sight) note(id identity, rec *record, now time.Duration, known bool) {
	if known && s.state == id {
		return
	}
	if rec == nil || rec.Count != s.count || !known {
		s.lead, s.session, s.sent = now, "", 0
	}
	if rec != nil {
		s.count = max(s.count, rec.Count)
	}
	s.state, s.since, s.alive, s.own = id, now, known, nil
}

// judgement says when a state may be taken over.
type judgement struct {
	free  bool          // now
	at    time.Duration // when, if nothing changes; 0 = never by silence
	alive bool          // its holder is known to have lived too recently
	prior tenure.Ending // of the tenure that takes it
}

// judge applies the table in the package comment to a record.
func (s *sight) judge(rec *record, now time.Duration) judgement {
	j := judgement{prior: tenure.EndingTaken}
	switch state := rec.state(); {
	case !state.Live():
		return judgement{free: true, prior: rec.ending()}
	case state == tenure.StateReserved:
		// Its holder has no authority yet, so its silence is of no matter, and
		// the resource is left behind as it was.
		j.at, j.prior = s.lead+rec.window(), rec.prior()
	default:
		silence, ends := rec.silence()
		if !ends {
			return judgement{alive: true}
		}
		j.at = s.since + silence
	}
	j.free = now >= j.at
	j.alive = !j.free && (s.alive || rec.state() == tenure.StateReserved)
	return j
}
