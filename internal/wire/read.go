package wire

import (
	"fmt"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// FromQuery refuses only what no message can carry.
func FromQuery(q tenure.Query) (*pb.GetRequest, error) {
	return &pb.GetRequest{LeaseId: FromLeaseID(q.ID), Resource: string(q.Resource), MinLsn: uint64(q.MinLSN)}, sendable("resource", string(q.Resource))
}

// ToQuery is the query of a request.
func ToQuery(m *pb.GetRequest) (tenure.Query, error) {
	q := tenure.Query{Resource: tenure.Resource(m.GetResource())}
	var err error
	if q.ID, err = ToLeaseID(m.GetLeaseId()); err != nil {
		return q, err
	}
	q.MinLSN, err = toLSN("min_lsn", m.GetMinLsn())
	return q, err
}

// FromList is the request for one page; the filter is validated by the caller.
func FromList(f tenure.Filter, size uint32, page string) *pb.ListRequest {
	return &pb.ListRequest{
		Resource: string(f.Resource), Namespace: string(f.Namespace), Children: f.Children, Holder: string(f.Holder),
		State: fromState(f.State), Ended: f.Ended, MinLsn: uint64(f.MinLSN), PageSize: size, PageToken: page,
	}
}

// ToList is the filter of a request, paging aside.
func ToList(m *pb.ListRequest) (tenure.Filter, error) {
	f := tenure.Filter{
		Resource: tenure.Resource(m.GetResource()), Namespace: tenure.Namespace(m.GetNamespace()), Children: m.GetChildren(),
		Holder: tenure.Holder(m.GetHolder()), Ended: m.GetEnded(),
	}
	return f, fillFilter(&f, m.GetState(), m.GetMinLsn())
}

// FromWatch is the request for a watch; the filter is validated by the caller.
func FromWatch(f tenure.Filter) *pb.WatchRequest {
	m := &pb.WatchRequest{
		Resource: string(f.Resource), Namespace: string(f.Namespace), Children: f.Children, Holder: string(f.Holder),
		State: fromState(f.State), MinLsn: uint64(f.MinLSN),
	}
	if !f.From.IsZero() {
		m.From = f.From.String()
	}
	return m
}

// ToWatch is the filter of a request.
func ToWatch(m *pb.WatchRequest) (tenure.Filter, error) {
	f := tenure.Filter{
		Resource: tenure.Resource(m.GetResource()), Namespace: tenure.Namespace(m.GetNamespace()), Children: m.GetChildren(),
		Holder: tenure.Holder(m.GetHolder()),
	}
	if err := fillFilter(&f, m.GetState(), m.GetMinLsn()); err != nil || m.GetFrom() == "" {
		return f, err
	}
	var err error
	f.From, err = tenure.ParsePosition(m.GetFrom())
	return f, err
}

func fillFilter(f *tenure.Filter, state string, least uint64) error {
	if state != "" {
		var ok bool
		if f.State, ok = tenure.ParseState(state); !ok {
			return invalid("state", fmt.Sprintf("%q is no state: write reserved, active, revoking, released, expired or revoked", shorten(state)))
		}
	}
	var err error
	f.MinLSN, err = toLSN("min_lsn", least)
	return err
}

func fromState(s tenure.State) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

// FromEvent is the message for an event; seen is what the server had observed.
func FromEvent(ev *tenure.Event, seen tenure.LSN) *pb.Event {
	m := &pb.Event{Position: ev.Position.String(), Kind: ev.Kind.String(), At: fromTime(ev.At), Lsn: uint64(max(seen, ev.Position.LSN))}
	if ev.Kind != tenure.EventWatching {
		m.Lease = FromLease(&ev.Lease)
	}
	return m
}

// ToEvent is the event that a message stands for.
func ToEvent(m *pb.Event) (tenure.Event, error) {
	ev := tenure.Event{At: toTime(m.GetAt())}
	var err error
	if ev.Position, err = tenure.ParsePosition(m.GetPosition()); err != nil {
		return ev, err
	}
	var ok bool
	if ev.Kind, ok = tenure.ParseEventKind(m.GetKind()); !ok {
		return ev, invalid("kind", fmt.Sprintf("%q is no event", shorten(m.GetKind())))
	}
	if m.GetLease() != nil {
		ev.Lease, err = ToLease(m.GetLease())
	}
	return ev, err
}

// FromCaps is the message for an engine's capabilities.
func FromCaps(c tenure.Caps) *pb.Caps {
	return &pb.Caps{Bundles: c.Bundles, Reserve: c.Reserve, History: c.History, MinLsn: c.MinLSN, Fair: c.Fair, EveryEvent: c.EveryEvent, JudgesLate: c.JudgesLate}
}

// ToCaps is the inverse of [FromCaps].
func ToCaps(m *pb.Caps) tenure.Caps {
	return tenure.Caps{
		Bundles: m.GetBundles(), Reserve: m.GetReserve(), History: m.GetHistory(), MinLSN: m.GetMinLsn(),
		Fair: m.GetFair(), EveryEvent: m.GetEveryEvent(), JudgesLate: m.GetJudgesLate(),
	}
}
