// Command profiled is "tenure serve" on loopback that records profiles of
// itself: SIGUSR1 starts one, SIGUSR2 ends it. They go to the directory that
// TENURE_PROFILES names: NN-server-cpu.pprof, and NN-server-allocs.pprof with
// everything allocated since the process began.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"

	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("profiled serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:7070", "address to listen on")
	data := flags.String("data", "./tenure-data", "directory of the journal")
	if len(args) == 0 || args[0] != "serve" {
		return errors.New("the first argument is serve")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	eng, err := journal.Open(*data, journal.Config{})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	profiles := make(chan os.Signal, 1)
	signal.Notify(profiles, syscall.SIGUSR1, syscall.SIGUSR2)
	go record(os.Getenv("TENURE_PROFILES"), profiles)
	return errors.Join(server.New(eng, server.Config{Version: "profiled"}).Serve(ctx, l), eng.Close())
}

func record(dir string, signals <-chan os.Signal) {
	n := 0
	var file *os.File
	for s := range signals {
		var err error
		switch {
		case s == syscall.SIGUSR1 && file == nil:
			n++
			if file, err = os.Create(filepath.Join(dir, fmt.Sprintf("%02d-server-cpu.pprof", n))); err == nil {
				err = pprof.StartCPUProfile(file)
			}
		case s == syscall.SIGUSR2 && file != nil:
			pprof.StopCPUProfile()
			err = errors.Join(file.Close(), allocations(filepath.Join(dir, fmt.Sprintf("%02d-server-allocs.pprof", n))))
			file = nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profiled:", err)
		}
	}
}

// allocations has its name only once it is whole: that is how others know that
// both profiles are.
func allocations(name string) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	if err := errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
