package main

import (
	"fmt"
	"slices"
	"time"
)

// plan defines the durations and sizes of the measurements.
type plan struct {
	Closed   time.Duration // of each closed loop
	Open     time.Duration // of each rung of the ladder, and of the overload
	TakeOver time.Duration // of the take-over workloads
	Crowd    time.Duration // for which the holder keeps the crowd waiting
	Leases   time.Duration // for which the leases are held

	CrowdSize  int
	LeaseCount int
	TopRung    int // the ladder ends no later than there
	Overload   float64
}

var (
	fullPlan = plan{
		Closed: 3 * time.Second, Open: 4 * time.Second, TakeOver: 5 * time.Second, Crowd: 10 * time.Second,
		Leases: 40 * time.Second, CrowdSize: 10_000, LeaseCount: 10_000, TopRung: 16, Overload: 5,
	}
	quickPlan = plan{ // to check that everything works; its numbers mean little
		Closed: 300 * time.Millisecond, Open: 500 * time.Millisecond, TakeOver: 500 * time.Millisecond,
		Crowd:  2 * time.Second,
		Leases: 4 * time.Second, CrowdSize: 1000, LeaseCount: 1000, TopRung: 3, Overload: 5,
	}
)

// workload is one row, or group of rows, of the report.
type workload struct {
	name    string
	title   string
	libs    []string // besides guard
	own     bool     // it measures guard alone, and no bar compares
	once    bool     // peers run in the first round only, because no bar compares with them
	measure func(b *bench, c call) ([]run, error)
}

var workloads = append([]workload{
	spread(1), spread(4), spread(8), spread(16), spread(64), spread(512),
	mixed("mixed", "any of them each time", atRandom),
	mixed("rebalance", fmt.Sprintf("half of them each, and halves change hands each %v: waits are those of the first "+
		"calls after that", swapEvery), inHalves),
	hot("hot-1x100", 1, 100),
	hot("hot-4x25", 4, 25),
	hot("hot-8x1", 8, 1),
	{
		name: "open-4x", title: "hot key, requests arriving at a fixed rate at 4 processes, each waiting at most 3 s",
		libs: withSerial(peersOf()), measure: climb,
	},
	{
		name: "overload", title: "hot key, 4 processes, requests arriving at 5 x the closed loop's rate, MaxWait 3 s",
		libs: peersOf(), once: true, measure: overload,
	},
	{
		name: "takeover", title: "take-over of a key by another process that waits for it",
		libs: append([]string{linger}, peersOf()...), measure: takeOver,
	},
	{
		name: "waiters", title: "a crowd waits in one process for one key while another process holds it",
		libs: peersOf(), once: true, measure: crowd,
	},
	{
		name: "leases", title: "leases held and renewed by one process: TTL 10 s, MaxHold 5 min",
		libs: peersOf(), once: true, measure: manyLeases,
	},
	{
		name: "cut", title: "take-over while every subscription is cut each 100 ms",
		measure: cut,
	},
}, slices.Concat(scaleWorkloads(), modesWorkloads(), manyWorkloads(), []workload{outage})...)

func withSerial(names []string) []string { return append([]string{serial}, names...) }
