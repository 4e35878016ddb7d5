package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"
)

// call is an order to measure a library in a workload.
type call struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the measurement
	workload string
	library  string
}

const patient = time.Minute // MaxWait if no caller may be turned away

// spread is the workload without competition. Each caller has keys of its own.
func spread(callers int) workload {
	return workload{
		name:  fmt.Sprintf("spread-%d", callers),
		title: fmt.Sprintf("spread keys, 1 process x %s, closed loop, empty section", some(callers, "caller", "s")),
		// without redislock-tuned, which differs only while it waits
		libs: append([]string{linger, "redislock"}, peersOf("rueidislock")...),
		measure: func(b *bench, c call) ([]run, error) {
			return b.closed(c, 1, job{Callers: callers, Keys: keysEach})
		},
	}
}

// one returns the only run of a measurement. It leaves out values that are not
// numbers, like a share of nothing.
func (b *bench) one(c call, all result, v values) []run {
	maps.DeleteFunc(v, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	return []run{{
		Workload: c.workload, Library: c.library, Round: b.round,
		Values: v, CDF: cdf(sorted(all.Waits)), Failure: all.Failure,
	}}
}
