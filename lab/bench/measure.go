package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/lab/bench/internal/host"
)

// errViolation means that a library did not exclude.
var errViolation = errors.New("exclusion was violated")

// values are the measures of one measurement, by name.
type values map[string]float64

// run is one measurement of one library in one round.
type run struct {
	Workload string    `json:"workload"`
	Library  string    `json:"library"`
	Round    int       `json:"round"`          // from 1
	Rate     float64   `json:"rate,omitempty"` // of arrivals: one rung of the ladder
	Values   values    `json:"values"`
	CDF      []float64 `json:"cdf_ms,omitempty"` // quantiles of the wait at cdfShares
	// of the first call that failed for another reason than a held key
	Failure string `json:"failure,omitempty"`
}

// bench has the parts that all measurements share.
type bench struct {
	srv   *host.Server
	dir   string // for arenas
	plan  plan
	round int

	before  string   // an earlier build of this program
	cluster []string // of workloads on a cluster; nil: srv
}

// measure empties Redis, runs n processes with job j and checks that they
// excluded each other. beside runs in the parent.
func (b *bench) measure(ctx context.Context, n int, j job, beside func(context.Context)) (all result,
	each []result, err error,
) {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = j
		jobs[i].Proc = i
	}
	return b.measureJobs(ctx, jobs, beside)
}

// build returns j for the build that must do it.
func (b *bench) build(j job) job {
	if j.Library == before {
		j.Program, j.Library = b.before, ours
	}
	return j
}

func (b *bench) measureJobs(ctx context.Context, jobs []job, beside func(context.Context)) (all result,
	each []result, err error,
) {
	for i := range jobs {
		jobs[i] = b.build(jobs[i])
	}
	if err := b.srv.Client.FlushAll(ctx).Err(); err != nil { // scripts stay
		return all, nil, err
	}
	file, remove, err := host.TempFile(b.dir)
	if err != nil {
		return all, nil, err
	}
	defer remove()
	arena, unmap, err := host.Share[arena](file)
	if err != nil {
		return all, nil, err
	}
	defer func() { _ = unmap() }()
	for i := range jobs {
		jobs[i].Addr, jobs[i].Arena, jobs[i].Scaled.Addrs = b.srv.Addr, file, b.cluster
	}
	if each, err = together(ctx, jobs, beside); err != nil {
		return all, nil, err
	}
	for _, r := range each {
		all.merge(r)
		all.Commands += r.Commands
		all.Cost = all.Cost.add(r.Cost, 1)
		all.Lags = append(all.Lags, r.Lags...)
		all.Trips = append(all.Trips, r.Trips...)
	}
	return all, each, b.excluded(ctx, arena, all.Sections)
}

// excluded compares the unguarded counters with the number of sections. Each
// lost update is a section that did not run alone. Overlaps without a lost
// update are in the arena.
func (b *bench) excluded(ctx context.Context, a *arena, sections int64) error {
	sold, err := b.srv.Client.Get(ctx, stock).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	counted := sold + a.counted()
	if overlaps := a.overlaps.Load(); overlaps > 0 || counted != sections {
		return fmt.Errorf("%w: %d sections overlapped, and %d ran but %d were counted", errViolation,
			overlaps, sections, counted)
	}
	return nil
}

// waits returns the measures of the waits. It sorts the waits.
func waits(ds []time.Duration) values {
	ds = sorted(ds)
	return values{
		"p50 ms":   ms(quantile(ds, 0.5)),
		"p99 ms":   ms(quantile(ds, 0.99)),
		"p99.9 ms": ms(quantile(ds, 0.999)),
		"max ms":   ms(quantile(ds, 1)),
	}
}

// perSecond returns a rate over the duration d.
func perSecond(n int64, d time.Duration) float64 { return float64(n) / d.Seconds() }

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
