package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/locker"
)

// row is one line of a table.
type row struct {
	name  string
	procs int
	job   job
}

const (
	fourProcs = 4
	usual     = 2 * time.Millisecond // of a section
)

// crowds measures readers and permits beside exclusive calls, in rounds.
func (b *bench) crowds() error {
	return b.table("calls on one key, sections of 2 ms, 4 processes x 25 callers", []row{
		{"exclusive", fourProcs, job{Callers: 25, Section: usual}},
		{"95 % readers", fourProcs, job{Callers: 25, Section: usual, Readers: 95}},
		{"50 % readers", fourProcs, job{Callers: 25, Section: usual, Readers: 50}},
		{"permits 4", fourProcs, job{Callers: 25, Section: usual, Permits: 4}},
		{"permits 16", fourProcs, job{Callers: 25, Section: usual, Permits: 16}},
		{"readers only, 1 process x 1,000", 1, job{Callers: 1000, Section: usual, Readers: 100}},
	})
}

// carts measures random triples of keys by DoAll beside one call for each key.
func (b *bench) carts() error {
	for _, keys := range []int{64, 9} {
		apart := job{Callers: 4, Section: usual, Cart: 3, Keys: keys, Apart: true}
		together := apart
		together.Apart = false
		err := b.table(fmt.Sprintf("3 random ones of %d keys, sections of 2 ms, 4 processes x 4 callers", keys), []row{
			{"one after the other", fourProcs, apart},
			{"DoAll", fourProcs, together},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// table measures rows in turn, in each round again. Ratios are to the first row
// of the same round.
func (b *bench) table(title string, rows []row) error {
	server, err := b.lab.Start()
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = rdb.Close() }()
	fmt.Fprintf(b.out, "\n%s\n\n| | round | sections/s | x the first | p99 of waits, ms | x the first | "+
		"scripts a call | Jain | refused |\n|---|---|---|---|---|---|---|---|---|\n", title)
	for round := range b.rounds {
		var first figures
		for i, r := range rows {
			r.job.Addr, r.job.For = server.Addr, b.length
			f, err := b.measure(rdb, r)
			if err != nil {
				return err
			}
			if i == 0 {
				first = f
			}
			fmt.Fprintf(b.out, "| %s | %d | %.0f | %.2f | %.1f | %.2f | %.3f | %.3f | %d |\n", r.name, round+1, f.rate,
				f.rate/first.rate, f.p99, f.p99/first.p99, f.scripts, f.jain, f.refused)
		}
	}
	return nil
}

// figures are those of one row in one round.
type figures struct {
	rate, p99, scripts, jain float64
	refused                  int
}

func (b *bench) measure(rdb *redis.Client, r row) (f figures, err error) {
	if err := rdb.ConfigResetStat(b.ctx).Err(); err != nil {
		return f, err
	}
	all, err := b.processes(r.procs, r.job)
	if err != nil {
		return f, err
	}
	var waits []time.Duration
	var turns [][2]int64
	sections, squares := 0.0, 0.0
	for _, one := range all {
		n := float64(one.Sections)
		sections, squares = sections+n, squares+n*n
		waits, turns = append(waits, one.Waits...), append(turns, one.Turns...)
		f.refused += one.Refused
	}
	if n := atOnce(turns); n > r.job.Permits {
		return f, fmt.Errorf("%s: %d at once", r.name, n)
	}
	f.rate = sections / r.job.For.Seconds()
	f.p99 = quantile(waits, 0.99)
	f.jain = sections * sections / (float64(len(all)) * squares)
	f.scripts = float64(scripts(b.ctx, rdb)) / sections
	return f, nil
}

// atOnce returns how many turns there were at one instant at most.
func atOnce(turns [][2]int64) (most int) {
	slices.SortFunc(turns, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var floor judge.Floor[turn]
	for _, t := range turns {
		floor.Leave(func(o turn) bool { return o.to <= t[0] })
		n, _ := floor.Enter(turn{t[0], t[1]})
		most = max(most, n)
	}
	return most
}

// turn is when a section began and ended.
type turn struct{ from, to int64 }

// AtMost implements [judge.Guest]. The row has the limit.
func (turn) AtMost() int { return locker.NoLimit }

// quantile is in ms.
func quantile(waits []time.Duration, q float64) float64 {
	if len(waits) == 0 {
		return 0
	}
	slices.Sort(waits)
	return float64(waits[int(float64(len(waits)-1)*q)].Microseconds()) / 1000
}

var scriptCalls = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// scripts returns how many scripts the server has run since its counters were
// reset.
func scripts(ctx context.Context, rdb *redis.Client) (n int64) {
	for _, m := range scriptCalls.FindAllStringSubmatch(rdb.Info(ctx, "commandstats").Val(), -1) {
		calls, _ := strconv.ParseInt(m[1], 10, 64)
		n += calls
	}
	return n
}
