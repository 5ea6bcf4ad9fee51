package client_test

import (
	"testing"
	"time"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/enginetest"
	"github.com/tenurehq/tenure/journal"
	"github.com/tenurehq/tenure/journal/memlog"
	"github.com/tenurehq/tenure/server"
)

// A journal behind a live server, asked by two clients, one of them over a
// road on which requests and answers get lost. A restart is one of the server:
// the client that it had is the client that goes on.
//
// proves: T1, T2, T3, T4, T5, T6, T7, T9, T10, T11, T12, T13, T14
func TestClientOfALiveServer(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, limits tenure.Limits) enginetest.Subject {
		log := memlog.New()
		var engine *journal.Engine
		stop := func() {}
		serve := func(at string) string {
			var err error
			if engine, err = journal.OpenLog(log, "", journal.Config{Limits: limits}); err != nil {
				t.Fatal(err)
			}
			opened := engine
			t.Cleanup(func() { _ = opened.Close() })
			at, stop = serveAt(t, engine, server.Config{DrainTimeout: time.Second}, at)
			return at
		}
		address := serve("127.0.0.1:0")
		road := newRoad(t, address)
		c := dial(t, road.address())
		reopen := func(with *memlog.Log) tenure.Engine {
			stop()
			_ = engine.Close()
			log = with
			serve(address)
			return c
		}
		return enginetest.Subject{
			Engine:   c,
			Peer:     dial(t, address),
			Restart:  func() tenure.Engine { return reopen(log.Crash(false)) },
			Recreate: func() tenure.Engine { return reopen(memlog.New()) },
			Lose:     road.loseNext,
		}
	})
}
