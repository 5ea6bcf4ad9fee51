package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// FromLease is the message for a lease.
func FromLease(l *tenure.Lease) *pb.Lease {
	m := &pb.Lease{
		LeaseId: FromLeaseID(l.ID), Epoch: uint32(l.Epoch), Token: l.Token.String(), State: l.State.String(),
		Holder: string(l.Holder), Resources: make([]string, len(l.Resources)),
		ExpiresInMs: left(l.ExpiresIn), FreeInMs: remaining(l.FreeIn),
		GrantedAt: fromTime(l.GrantedAt), EndedAt: fromTime(l.EndedAt),
		Prior: l.Prior.String(), Result: fromResult(l.Result), Meta: l.Meta,
		Replayed: l.Replayed, Lsn: uint64(l.LSN), AsOf: uint64(l.AsOf),
	}
	for i, r := range l.Resources {
		m.Resources[i] = string(r)
	}
	if len(l.Resources) == 0 || l.Resource != l.Resources[0] {
		m.Resource = string(l.Resource)
	}
	if m.NoTtl = l.TTL == tenure.NoTTL; !m.NoTtl {
		m.TtlMs = remaining(l.TTL)
	}
	m.GraceMs = remaining(l.Grace)
	return m
}

// ToLease is the lease that a message stands for. An error means that the
// sender is no Tenure server, or speaks of something newer.
func ToLease(m *pb.Lease) (tenure.Lease, error) {
	l := tenure.Lease{
		Epoch: tenure.Epoch(m.GetEpoch()), Holder: tenure.Holder(m.GetHolder()), Resources: make([]tenure.Resource, len(m.GetResources())),
		TTL: millis(m.GetTtlMs()), Grace: millis(m.GetGraceMs()),
		ExpiresIn: millis(m.GetExpiresInMs()), FreeIn: millis(m.GetFreeInMs()),
		GrantedAt: toTime(m.GetGrantedAt()), EndedAt: toTime(m.GetEndedAt()),
		Replayed: m.GetReplayed(), LSN: tenure.LSN(m.GetLsn()), AsOf: tenure.LSN(m.GetAsOf()),
	}
	for i, r := range m.GetResources() {
		l.Resources[i] = tenure.Resource(r)
	}
	l.Resource = tenure.Resource(m.GetResource())
	if l.Resource == "" && len(l.Resources) > 0 {
		l.Resource = l.Resources[0]
	}
	if m.GetNoTtl() {
		l.TTL = tenure.NoTTL
	}
	if len(m.GetMeta()) > 0 {
		l.Meta = m.GetMeta()
	}
	var err error
	if l.ID, err = ToLeaseID(m.GetLeaseId()); err != nil {
		return l, err
	}
	if l.Token, err = ToToken(m.GetToken()); err != nil {
		return l, err
	}
	if l.Result, err = toResult(m.GetResult()); err != nil {
		return l, err
	}
	var ok bool
	if l.State, ok = tenure.ParseState(m.GetState()); !ok {
		return l, invalid("state", fmt.Sprintf("%q is no state", shorten(m.GetState())))
	}
	if l.Prior, ok = tenure.ParseEnding(m.GetPrior()); !ok {
		return l, invalid("prior", fmt.Sprintf("%q is no ending", shorten(m.GetPrior())))
	}
	return l, nil
}

func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}
