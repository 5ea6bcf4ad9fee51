package main

import (
	"fmt"
)

// bar is one promise about a median.
type bar struct {
	name    string
	measure string
	callers int
	subject string
	than    string // the peer's figure it is compared with; "" is an absolute bar
	what    what
	wanted  float64 // at least, for rates; at most, for times
}

// what of a figure is compared.
type what uint8

const (
	rate what = iota
	p50
	p99
)

// verdict is what became of a bar.
type verdict struct {
	Bar     string  `json:"bar"`
	Wanted  string  `json:"wanted"`
	Reached string  `json:"reached"`
	Value   float64 `json:"value"`
	Met     bool    `json:"met"`
}

var bars = []bar{
	{"durable cycles, 256 callers, to Redis (go-redis)", "cycles", 256, "tenure", "redis (go-redis)", rate, 2},
	{"durable cycles, 1,024 callers, to Redis (go-redis)", "cycles", 1024, "tenure", "redis (go-redis)", rate, 3},
	{"durable cycles, 256 callers, to Redis (rueidis)", "cycles", 256, "tenure", "redis (rueidis)", rate, 1},
	{"durable cycles, 1,024 callers, to Redis (rueidis)", "cycles", 1024, "tenure", "redis (rueidis)", rate, 1},
	{"durable cycles, 256 callers, to etcd", "cycles", 256, "tenure", "etcd", rate, 10},
	{"durable cycles, 1,024 callers, to etcd", "cycles", 1024, "tenure", "etcd", rate, 10},
	{"durable cycle, 1 caller, p50, to Redis (go-redis)", "cycles", 1, "tenure", "redis (go-redis)", p50, 1.25},
	{"durable cycle, 1 caller, p50, to etcd", "cycles", 1, "tenure", "etcd", p50, 0.5},
	{"renewals in calls of 100, to Redis without persistence", "renew", renewers, "tenure, 100 a call", "redis-memory, 100 a pipeline", rate, 1.5},
	{"renewals in calls of 100, to Redis synced", "renew", renewers, "tenure, 100 a call", "redis, 100 a pipeline", rate, 1.5},
	{"hand-over, p50, to etcd", "handover", waiters, "tenure", "etcd concurrency.Mutex", p50, 0.25},
	{"hand-over, p99, to etcd", "handover", waiters, "tenure", "etcd concurrency.Mutex", p99, 0.5},
	{"refusals/s", "contend", contenders, "tenure", "", rate, 300_000},
	{"embedded durable cycles, 64 callers, to the bare syncer", "embedded", 64, "tenure journal", "bare syncer", rate, 0.8},
}

// judge reports false if it was not measured.
func (b bar) judge(r *report) (verdict, bool) {
	own, found := r.median(b.measure, b.callers, b.subject)
	if !found {
		return verdict{}, false
	}
	value, unit := b.of(own), ""
	if b.than != "" {
		peer, found := r.median(b.measure, b.callers, b.than)
		if !found {
			return verdict{}, false
		}
		value, unit = value/b.of(peer), " ×"
	}
	show := func(x float64) string {
		if unit == "" {
			return thousands(x)
		}
		return fmt.Sprintf("%.2f%s", x, unit)
	}
	v := verdict{Bar: b.name, Wanted: "≥ " + show(b.wanted), Reached: show(value), Value: value, Met: value >= b.wanted}
	if b.what != rate {
		v.Wanted, v.Met = "≤ "+show(b.wanted), value <= b.wanted
	}
	return v, true
}

func (b bar) of(f figure) float64 {
	switch b.what {
	case p50:
		return float64(f.P50)
	case p99:
		return float64(f.P99)
	}
	return f.PerSec
}
