package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// pick is what a caller of a closed loop does next.
type pick struct {
	key   string
	slot  int  // in the arena
	noted bool // the wait counts
}

// picks returns what caller i does, one after the other. By default it takes
// its own keys in turn, or the hot key if it has none.
func (w *worker) picks(i int, start time.Time) func() pick {
	switch w.Shared {
	case atRandom:
		return func() pick { return shared(rand.N(sharedKeys)) }
	case inHalves:
		return w.halves(i, start)
	}
	if w.Keys == 0 {
		return func() pick { return pick{hotKey, 0, true} }
	}
	own, n := make([]pick, w.Keys), -1
	for k := range own {
		slot := (w.Proc*w.Callers+i)*w.Keys + k
		own[k] = pick{fmt.Sprintf("bench:%d", slot), slot, true}
	}
	return func() pick {
		n++
		return own[n%len(own)]
	}
}

// sharing is how two processes share keys.
type sharing string

const (
	atRandom sharing = "random" // each call takes any key
	inHalves sharing = "halves" // each process has one half of the keys, and halves change hands each swapEvery
)

const (
	sharedKeys = 128
	swapEvery  = 500 * time.Millisecond
)

func shared(k int) pick { return pick{fmt.Sprintf("bench:shared:%d", k), k, true} }

// halves returns what caller i does on its part of the half that the process
// has at the time. The first wait for a key after a change is noted.
func (w *worker) halves(i int, start time.Time) func() pick {
	n, last := -1, [sharedKeys]int{}
	return func() pick {
		n++
		epoch := int(time.Since(start) / swapEvery)
		k := 2*(i+n*w.Callers) + (w.Proc+epoch)%2
		t := shared(k % sharedKeys)
		t.noted, last[t.slot] = last[t.slot] != epoch, epoch
		return t
	}
}

// mixed is the workload in which two processes share keys in no order.
func mixed(name, title string, s sharing) workload {
	return workload{
		name:  name,
		title: fmt.Sprintf("2 processes x 8 callers, closed loop, empty section, %d keys, %s", sharedKeys, title),
		libs:  []string{linger},
		measure: func(b *bench, c call) ([]run, error) {
			return b.closed(c, 2, job{Callers: 8, Shared: s})
		},
	}
}

// closed measures a closed loop of empty sections.
func (b *bench) closed(c call, procs int, j job) ([]run, error) {
	j.Kind, j.Library, j.Duration, j.MaxWait = "closed", c.library, b.plan.Closed, patient
	all, _, err := b.measure(c.ctx, procs, j, nil)
	v := waits(all.Waits)
	if calls := sorted(all.Calls); len(calls) > 0 {
		v["call p50 ms"], v["call p99 ms"] = ms(quantile(calls, 0.5)), ms(quantile(calls, 0.99))
	}
	v["rate"] = perSecond(all.InTime, b.plan.Closed)
	v["cmds/call"] = share(all.Commands, all.Sections)
	all.Cost.note(v, all.Sections)
	return b.one(c, all, v), err
}
