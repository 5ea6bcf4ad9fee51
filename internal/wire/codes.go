package wire

import (
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/tenurehq/tenure"
)

// row says how one code leaves a server.
type row struct {
	rpc  codes.Code
	http int
}

// table maps every [tenure.Code]. The way back reads the code's name from the
// error message beside the status; where something between client and server
// answered in the server's place there is none, and fromRPC decides.
var table = map[tenure.Code]row{
	tenure.ErrHeld:           {codes.FailedPrecondition, http.StatusConflict},
	tenure.ErrStale:          {codes.FailedPrecondition, http.StatusPreconditionFailed},
	tenure.ErrHolderMismatch: {codes.PermissionDenied, http.StatusForbidden},
	tenure.ErrNotFound:       {codes.NotFound, http.StatusNotFound},
	tenure.ErrEnded:          {codes.FailedPrecondition, http.StatusGone},
	tenure.ErrRetired:        {codes.OutOfRange, http.StatusGone},
	tenure.ErrInvalidState:   {codes.FailedPrecondition, http.StatusConflict},
	tenure.ErrConflict:       {codes.AlreadyExists, http.StatusConflict},
	tenure.ErrLost:           {codes.Aborted, http.StatusConflict},
	tenure.ErrUnknownOutcome: {codes.Unknown, http.StatusGatewayTimeout},
	tenure.ErrHalted:         {codes.Internal, http.StatusInternalServerError},
	tenure.ErrRecovering:     {codes.Unavailable, http.StatusServiceUnavailable},
	tenure.ErrFull:           {codes.ResourceExhausted, http.StatusTooManyRequests},
	tenure.ErrUnsupported:    {codes.Unimplemented, http.StatusNotImplemented},
	tenure.ErrInvalid:        {codes.InvalidArgument, http.StatusBadRequest},
	tenure.ErrDenied:         {codes.Unauthenticated, http.StatusUnauthorized},
	tenure.ErrUnavailable:    {codes.Unavailable, http.StatusServiceUnavailable},
	tenure.ErrCompacted:      {codes.OutOfRange, http.StatusGone},
}

// fromRPC reads a status without an error message: the transport's own, or a
// proxy's. What is not listed may have happened.
var fromRPC = map[codes.Code]tenure.Code{
	codes.InvalidArgument:   tenure.ErrInvalid,
	codes.NotFound:          tenure.ErrNotFound,
	codes.PermissionDenied:  tenure.ErrDenied,
	codes.Unauthenticated:   tenure.ErrDenied,
	codes.ResourceExhausted: tenure.ErrFull,
	codes.Unimplemented:     tenure.ErrUnsupported,
}

// HTTPStatus is the status of a JSON answer that carries the error.
func HTTPStatus(c tenure.Code) int {
	if r, ok := table[c]; ok {
		return r.http
	}
	return table[tenure.ErrUnknownOutcome].http
}
