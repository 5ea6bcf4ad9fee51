// Command peers starts the peers of the benchmarks, prints their addresses, and
// stops them when it is interrupted: for trying things by hand.
//
//	go run ./cmd/peers -dir ./bench-data redis etcd
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tenurehq/tenure/bench/peers"
)

var kinds = map[string]func(context.Context, string) (*peers.Server, error){
	"redis": peers.Redis, "redis-memory": peers.RedisMemory, "etcd": peers.Etcd,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := flag.String("dir", "./bench-data", "directory for their data; what they left there is removed")
	flag.Parse()
	if err := run(ctx, *dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, names []string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"redis", "redis-memory", "etcd"}
	}
	for _, name := range names {
		start, known := kinds[name]
		if !known {
			return fmt.Errorf("%q is no peer: there are redis, redis-memory and etcd", name)
		}
		s, startErr := start(ctx, dir)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, s.Stop()) }()
		fmt.Printf("%-13s %s  %s\n", s.Name, s.Addr, s.Version)
	}
	<-ctx.Done()
	return nil
}
