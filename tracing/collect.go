package tracing

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// This file has the callback of a collection. The callback waits for nobody.

// collect reports the oldest hold of each series, its MaxHold, and the number of ended waits
// by outcome. It reports outcomes that no wait has had yet as well, which a
// histogram cannot do. Only [guard.Once] replays and joins, so these two are
// reported once there are any.
//
// The first collection that sees a series makes its counters exist. Their first
// increment is then seen as one. collect does not do that earlier, because the
// provider may be set later than the guard is made.
//
// It reports idle keys once there are any, because few guards linger.
func (o *Observer) collect(ctx context.Context, to metric.Observer) error {
	idle := make(map[*series]int64)
	for name, n := range o.idlers.keys() {
		s := o.catalog.find(work{name: name})
		idle[s] += int64(n)
		s.idled.Store(true)
	}
	for _, s := range o.catalog.all() {
		if s.idled.Load() {
			to.ObserveInt64(o.in.keysIdle, idle[s], s.observe...)
		}
		s.zero.Do(func() { o.zero(ctx, s) })
		lasts, limit := s.holds.oldest()
		to.ObserveFloat64(o.in.holdOldest, lasts.Seconds(), s.observe...)
		if limit > 0 {
			to.ObserveFloat64(o.in.holdLimit, limit.Seconds(), s.observe...)
		}
		for out := range waitOutcomes {
			n := s.waits[out].Load()
			if n > 0 || out != replayed && out != joined {
				to.ObserveInt64(o.in.waits, n, s.tell[out]...)
			}
		}
	}
	return nil
}

func (o *Observer) zero(ctx context.Context, s *series) {
	o.in.waiters.Add(ctx, 0, s.now...)
	o.in.leases.Add(ctx, 0, s.now...)
	for _, attrs := range s.losses {
		o.in.leasesLost.Add(ctx, 0, attrs...)
	}
	for _, out := range []outcome{renewed, lost, unavailable} {
		o.in.renewals.Add(ctx, 0, s.count[out]...)
	}
}
