package client_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/client"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

// A client is an engine: what runs on an embedded journal runs on a server.
func ExampleDial() {
	// A server in this process stands for one elsewhere.
	ctx, stop := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	engine := journal.Memory()
	stopped := make(chan error)
	go func() { stopped <- server.New(engine, server.Config{}).Serve(ctx, l) }()

	var eng tenure.Engine
	c, err := client.Dial(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	eng = c
	claim := tenure.On("orders/42")
	claim.Holder = "me"
	lease, err := eng.Acquire(ctx, claim)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.State, lease.Holder, lease.Resource)

	claim.Holder = "you"
	_, err = eng.Acquire(ctx, claim)
	fmt.Println(tenure.CodeOf(err))

	lease, err = eng.Do(ctx, tenure.Release{Ref: lease.Ref, Holder: "me"})
	fmt.Println(lease.State, err)

	_ = c.Close()
	stop()
	<-stopped
	_ = engine.Close()
	// Output:
	// active me orders/42
	// tenure: held
	// released <nil>
}
