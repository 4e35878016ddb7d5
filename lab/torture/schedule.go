package main

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// strike is one fault. Everything that is random about it is drawn before the
// run.
type strike struct {
	At     time.Duration // since the start of the run
	Length time.Duration
	Kind   string
	Proc   int           // the number of the worker
	Aim    string        // or another worker instead, if there is one: see aims
	Server int           // or the number of the server
	By     time.Duration // how much slower
}

func (s strike) String() string {
	whom := fmt.Sprint("server ", s.Server)
	if kinds[s.Kind].lane == workerLane {
		whom = fmt.Sprint("worker ", s.Proc)
		if s.Aim != anybody {
			whom += ", or a " + s.Aim
		}
	}
	return fmt.Sprintf("%8v %8v  %-11s %s", s.At.Round(time.Millisecond),
		s.Length.Round(time.Millisecond), s.Kind, whom)
}

// calmBegin is the time without faults at the start of a run.
const calmBegin = time.Second

// newSchedule draws the faults of a run. There is a lane for workers and a lane
// for servers, so there are at most two faults at once.
func newSchedule(cfg config) (all []strike) {
	for lane := range lanes {
		rnd := rand.New(rand.NewPCG(cfg.seed, uint64(lane)))
		aim := rand.New(rand.NewPCG(cfg.seed, uint64(lanes+lane))) // apart, so that old seeds draw the same faults
		var bag []string
		for _, k := range slices.Sorted(slices.Values(cfg.faults)) {
			if kinds[k].lane == lane {
				bag = slices.Concat(bag, slices.Repeat([]string{k}, kinds[k].weight))
			}
		}
		if len(bag) == 0 {
			continue
		}
		end := cfg.length - cfg.calmEnd()
		for at := calmBegin; at < end; {
			s := strike{
				At: at, Kind: bag[rnd.IntN(len(bag))], Proc: rnd.IntN(cfg.procs), Server: rnd.IntN(1 << 20),
				By: 10*time.Millisecond + upTo(rnd, 250*time.Millisecond),
			}
			s.Aim = anybody
			if slices.Contains(aimed, s.Kind) {
				s.Aim = aims[aim.IntN(len(aims))]
			}
			s.Length = kinds[s.Kind].length(rnd, cfg.ttl(s.Proc))
			if s.At+s.Length < end {
				all = append(all, s)
			}
			at += s.Length + 200*time.Millisecond + upTo(rnd, 1500*time.Millisecond)
		}
	}
	slices.SortStableFunc(all, func(a, b strike) int { return cmp.Compare(a.At, b.At) })
	return all
}

// The durations of faults.

func instant(*rand.Rand, time.Duration) time.Duration { return 0 }

// ofTTL draws a duration from a fifth of the TTL to three times the TTL.
func ofTTL(rnd *rand.Rand, ttl time.Duration) time.Duration { return ttl/5 + upTo(rnd, 14*ttl/5) }

func upToSecond(rnd *rand.Rand, _ time.Duration) time.Duration {
	return 50*time.Millisecond + upTo(rnd, time.Second)
}

// upToHalf draws a duration so short that the server is not called dead.
func upToHalf(rnd *rand.Rand, _ time.Duration) time.Duration {
	return 50*time.Millisecond + upTo(rnd, 500*time.Millisecond)
}

func kindNames() []string { return slices.Sorted(maps.Keys(kinds)) }

func upTo(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}
