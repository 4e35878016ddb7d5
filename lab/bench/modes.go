package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

// The workloads of this file measure guard's modes beside its exclusive leases:
// readers, permits, and several keys at once.

// moded is the part of a job that these workloads add.
type moded struct {
	Readers int           // percent of the calls that share the key
	Permits int           // 0: none
	Cart    int           // how many keys at random a call takes; 0: the hot key
	Of      int           // keys of which carts choose
	Apart   bool          // a cart's keys are taken one after the other
	Section time.Duration // how long a section lasts
}

// alone is what an exclusive section adds to the count of those inside.
const alone = 1 << 32

// modesWorkloads are crowds on one key, carts, and carts of free keys far away.
func modesWorkloads() (all []workload) {
	add := func(name, title string, procs, callers int, m moded) {
		m.Section = 2 * time.Millisecond
		all = append(all, workload{
			name: name, title: title + ", sections of 2 ms", own: true,
			measure: func(b *bench, c call) ([]run, error) {
				return b.loop(c, procs, job{Kind: "modes", Callers: callers, Moded: m})
			},
		})
	}
	add("modes-exclusive", "hot key, 4 processes x 25 callers", 4, 25, moded{})
	add("modes-readers-95", "the same, 95 % readers", 4, 25, moded{Readers: 95})
	add("modes-readers-50", "the same, 50 % readers", 4, 25, moded{Readers: 50})
	add("modes-permits-4", "the same, 4 permits", 4, 25, moded{Permits: 4})
	add("modes-permits-16", "the same, 16 permits", 4, 25, moded{Permits: 16})
	add("modes-readers-100", "hot key, 1 process x 1,000 readers", 1, 1000, moded{Readers: 100})
	for _, of := range []int{64, 9} {
		title := fmt.Sprintf("3 random ones of %d keys, 4 processes x 4 callers", of)
		add(fmt.Sprintf("carts-%d-apart", of), title+", one after the other", 4, 4, moded{Cart: 3, Of: of, Apart: true})
		add(fmt.Sprintf("carts-%d-doall", of), title+" by DoAll", 4, 4, moded{Cart: 3, Of: of})
	}
	for _, n := range []int{1, 3, 16, 64} {
		trip := workload{
			name: fmt.Sprintf("trips-%d", n), own: true,
			title: some(n, "free key", "s") + " by DoAll, answers 40 ms later",
			measure: func(b *bench, c call) ([]run, error) {
				all, _, err := b.measure(c.ctx, 1, job{
					Kind: "trips", Library: ours, Callers: 1, Moded: moded{Cart: n}, Scaled: scaled{Late: trip},
				}, nil)
				v := waits(all.Waits)
				v["round trips"] = v["p50 ms"] / ms(trip)
				return b.one(c, all, v), err
			},
		}
		cluster := onCluster(trip)
		cluster.name, cluster.title = cluster.name+"-cluster", cluster.title+", a Cluster of three"
		all = append(all, trip, cluster)
	}
	return all
}

// trip is how much later the answers of far servers arrive.
const trip = 40 * time.Millisecond

// loop measures a closed loop of several processes.
func (b *bench) loop(c call, procs int, j job) ([]run, error) {
	j.Library, j.Duration, j.MaxWait = ours, b.plan.Closed, patient
	all, each, err := b.measure(c.ctx, procs, j, nil)
	v := waits(all.Waits)
	v["rate"], v["cmds/call"] = perSecond(all.InTime, b.plan.Closed), share(all.Commands, all.Sections)
	v["jain"], v["refused"] = jainOf(each), float64(len(all.Refusals))
	return b.one(c, all, v), err
}

// modedLoop lets each caller come back as soon as its call is done.
func (w *worker) modedLoop() measurement {
	g, err := w.openScaled()
	return func(ctx context.Context, start time.Time) (all result, _ error) {
		if err != nil {
			return all, err
		}
		defer closeAll([]*guard.Guard{g})
		results := make([]result, w.Callers)
		time.Sleep(time.Until(start))
		before, end := w.wire.commands.Load(), start.Add(w.Duration)
		var callers sync.WaitGroup
		for i := range results {
			callers.Go(func() {
				for time.Now().Before(end) && ctx.Err() == nil {
					w.modedCall(ctx, g, end, &results[i])
				}
			})
		}
		callers.Wait()
		for _, r := range results {
			all.merge(r)
		}
		all.Commands = w.wire.commands.Load() - before
		return all, nil
	}
}

// modedCall makes one call. The waits of readers do not count.
func (w *worker) modedCall(ctx context.Context, g *guard.Guard, end time.Time, r *result) {
	m, asked := w.Moded, time.Now()
	reads := rand.IntN(100) < m.Readers
	most, mode := int64(max(m.Permits, 1)), g.With(guard.WithPermits(max(m.Permits, 1)))
	if reads {
		most, mode = alone, g.With(guard.WithShared())
	}
	keys, slots := []string{hotKey}, []int{0}
	if m.Cart > 0 {
		keys, slots = nil, rand.Perm(m.Of)[:m.Cart]
		for _, s := range slots {
			keys = append(keys, fmt.Sprint("bench:stock:", s))
		}
	}
	section := func(context.Context) error {
		if !reads {
			r.Waits = append(r.Waits, time.Since(asked))
		}
		for _, s := range slots {
			leave := w.arena.join(s, most)
			defer leave()
		}
		w.arena.slots[slots[0]].count.Add(1)
		time.Sleep(m.Section)
		if r.Sections++; time.Now().Before(end) {
			r.InTime++
		}
		return nil
	}
	if err := take(ctx, mode, keys, m.Apart, section); err != nil {
		r.Refusals = append(r.Refusals, time.Since(asked))
	}
}

// take runs section under all keys, by one call or by one for each key.
func take(ctx context.Context, g *guard.Guard, keys []string, apart bool, section func(context.Context) error) error {
	if len(keys) > 1 && !apart {
		return g.DoAll(ctx, keys, section)
	}
	slices.Sort(keys)
	for _, key := range slices.Backward(keys) {
		inner := section
		section = func(ctx context.Context) error { return g.Do(ctx, key, inner) }
	}
	return section(ctx)
}

// join enters a key that so many may have. A section that must be alone counts
// for more than any number of others. leave ends it.
func (a *arena) join(key int, most int64) (leave func()) {
	inside := &a.slots[key].inside
	weight := int64(1)
	if most == 1 {
		weight, most = alone, alone
	}
	if inside.Add(weight) > most {
		a.overlaps.Add(1)
	}
	return func() { inside.Add(-weight) }
}

// cartTrips measures a DoAll of free keys.
func (w *worker) cartTrips() measurement {
	g, err := w.openScaled()
	return func(ctx context.Context, _ time.Time) (r result, _ error) {
		if err != nil {
			return r, err
		}
		defer closeAll([]*guard.Guard{g})
		const warm, seen = 3, 7
		for i := range warm + seen {
			var keys []string
			for k := range w.Moded.Cart {
				keys = append(keys, guard.Key("trip", i, k))
			}
			start := time.Now()
			if err := g.DoAll(ctx, keys, w.nothing); err != nil {
				return r, err
			}
			if i >= warm {
				r.Waits = append(r.Waits, time.Since(start))
			}
		}
		return r, nil
	}
}
