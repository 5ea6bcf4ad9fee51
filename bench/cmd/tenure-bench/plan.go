package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/tenurehq/tenure/bench/load"
)

// measure is one thing that is measured for several subjects.
type measure struct {
	name     string
	title    string
	unit     string // what is counted
	turn     string // what p50 and p99 are of
	callers  []int
	subjects []subject // Tenure is the first
	chosen   []cell    // of callers × subjects
}

// subject is one that is measured.
type subject struct {
	name       string
	server     string // the process on the other end; "" is none
	durability string // where there is no server to say so, or where the measure is not about writes
	open       func(ctx context.Context, r *rig, callers int) (*load.Work, error)
}

// cell is one figure of the results.
type cell struct {
	callers int
	subject subject
}

// Sizes of the measures.
const (
	renewals   = 10_000 // leases kept alive
	renewers   = 8      // callers that do so
	waiters    = 64
	contenders = 256
)

const volatile = "none: nothing is written"

func measures() []measure {
	return []measure{
		{
			name: "cycles", title: "Durable cycles over the network: acquire, then release", unit: "cycles", turn: "cycle",
			callers: []int{1, 64, 256, 1024},
			subjects: []subject{
				{name: "tenure", server: "tenure", open: tenureCycles},
				{name: "redis (go-redis)", server: "redis", open: redisCycles},
				{name: "redis (rueidis)", server: "redis", open: rueidisCycles},
				{name: "etcd", server: "etcd", open: etcdCycles},
			},
		},
		{
			name: "renew", title: fmt.Sprintf("Renewals of %d leases", renewals), unit: "renewals", turn: "batch",
			callers: []int{renewers},
			subjects: []subject{
				{name: "tenure, 100 a call", server: "tenure", durability: volatile, open: tenureRenewals(100)},
				{name: "tenure, 1,000 a call", server: "tenure", durability: volatile, open: tenureRenewals(1000)},
				{name: "redis, 100 a pipeline", server: "redis", open: redisRenewals("redis")},
				{name: "redis-memory, 100 a pipeline", server: "redis-memory", durability: volatile, open: redisRenewals("redis-memory")},
			},
		},
		{
			name: "handover", title: "Hand-over: release called until the next waiter holds", unit: "hand-overs", turn: "hand-over",
			callers: []int{waiters},
			subjects: []subject{
				{name: "tenure", server: "tenure", open: tenureHandOver},
				{name: "etcd concurrency.Mutex", server: "etcd", open: etcdHandOver},
			},
		},
		{
			name: "contend", title: "Contention: try-lock of one held resource, refused", unit: "refusals", turn: "refusal",
			callers: []int{contenders},
			subjects: []subject{
				{name: "tenure", server: "tenure", durability: volatile, open: tenureContention},
				{name: "redis (go-redis)", server: "redis", durability: volatile, open: redisContention},
				{name: "redis (rueidis)", server: "redis", durability: volatile, open: rueidisContention},
				{name: "etcd", server: "etcd", open: etcdContention},
			},
		},
		{
			name: "embedded", title: "Embedded durable cycles, and a bare syncer with group commit writing the same bytes", unit: "cycles", turn: "cycle",
			callers: []int{1, 64},
			subjects: []subject{
				{name: "tenure journal", durability: "fdatasync before the answer", open: embeddedCycles},
				{name: "bare syncer", durability: "fdatasync before the answer", open: bareCycles},
			},
		},
	}
}

// choose leaves out the cells that do not match.
func choose(all []measure, only *regexp.Regexp) []measure {
	var chosen []measure
	for _, m := range all {
		for _, n := range m.callers {
			for _, s := range m.subjects {
				if only.MatchString(fmt.Sprintf("%s/%d/%s", m.name, n, s.name)) {
					m.chosen = append(m.chosen, cell{n, s})
				}
			}
		}
		if len(m.chosen) > 0 {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// resource is caller i's, 32 bytes long.
func resource(use string, i int) string {
	return fmt.Sprintf("bench.%s/%0*d", use, 32-len("bench./")-len(use), i)
}

// holder is caller i's, 16 bytes long.
func holder(i int) string { return fmt.Sprintf("holder-%09d", i) }

// named are the names of n callers, made before anything is measured.
type named struct{ resources, holders []string }

func names(use string, n int) named {
	all := named{make([]string, n), make([]string, n)}
	for i := range n {
		all.resources[i], all.holders[i] = resource(use, i), holder(i)
	}
	return all
}
