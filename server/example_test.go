package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

// An engine behind a port, asked as curl asks it.
func ExampleServer_Serve() {
	engine := journal.Memory()
	defer func() { _ = engine.Close() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- server.New(engine, server.Config{}).Serve(ctx, l) }()

	ask := func(method, body string) {
		res, err := http.Post("http://"+l.Addr().String()+"/tenure.v1.LeaseService/"+method, "application/json", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		fmt.Println(res.StatusCode, strings.Contains(string(answer), `"holder":"me"`))
	}
	ask("Acquire", `{"resources":["orders/42"],"holder":"me"}`)
	ask("Acquire", `{"resources":["orders/42"],"holder":"you"}`)

	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(<-stopped)
	// Output:
	// 200 true
	// 409 true
	// <nil>
}
