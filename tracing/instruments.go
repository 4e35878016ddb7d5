package tracing

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// The names of the metrics. README.md and grafana.json use them too.
const (
	waitDuration = "guard.wait.duration"
	holdDuration = "guard.hold.duration"
	waiters      = "guard.waiters"
	leases       = "guard.leases"
	renewals     = "guard.renewals"
	leasesLost   = "guard.leases.lost"
)

// buckets are in seconds: those of the conventions for HTTP, and 1 ms below, where an uncontended lock is.
var buckets = []float64{.001, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

type instruments struct {
	waitDuration metric.Float64Histogram
	holdDuration metric.Float64Histogram
	waiters      metric.Int64UpDownCounter
	leases       metric.Int64UpDownCounter
	renewals     metric.Int64Counter
	leasesLost   metric.Int64Counter
}

func newInstruments(m metric.Meter) (instruments, error) {
	var in instruments
	var errs [6]error
	in.waitDuration, errs[0] = m.Float64Histogram(waitDuration, metric.WithUnit("s"),
		metric.WithDescription("How long calls waited for their key."), metric.WithExplicitBucketBoundaries(buckets...))
	in.holdDuration, errs[1] = m.Float64Histogram(holdDuration, metric.WithUnit("s"),
		metric.WithDescription("How long calls held their key."), metric.WithExplicitBucketBoundaries(buckets...))
	in.waiters, errs[2] = m.Int64UpDownCounter(waiters, metric.WithUnit("{waiter}"),
		metric.WithDescription("Calls that wait for a key now."))
	in.leases, errs[3] = m.Int64UpDownCounter(leases, metric.WithUnit("{lease}"),
		metric.WithDescription("Keys that are held now."))
	in.renewals, errs[4] = m.Int64Counter(renewals, metric.WithUnit("{renewal}"),
		metric.WithDescription("Tries to renew a lease."))
	in.leasesLost, errs[5] = m.Int64Counter(leasesLost, metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that ended before their function returned."))
	return in, errors.Join(errs[:]...)
}
