package kernel

import "github.com/tenurehq/tenure"

// Resource is the record of one name: who owns it, and how its last tenure
// ended. It exists from the first use of the name until the last lease that
// owned it is retired. LSNs only grow, so a grant after that still has a higher
// token (T7).
type Resource struct {
	Name   tenure.Resource
	State  tenure.State   // of the live lease; 0 = available
	Lease  tenure.LeaseID // the live lease; zero = available
	Last   tenure.LeaseID // the live lease, or the last one that ended
	Ending tenure.Ending  // how the last tenure that had authority ended
}

// Row is a record that a step changed or dropped: either a lease or a
// resource. It is valid until the next step.
type Row struct {
	Lease    *Lease
	Resource *Resource
	Deleted  bool // retired; it shows the record as it was
}

// tenancy is how a resource is kept: everything else follows from its last
// lease.
type tenancy struct {
	last   *Lease
	ending tenure.Ending
}

func (t tenancy) record(name tenure.Resource) Resource {
	r := Resource{Name: name, Last: t.last.ID, Ending: t.ending}
	if t.last.State.Live() {
		r.State, r.Lease = t.last.State, t.last.ID
	}
	return r
}

// forgotten is how an ending is remembered once the record is gone: what had
// been taken can no longer be said with its circumstances.
func forgotten(e tenure.Ending) tenure.Ending {
	if e == tenure.EndingTaken {
		return tenure.EndingUnknown
	}
	return e
}
