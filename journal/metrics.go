package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenurehq/tenure"
)

// metrics are what operators watch. They move only after what they count is
// durable (T11).
type metrics struct {
	registerer prometheus.Registerer
	registered []prometheus.Collector

	events   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	batch    prometheus.Histogram
	commit   prometheus.Histogram
	handOver prometheus.Histogram
	watchers prometheus.Gauge
	watchLag prometheus.Histogram
	halted   prometheus.Gauge
}

// newMetrics registers the engine's metrics. With no registerer they count for
// nobody.
func newMetrics(e *Engine) (*metrics, error) {
	latency := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	m := &metrics{
		registerer: e.cfg.Registerer,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenure_events_total",
			Help: "Changes of leases, by kind: granted, activated, released, revoking, freed, expired."}, []string{"kind"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenure_refusals_total",
			Help: "Claims, commands and reads that were refused, by code."}, []string{"code"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenure_batch_commands",
			Help: "Commands in one record.", Buckets: prometheus.ExponentialBuckets(1, 2, 13)}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenure_commit_seconds",
			Help: "Time to make one record durable.", Buckets: latency}),
		handOver: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenure_handover_seconds",
			Help: "Time that a claim waited until it was granted.", Buckets: prometheus.ExponentialBuckets(1e-3, 4, 12)}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenure_watchers", Help: "Open watches."}),
		watchLag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenure_watch_lag_commands",
			Help: "How many commands a watcher was behind after it took a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 10)}),
		halted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenure_halted", Help: "1 when a failed write has halted the engine."}),
	}
	if m.registerer == nil {
		return m, nil
	}
	for _, c := range append(e.volatile(), m.events, m.refusals, m.batch, m.commit, m.handOver, m.watchers, m.watchLag, m.halted) {
		if err := m.registerer.Register(c); err != nil {
			m.unregister()
			return nil, &tenure.Error{Code: tenure.ErrInvalid, Field: "registerer", Cause: err, Why: "one registry serves one engine: wrap it with labels for a second"}
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

// volatile are the metrics that are read when they are asked for.
func (e *Engine) volatile() []prometheus.Collector {
	gauge := func(name, help string, labels prometheus.Labels, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, f)
	}
	all := []prometheus.Collector{
		gauge("tenure_lsn", "The last durable position.", nil, func() float64 { return float64(e.feed.headLSN()) }),
		gauge("tenure_waiters", "Claims that wait.", nil, func() float64 { return float64(e.waiters.Load()) }),
		gauge("tenure_snapshot_age_seconds", "Time since the newest snapshot was taken; -1 before the first of this process.", nil, e.snapshots.age),
	}
	return append(all, e.live.collectors()...)
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
	m.registered = nil
}

func (m *metrics) committed(took time.Duration, commands int) {
	m.commit.Observe(took.Seconds())
	if commands > 0 {
		m.batch.Observe(float64(commands))
	}
}

func (m *metrics) stepped(effects []effect) {
	for i := range effects {
		m.events.WithLabelValues(effects[i].event.String()).Inc()
	}
}

func (m *metrics) answered(r *request, now time.Duration) {
	if r.err != nil {
		m.refusals.WithLabelValues(tenure.CodeOf(r.err).String()).Inc()
	}
	if r.granted && r.arrived > 0 {
		m.handOver.Observe((now - r.arrived).Seconds())
	}
}

func (m *metrics) watching(n int)         { m.watchers.Add(float64(n)) }
func (m *metrics) watched(lag tenure.LSN) { m.watchLag.Observe(float64(lag)) }
func (m *metrics) halt()                  { m.halted.Set(1) }
