package kernel

import (
	"reflect"

	"github.com/tenurehq/tenure"
	"pgregory.net/rapid"
)

// mirror is a copy of the records that sees nothing but rows, as an engine does
// that keeps its records elsewhere.
type mirror struct {
	leases    map[tenure.LeaseID]Lease
	resources map[tenure.Resource]Resource
}

func newMirror() mirror {
	return mirror{leases: map[tenure.LeaseID]Lease{}, resources: map[tenure.Resource]Resource{}}
}

func (m mirror) apply(rows []Row) {
	for _, r := range rows {
		switch {
		case r.Lease != nil && r.Deleted:
			delete(m.leases, r.Lease.ID)
		case r.Lease != nil:
			m.leases[r.Lease.ID] = *r.Lease
		case r.Deleted:
			delete(m.resources, r.Resource.Name)
		default:
			m.resources[r.Resource.Name] = *r.Resource
		}
	}
}

// compare asserts that the rows so far were the whole difference.
func (m mirror) compare(t rapid.TB, s *State) {
	t.Helper()
	kept := 0
	s.Leases(0, func(l *Lease) bool {
		kept++
		if got := m.leases[l.ID]; !reflect.DeepEqual(got, *l) {
			t.Fatalf("the rows say %+v\nthe state %+v", got, *l)
		}
		return true
	})
	if kept != len(m.leases) || kept != s.Live()+s.Ended() {
		t.Fatalf("the rows leave %d leases, the state lists %d and counts %d live, %d ended", len(m.leases), kept, s.Live(), s.Ended())
	}
	if len(m.resources) != len(s.resources) {
		t.Fatalf("the rows leave %d resources, the state %d", len(m.resources), len(s.resources))
	}
	for name, want := range m.resources {
		if got, known := s.Resource(name); !known || got != want {
			t.Fatalf("the rows say %+v, the state %+v", want, got)
		}
		owner := s.Owner(name)
		if (owner == nil) != want.Lease.IsZero() || owner != nil && owner.ID != want.Lease {
			t.Fatalf("%s: owner %+v, the rows say %+v", name, owner, want)
		}
	}
}
