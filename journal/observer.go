package journal

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenurehq/tenure"
	"github.com/tenurehq/tenure/internal/liveness"
	"github.com/tenurehq/tenure/kernel"
)

// observer is the volatile side: who was heard from, and what the sequencer is
// to be asked about those who were not. It learns of a lease only when its
// grant is durable, and changes nothing except by proposing a command (T14).
type observer struct {
	engine *Engine
	table  *liveness.Table
	cancel context.CancelFunc
	reaped chan struct{}
}

func newObserver(e *Engine) *observer {
	return &observer{engine: e, table: liveness.New(e.cfg.Clock, liveness.Config{Shard: shard, Pause: e.cfg.pause})}
}

// follow applies one durable change.
func (o *observer) follow(x *effect, slot kernel.Slot) {
	switch l := &x.lease; x.event {
	case tenure.EventGranted, tenure.EventActivated:
		o.table.Track(entry(l, slot))
	case tenure.EventRevoking:
		o.table.Withdraw(l.ID, l.Epoch)
	case tenure.EventReleased, tenure.EventFreed, tenure.EventExpired:
		o.table.Forget(l.ID)
	}
}

// restore takes over what a recovery found: time counts from here, so that
// every live lease gets its full TTL again, every revoking one TTL and grace.
func (o *observer) restore(s *kernel.State) {
	s.Leases(0, func(l *kernel.Lease) bool {
		if l.State.Live() {
			o.table.Track(entry(l, s.Last().Slot))
		}
		return true
	})
	o.table.Restart()
}

func entry(l *kernel.Lease, slot kernel.Slot) liveness.Entry {
	x := liveness.Entry{
		Lease: l.ID, Epoch: l.Epoch, Phase: liveness.Active,
		TTL: time.Duration(l.TTL) * time.Millisecond, Grace: time.Duration(l.Grace) * time.Millisecond,
	}
	switch l.State {
	case tenure.StateReserved:
		x.Phase = liveness.Reserved
		if deadline := l.Deadline(); deadline > slot {
			x.In = time.Duration(deadline-slot) * time.Millisecond
		}
	case tenure.StateRevoking:
		x.Phase = liveness.Revoking
	}
	return x
}

// renew answers beats from memory.
func (o *observer) renew(refs []tenure.Ref, each []error) { o.table.Renew(refs, each) }

// left is how long until authority may be withdrawn, and until the resources
// may be reusable, if the holder stays silent; 0 = never, or not known.
func (o *observer) left(id tenure.LeaseID) (expires, free time.Duration) {
	expires, free, _ = o.table.Left(id)
	if expires == liveness.Never {
		expires = 0
	}
	if free == liveness.Never {
		free = 0
	}
	return expires, free
}

// start begins to reap.
func (o *observer) start() {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel, o.reaped = cancel, make(chan struct{})
	go func() {
		defer close(o.reaped)
		liveness.NewReaper(o.table, o.propose).Run(ctx)
	}()
}

// stop ends reaping; nothing is proposed afterwards.
func (o *observer) stop() {
	o.cancel()
	<-o.reaped
}

func (o *observer) halt(err error) { o.table.Halt(err) }

// propose puts what is due before the sequencer, and tells the table what
// became of it.
func (o *observer) propose(ctx context.Context, due []liveness.Proposal) error {
	asked := make([]*request, 0, len(due))
	for _, p := range due {
		r := newRequest(askPropose)
		r.proposal = p
		if err := o.engine.inbox.put(r, true); err != nil {
			return err
		}
		asked = append(asked, r)
	}
	for _, r := range asked {
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.err != nil {
			return r.err
		}
		o.table.Settle(r.proposal, r.took)
	}
	return nil
}

// propose steps the internal command that a proposal stands for. What no
// longer applies changes nothing.
func (s *sequencer) propose(r *request) {
	p := r.proposal
	cmd := kernel.Command{Lease: p.Lease, Epoch: p.Epoch}
	switch p.Kind {
	case liveness.Lapse:
		cmd.Kind = kernel.KindLapse
	case liveness.Reclaim:
		cmd.Kind = kernel.KindReclaim
	case liveness.Expire:
		cmd.Kind = kernel.KindExpire
		if l, _ := s.state.Lookup(p.Lease); l != nil {
			cmd.Deadline = l.Deadline()
		}
	}
	out := s.execute(&cmd)
	r.took = out.Changed()
	s.answers = append(s.answers, r)
}

// collectors are the metrics of the volatile side.
func (o *observer) collectors() []prometheus.Collector {
	return []prometheus.Collector{liveCollector{o.table}}
}

// liveCollector shows what the table counts.
type liveCollector struct{ table *liveness.Table }

var (
	descLeases   = prometheus.NewDesc("tenure_leases", "Live leases, by state.", []string{"state"}, nil)
	descRenewals = prometheus.NewDesc("tenure_renewals_total", "Renewals, by answer.", []string{"answer"}, nil)
	descLag      = prometheus.NewDesc("tenure_renewal_lag_ratio", "How much of a lease's TTL had passed in silence when it was renewed.", nil, nil)
	descRestarts = prometheus.NewDesc("tenure_time_given_again_total", "How often leases were given their time again: all after an open, those with a shorter TTL after a pause of this process.", []string{"reason"}, nil)
)

// Describe implements [prometheus.Collector].
func (c liveCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descLeases
	ch <- descRenewals
	ch <- descLag
	ch <- descRestarts
}

// Collect implements [prometheus.Collector].
func (c liveCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.table.Stats()
	for state, n := range map[tenure.State]int{tenure.StateReserved: s.Reserved, tenure.StateActive: s.Active, tenure.StateRevoking: s.Revoking} {
		ch <- prometheus.MustNewConstMetric(descLeases, prometheus.GaugeValue, float64(n), state.String())
	}
	ch <- prometheus.MustNewConstMetric(descRenewals, prometheus.CounterValue, float64(s.Answered), "yes")
	ch <- prometheus.MustNewConstMetric(descRenewals, prometheus.CounterValue, float64(s.Refused), "no")
	ch <- prometheus.MustNewConstMetric(descRestarts, prometheus.CounterValue, float64(s.Restarts), "open")
	ch <- prometheus.MustNewConstMetric(descRestarts, prometheus.CounterValue, float64(s.Pauses), "pause")
	buckets, total, sum := make(map[float64]uint64), uint64(0), 0.0
	for i, n := range s.Lag {
		total += n
		sum += float64(n) * (float64(i) + 0.5) / 10
		if i < len(s.Lag)-1 {
			buckets[float64(i+1)/10] = total
		}
	}
	ch <- prometheus.MustNewConstHistogram(descLag, total, sum, buckets)
}

// Counts is the number of live leases by state, at once and without waiting
// for the sequencer.
func (e *Engine) Counts() map[tenure.State]int {
	s := e.live.table.Stats()
	return map[tenure.State]int{tenure.StateReserved: s.Reserved, tenure.StateActive: s.Active, tenure.StateRevoking: s.Revoking}
}

// LSN is the last durable position.
func (e *Engine) LSN() tenure.LSN { return e.feed.headLSN() }
