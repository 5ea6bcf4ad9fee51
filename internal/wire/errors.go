package wire

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// FromError is the message for an engine's error. One that is not a
// [*tenure.Error] says nothing about what happened: its outcome is unknown.
func FromError(err error) *pb.Error {
	var e *tenure.Error
	if !errors.As(err, &e) {
		code := tenure.CodeOf(err)
		if code == 0 {
			code = tenure.ErrUnknownOutcome
		}
		e = &tenure.Error{Code: code, Why: err.Error()}
	}
	why := e.Why
	if e.Cause != nil { // what lies below cannot cross the network as a value
		why = join(why, e.Cause.Error())
	}
	return &pb.Error{
		Code: e.Code.String(), Resource: valid(string(e.Resource)), LeaseId: FromLeaseID(e.Lease), Holder: valid(string(e.Holder)),
		FreeInMs: remaining(e.Free), Field: valid(e.Field), Lsn: uint64(e.LSN), Operation: e.Op.String(), Why: valid(why),
	}
}

// ToError is the error that the message stands for, never nil. A code that
// this version does not know is an unknown outcome.
func ToError(m *pb.Error) *tenure.Error {
	code, known := tenure.ParseCode(m.GetCode())
	e := &tenure.Error{
		Code: code, Resource: tenure.Resource(m.GetResource()), Holder: tenure.Holder(m.GetHolder()),
		Free: millis(m.GetFreeInMs()), Field: m.GetField(), LSN: tenure.LSN(m.GetLsn()), Why: m.GetWhy(),
	}
	if !known {
		e.Code = tenure.ErrUnknownOutcome
		e.Why = join(fmt.Sprintf("the server answered %q, which this version does not know", m.GetCode()), e.Why)
	}
	// A malformed id or operation leaves the field empty: the code is what counts.
	e.Lease, _ = ToLeaseID(m.GetLeaseId())
	e.Op, _ = tenure.ParseOp(m.GetOperation())
	return e
}

// Status is the gRPC status for an engine's error, with the message among its
// details; nil for nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	m := FromError(err)
	code, _ := tenure.ParseCode(m.Code)
	plain := status.New(table[code].rpc, valid(err.Error()))
	if full, failed := plain.WithDetails(m); failed == nil {
		return full.Err()
	}
	return plain.Err()
}

// FromStatus reads what a gRPC call returned. Answered says that the server
// itself gave this error; otherwise the call was cut off or never arrived, and
// the code is the transport's.
func FromStatus(err error) (e *tenure.Error, answered bool) {
	s := status.Convert(err)
	for _, detail := range s.Details() {
		if m, ok := detail.(*pb.Error); ok {
			return ToError(m), true
		}
	}
	code := tenure.ErrUnknownOutcome
	if c, ok := fromRPC[s.Code()]; ok {
		code = c
	}
	return &tenure.Error{Code: code, Why: s.Message(), Cause: err}, false
}

// Cut reports whether a call ended because the connection, the server or the
// caller went away, which says nothing about the call itself.
func Cut(err error) bool {
	_, answered := FromStatus(err)
	if answered {
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.Aborted:
		return true
	}
	return errors.Is(err, context.Canceled)
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
