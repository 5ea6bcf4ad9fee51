package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/wire"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// routes serves every method of the services as JSON, and what operators ask.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.routeService(mux, &pb.LeaseService_ServiceDesc, &leases{Server: s})
	s.routeService(mux, &pb.AdminService_ServiceDesc, &admin{Server: s})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, nil) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { plain(w, s.ready()) })
	metrics := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := s.auth.check(r.Header.Values("Authorization")); err != nil {
			writeError(w, err)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, refusal{http.StatusNotFound, "path", fmt.Sprintf("%q is nothing here: POST to /tenure.v1.LeaseService/Acquire, or GET /healthz, /readyz, /metrics", shorten(r.URL.Path))})
	})
	return mux
}

func plain(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// routeService needs nothing but the generated description of a service.
func (s *Server) routeService(mux *http.ServeMux, d *grpc.ServiceDesc, service any) {
	for _, method := range d.Methods {
		s.route(mux, d, method.MethodName, func(w http.ResponseWriter, r *http.Request, body []byte) error {
			answer, err := method.Handler(service, r.Context(), func(m any) error { return wire.UnmarshalJSON(body, m.(proto.Message)) }, nil)
			if err != nil {
				return err
			}
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.cfg.HeaderTimeout))
			return writeLine(w, http.StatusOK, answer.(proto.Message))
		})
	}
	for _, stream := range d.Streams {
		s.route(mux, d, stream.StreamName, func(w http.ResponseWriter, r *http.Request, body []byte) error {
			if stream.ClientStreams {
				return &tenure.Error{Code: tenure.ErrUnsupported, Field: "method", Why: "it carries calls both ways at once, which is for gRPC: POST to the methods themselves"}
			}
			open := s.metrics.streams.WithLabelValues(stream.StreamName)
			open.Inc()
			defer open.Dec()
			lines := &lines{w: w, control: http.NewResponseController(w), ctx: r.Context(), body: body, patience: s.cfg.HeaderTimeout}
			err := stream.Handler(service, lines)
			if err == nil || !lines.begun {
				return err
			}
			_ = lines.end(err) // a client that has gone hears nothing
			return told{err}
		})
	}
}

// route serves one method: what is refused before the call looks the same for
// all of them.
func (s *Server) route(mux *http.ServeMux, d *grpc.ServiceDesc, name string, call func(http.ResponseWriter, *http.Request, []byte) error) {
	mux.HandleFunc("/"+d.ServiceName+"/"+name, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may be used again
		body, err := s.open(w, r)
		if err == nil {
			ctx := peer.NewContext(r.Context(), &peer.Peer{Addr: remote(r.RemoteAddr)})
			err = call(w, r.WithContext(ctx), body)
			s.metrics.answered(name, err)
		}
		if err != nil && !errors.As(err, new(told)) {
			writeError(w, err)
		}
	})
}

// prompt lets nobody hold a connection by a body that does not come, whatever
// the answer is and before anybody was authenticated.
func (s *Server) prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
		next.ServeHTTP(w, r)
	})
}

// open judges the request's head and reads its body.
func (s *Server) open(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := s.auth.check(r.Header.Values("Authorization")); err != nil {
		return nil, err
	}
	if s.draining.Err() != nil {
		return nil, closing()
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refusal{http.StatusMethodNotAllowed, "method", r.Method + " is not served here: use POST, with one JSON object as body"}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, refusal{http.StatusUnsupportedMediaType, "content-encoding", fmt.Sprintf("%q is not accepted: send the body uncompressed", shorten(e))}
	}
	// Insisting on the type keeps web pages from posting here: their browser
	// would have to ask first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refusal{http.StatusUnsupportedMediaType, "content-type", fmt.Sprintf("%q is not accepted: send the header Content-Type: application/json (curl --json does)", shorten(r.Header.Get("Content-Type")))}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.cfg.MaxMessage)))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // waits and streams take their time
	} else {
		w.Header().Set("Connection", "close")
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, refusal{http.StatusRequestEntityTooLarge, "body", fmt.Sprintf("it is larger than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, refusal{http.StatusBadRequest, "body", "it did not arrive whole: " + err.Error()}
	}
	return body, nil
}

// refusal is an invalid request that HTTP has a status of its own for.
type refusal struct {
	status int
	field  string
	why    string
}

func (r refusal) Error() string { return "tenure: invalid " + r.field + ": " + r.why }
func (r refusal) Unwrap() error {
	return &tenure.Error{Code: tenure.ErrInvalid, Field: r.field, Why: r.why}
}

// told is an error that the client has read already, as the last line of a
// stream.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

// writeError answers with the error as one object.
func writeError(w http.ResponseWriter, err error) {
	m := wire.FromError(err)
	code, _ := tenure.ParseCode(m.Code)
	status := wire.HTTPStatus(code)
	var r refusal
	if errors.As(err, &r) {
		status = r.status
	}
	if code == tenure.ErrDenied {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if code == tenure.ErrRecovering && m.FreeInMs > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(m.FreeInMs)/1000))))
	}
	_ = writeLine(w, status, m) // a client that has gone hears nothing
}

func writeLine(w http.ResponseWriter, status int, m proto.Message) error {
	line, err := wire.MarshalJSON(m)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(line)+1))
	w.WriteHeader(status)
	_, err = w.Write(append(line, '\n'))
	return err
}

// lines is a server stream that writes each message as one line of JSON.
type lines struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	ctx      context.Context
	body     []byte
	patience time.Duration
	read     bool
	begun    bool
}

// RecvMsg gives the request's body, once.
func (l *lines) RecvMsg(m any) error {
	if l.read {
		return io.EOF
	}
	l.read = true
	return wire.UnmarshalJSON(l.body, m.(proto.Message))
}

// SendMsg writes a line and flushes it. A client that does not read is let go
// in bounded time.
func (l *lines) SendMsg(m any) error {
	line, err := wire.MarshalJSON(m.(proto.Message))
	if err != nil {
		return err
	}
	return l.write(line)
}

// end says, as the last line, why the stream is over.
func (l *lines) end(err error) error {
	line, failed := wire.MarshalJSON(wire.FromError(err))
	if failed != nil {
		return failed
	}
	return l.write(fmt.Appendf(nil, `{"error":%s}`, line))
}

func (l *lines) write(line []byte) error {
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.begun = true
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(l.patience))
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}

func (l *lines) Context() context.Context     { return l.ctx }
func (l *lines) SetHeader(metadata.MD) error  { return nil }
func (l *lines) SendHeader(metadata.MD) error { return nil }
func (l *lines) SetTrailer(metadata.MD)       {}

// remote is a peer's address as net/http gives it.
type remote string

func (remote) Network() string  { return "tcp" }
func (r remote) String() string { return string(r) }

var _ net.Addr = remote("")

func nameOf(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "\uFFFD") + "…"
}
