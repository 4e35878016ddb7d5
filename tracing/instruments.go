package tracing

import (
	"errors"
	"slices"

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
	waits        = "guard.waits"
	holdOldest   = "guard.hold.oldest"
	holdLimit    = "guard.hold.limit"
	results      = "guard.results"
	keysIdle     = "guard.keys.idle"
)

// Buckets are in seconds. They are those of the conventions for HTTP, and 1 ms
// below these for an uncontended lock. A hold may take as long as MaxHold,
// which is 60 s by default.
var (
	waitBuckets = []float64{.001, .005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	holdBuckets = slices.Concat(waitBuckets, []float64{15, 30, 60, 120})
)

type instruments struct {
	waitDuration metric.Float64Histogram
	holdDuration metric.Float64Histogram
	waiters      metric.Int64UpDownCounter
	leases       metric.Int64UpDownCounter
	renewals     metric.Int64Counter
	leasesLost   metric.Int64Counter
	holdOldest   metric.Float64ObservableGauge
	holdLimit    metric.Float64ObservableGauge
	waits        metric.Int64ObservableCounter
	results      metric.Int64Counter
	keysIdle     metric.Int64ObservableGauge
}

func newInstruments(m metric.Meter) (instruments, error) {
	var in instruments
	var errs [11]error
	in.waitDuration, errs[0] = m.Float64Histogram(waitDuration, metric.WithUnit("s"),
		metric.WithDescription("How long calls waited for their key."),
		metric.WithExplicitBucketBoundaries(waitBuckets...))
	in.holdDuration, errs[1] = m.Float64Histogram(holdDuration, metric.WithUnit("s"),
		metric.WithDescription("How long calls held their key."), metric.WithExplicitBucketBoundaries(holdBuckets...))
	in.waiters, errs[2] = m.Int64UpDownCounter(waiters, metric.WithUnit("{waiter}"),
		metric.WithDescription("Calls that wait for a key now."))
	in.leases, errs[3] = m.Int64UpDownCounter(leases, metric.WithUnit("{lease}"),
		metric.WithDescription("Keys that are held now."))
	in.renewals, errs[4] = m.Int64Counter(renewals, metric.WithUnit("{renewal}"),
		metric.WithDescription("Tries to renew a lease."))
	in.leasesLost, errs[5] = m.Int64Counter(leasesLost, metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that ended before their function returned."))
	in.holdOldest, errs[6] = m.Float64ObservableGauge(holdOldest, metric.WithUnit("s"),
		metric.WithDescription("How long the oldest hold lasts already; 0 if there is none."))
	in.waits, errs[7] = m.Int64ObservableCounter(waits, metric.WithUnit("{wait}"),
		metric.WithDescription("Calls whose wait for a key has ended."))
	in.results, errs[8] = m.Int64Counter(results, metric.WithUnit("{result}"),
		metric.WithDescription("Calls of guard.Once that got a result or recorded one."))
	in.keysIdle, errs[9] = m.Int64ObservableGauge(keysIdle, metric.WithUnit("{key}"),
		metric.WithDescription("Keys that guard.WithLinger keeps here, and that no call uses."))
	in.holdLimit, errs[10] = m.Float64ObservableGauge(holdLimit, metric.WithUnit("s"),
		metric.WithDescription("MaxHold of the oldest hold; no value if there is none, or it has no limit."))
	return in, errors.Join(errs[:]...)
}
