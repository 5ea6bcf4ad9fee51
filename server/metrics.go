package server

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/tenurehq/tenure"
	pb "github.com/tenurehq/tenure/proto/tenure/v1"
)

// metrics are the server's own; the engine has others.
type metrics struct {
	registry   *prometheus.Registry
	calls      map[string][]prometheus.Counter // by method, then by code; 0 is "ok"
	streams    *prometheus.GaugeVec
	waits      prometheus.Gauge
	conns      prometheus.Gauge
	turnedAway prometheus.Counter
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		registry: r,
		calls:    make(map[string][]prometheus.Counter),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tenure_server_streams", Help: "Open streams by method.",
		}, []string{"method"}),
		waits: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tenure_server_waiters", Help: "Claims of clients that wait.",
		}),
		conns: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tenure_server_connections", Help: "Open connections.",
		}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tenure_server_connections_refused_total", Help: "Connections closed at once, at the limit or while draining.",
		}),
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tenure_server_requests_total", Help: "Calls answered, by method and code.",
	}, []string{"method", "code"})
	// Looking a label up costs more than counting: each counter is found once.
	for _, service := range []grpc.ServiceDesc{pb.LeaseService_ServiceDesc, pb.AdminService_ServiceDesc} {
		for _, method := range service.Methods {
			m.calls[method.MethodName] = counters(calls, method.MethodName)
		}
		for _, stream := range service.Streams {
			m.calls[stream.StreamName] = counters(calls, stream.StreamName)
		}
	}
	r.MustRegister(calls, m.streams, m.waits, m.conns, m.turnedAway)
	return m
}

func counters(calls *prometheus.CounterVec, method string) []prometheus.Counter {
	all := []prometheus.Counter{calls.WithLabelValues(method, "ok")}
	for _, code := range tenure.Codes() {
		all = append(all, calls.WithLabelValues(method, code.String()))
	}
	return all
}

// answered counts one call. Codes count from 1 without a gap.
func (m *metrics) answered(method string, err error) {
	counters := m.calls[method[strings.LastIndexByte(method, '/')+1:]]
	if counters == nil {
		return
	}
	code := tenure.CodeOf(err)
	if err != nil && code == 0 {
		code = tenure.ErrUnknownOutcome
	}
	counters[code].Inc()
}
