package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

// Nobody holds a connection by announcing a body that does not come, least of
// all who was not authenticated.
//
// proves: T12
func TestT12_ABodyThatDoesNotComeHoldsNoConnection(t *testing.T) {
	eng := journal.Memory()
	defer eng.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- server.New(eng, server.Config{HeaderTimeout: 200 * time.Millisecond, DrainTimeout: time.Second}).Serve(ctx, l)
	}()
	for _, head := range []string{
		"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
		"GET /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
		"POST /tenure.v1.LeaseService/Acquire HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, head)
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%.20q: the connection was held: %v", head, err)
		}
		c.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
