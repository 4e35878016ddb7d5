package tracing

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// What a collection asks for. It waits for nobody.

// oldest tells it the oldest hold of each series. The first collection that sees a series makes its counters exist, so that
// their first increment is seen as one; not before, for the provider may be set later than the guard is made.
func (o *Observer) oldest(ctx context.Context, to metric.Float64Observer) error {
	for _, s := range o.catalog.all() {
		s.zero.Do(func() { o.zero(ctx, s) })
		to.Observe(s.holds.oldest().Seconds(), s.observe...)
	}
	return nil
}

func (o *Observer) zero(ctx context.Context, s *series) {
	o.in.waiters.Add(ctx, 0, s.now...)
	o.in.leases.Add(ctx, 0, s.now...)
	for _, out := range []outcome{lost, maxHold, closed} {
		o.in.leasesLost.Add(ctx, 0, s.count[out]...)
	}
	for _, out := range []outcome{renewed, lost, unavailable} {
		o.in.renewals.Add(ctx, 0, s.count[out]...)
	}
}

// counted tells it how many waits have ended, by outcome: also those that none has had so far, which a histogram cannot say.
func (o *Observer) counted(_ context.Context, to metric.Int64Observer) error {
	for _, s := range o.catalog.all() {
		for out := range waitOutcomes {
			to.Observe(s.waits[out].Load(), s.tell[out]...)
		}
	}
	return nil
}
