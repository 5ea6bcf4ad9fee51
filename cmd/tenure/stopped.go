package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// stopped is the cause of a context that ended because the program was asked
// to stop.
type stopped struct{ signal syscall.Signal }

// Error says so.
func (s stopped) Error() string { return "interrupted (" + s.signal.String() + ")" }

// exit is what a shell reports for a program that the signal ended.
func (s stopped) exit() int { return 128 + int(s.signal) }

// untilStopped is a context that ends with the first SIGINT or SIGTERM. The
// next one is for whoever listens then, and otherwise ends the process at once.
func untilStopped(parent context.Context) context.Context {
	ctx, stop := context.WithCancelCause(parent)
	asked := make(chan os.Signal, 1)
	notify(asked, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s := <-asked
		signal.Stop(asked)
		stop(stopped{s.(syscall.Signal)})
	}()
	return ctx
}

// notify leaves alone what was ignored from the start, as nohup and shells in
// scripts do for what they put into the background.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}
