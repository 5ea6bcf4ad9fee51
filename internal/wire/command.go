package wire

import (
	"fmt"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// FromCommand fills the request with the command. It refuses only what no
// message can carry.
func FromCommand(c tenure.Command) (*pb.Request, error) {
	m := &pb.Request{}
	var texts [3]string // resource, holder, free text
	free := "reason"
	switch c := c.(type) {
	case tenure.Activate:
		texts = [3]string{string(c.Ref.Resource), string(c.Holder), ""}
		m.Call = &pb.Request_Activate{Activate: &pb.ActivateRequest{Token: c.Ref.Token.String(), Resource: texts[0], Holder: texts[1]}}
	case tenure.Release:
		texts, free = [3]string{string(c.Ref.Resource), string(c.Holder), c.Result.Detail}, "detail"
		m.Call = &pb.Request_Release{Release: &pb.ReleaseRequest{Token: c.Ref.Token.String(), Resource: texts[0], Holder: texts[1], Result: fromResult(c.Result)}}
	case tenure.Revoke:
		texts = [3]string{string(c.Resource), "", c.Reason}
		m.Call = &pb.Request_Revoke{Revoke: &pb.RevokeRequest{LeaseId: FromLeaseID(c.Lease), Resource: texts[0], Reason: texts[2]}}
	case tenure.Reclaim:
		texts = [3]string{string(c.Resource), "", ""}
		m.Call = &pb.Request_Reclaim{Reclaim: &pb.ReclaimRequest{LeaseId: FromLeaseID(c.Lease), Resource: texts[0], HolderIsDead: c.HolderIsDead}}
	default:
		return nil, invalid("command", fmt.Sprintf("%T is no command", c))
	}
	for i, field := range [...]string{"resource", "holder", free} {
		if err := sendable(field, texts[i]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ToActivate is the command of a request.
func ToActivate(m *pb.ActivateRequest) (tenure.Activate, error) {
	ref, err := ToRef(m.GetToken(), m.GetResource())
	return tenure.Activate{Ref: ref, Holder: tenure.Holder(m.GetHolder())}, err
}

// ToRelease is the command of a request.
func ToRelease(m *pb.ReleaseRequest) (tenure.Release, error) {
	c := tenure.Release{Holder: tenure.Holder(m.GetHolder())}
	var err error
	if c.Ref, err = ToRef(m.GetToken(), m.GetResource()); err != nil {
		return c, err
	}
	c.Result, err = toResult(m.GetResult())
	return c, err
}

// ToRevoke is the command of a request.
func ToRevoke(m *pb.RevokeRequest) (tenure.Revoke, error) {
	id, err := ToLeaseID(m.GetLeaseId())
	return tenure.Revoke{Lease: id, Resource: tenure.Resource(m.GetResource()), Reason: m.GetReason()}, err
}

// ToReclaim is the command of a request.
func ToReclaim(m *pb.ReclaimRequest) (tenure.Reclaim, error) {
	id, err := ToLeaseID(m.GetLeaseId())
	return tenure.Reclaim{Lease: id, Resource: tenure.Resource(m.GetResource()), HolderIsDead: m.GetHolderIsDead()}, err
}

// ToRef reads a token and a resource, each of which may be empty.
func ToRef(token, resource string) (tenure.Ref, error) {
	t, err := ToToken(token)
	return tenure.Ref{Token: t, Resource: tenure.Resource(resource)}, err
}

// FromRef refuses a resource that no message can carry.
func FromRef(r tenure.Ref) (*pb.Ref, error) {
	return &pb.Ref{Token: r.Token.String(), Resource: string(r.Resource)}, sendable("resource", string(r.Resource))
}

func fromResult(r tenure.Result) *pb.Result {
	if r == (tenure.Result{}) {
		return nil
	}
	return &pb.Result{Outcome: r.Outcome.String(), Detail: r.Detail}
}

func toResult(m *pb.Result) (tenure.Result, error) {
	outcome, ok := tenure.ParseOutcome(m.GetOutcome())
	if !ok {
		return tenure.Result{}, invalid("result", fmt.Sprintf("%q is no outcome: write ok or failed", shorten(m.GetOutcome())))
	}
	return tenure.Result{Outcome: outcome, Detail: m.GetDetail()}, nil
}

func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return valid(s[:most]) + "…"
}
