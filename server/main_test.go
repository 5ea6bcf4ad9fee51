package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/journal"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
	"github.com/tenurehq/tenure/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server on a loopback port.
type running struct {
	address string
	drain   func() // begins the drain
	wait    func() // for Serve to return
}

func serve(t testing.TB, engine tenure.Engine, cfg server.Config) running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.New(engine, cfg).Serve(ctx, l) }()
	wait := sync.OnceFunc(func() {
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return running{l.Addr().String(), cancel, wait}
}

func memory(t testing.TB) *journal.Engine {
	t.Helper()
	e := journal.Memory()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// rpc is a plain gRPC client, as other languages have.
func rpc(t testing.TB, r running, opts ...grpc.DialOption) pb.LeaseServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewLeaseServiceClient(conn)
}

// object is a JSON object, as a script would see it.
type object = map[string]any

// post does what curl --json does.
func (r running) post(t testing.TB, method, body string) (int, object) {
	t.Helper()
	return r.send(t, r.request(t, method, strings.NewReader(body)))
}

func (r running) request(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/tenure.v1."+method, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (r running) send(t testing.TB, req *http.Request) (int, object) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\n")); n != 1 || !bytes.HasSuffix(b, []byte("\n")) {
		t.Errorf("the answer is not one line: %q", b)
	}
	return res.StatusCode, parse(t, b)
}

func parse(t testing.TB, b []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatalf("%q is not an object: %v", b, err)
	}
	return o
}

// stream reads the lines of a streaming method until the test ends.
func (r running) stream(t testing.TB, method, body string) func() object {
	t.Helper()
	res, err := http.DefaultClient.Do(r.request(t, method, strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	return func() object {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		return parse(t, lines.Bytes())
	}
}

// scripted is an engine whose answers a test decides; it keeps no leases. What
// is not scripted is answered with ErrNotFound.
type scripted struct {
	acquire func(context.Context, tenure.Claim) (tenure.Lease, error)
	do      func(context.Context, tenure.Command) (tenure.Lease, error)
	list    func(context.Context, tenure.Filter) iter.Seq2[tenure.Lease, error]
}

var _ tenure.Engine = (*scripted)(nil)

func (e *scripted) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return e.acquire(ctx, c)
}

func (e *scripted) Do(ctx context.Context, c tenure.Command) (tenure.Lease, error) {
	return e.do(ctx, c)
}

func (e *scripted) Renew(_ context.Context, refs []tenure.Ref) ([]error, error) {
	each := make([]error, len(refs))
	for i := range each {
		each[i] = tenure.ErrNotFound
	}
	return each, nil
}

func (e *scripted) Lookup(context.Context, tenure.Query) (tenure.Lease, error) {
	return tenure.Lease{}, tenure.ErrNotFound
}

func (e *scripted) List(ctx context.Context, f tenure.Filter) iter.Seq2[tenure.Lease, error] {
	return e.list(ctx, f)
}

func (e *scripted) Watch(ctx context.Context, _ tenure.Filter) iter.Seq2[tenure.Event, error] {
	return func(yield func(tenure.Event, error) bool) {
		if yield(tenure.Event{Kind: tenure.EventWatching, Position: tenure.Position{LSN: 1}}, nil) {
			<-ctx.Done()
		}
	}
}

func (e *scripted) Caps() tenure.Caps { return tenure.Caps{} }

// granted is a lease on the first resource of a claim.
func granted(c tenure.Claim, lsn tenure.LSN) tenure.Lease {
	id := tenure.LeaseID{LSN: lsn}
	return tenure.Lease{
		Ref: tenure.Ref{Token: tenure.Token{Lease: id, Epoch: 1}, Resource: c.Resources[0]}, ID: id, Epoch: 1,
		Resources: c.Resources, Holder: c.Holder, State: tenure.StateActive, TTL: c.TTL, LSN: lsn, AsOf: lsn,
	}
}
