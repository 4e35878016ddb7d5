package zookeeperlocker

import (
	"context"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

const (
	// sweepEvery is the time between two sweeps of the janitor. Another process
	// takes over if the janitor has not swept for twice as long.
	sweepEvery = 2 * time.Second
	// sweepGrace is for how long a row stays when it means nothing any more.
	sweepGrace = time.Second / 2
	// lookEvery is how soon the janitor sees that a key was renewed. A lease
	// ends late by as much for who relies on the janitor, and by two sweeps.
	lookEvery = 2 * sweepEvery
)

// janitor deletes the nodes that mean nothing any more, so that the keys of
// dead processes come free for which nobody waits. One process at a time does
// so: the one whose id stands in a node that it writes before each sweep.
// Others measure by their own clocks how long it was not written. Two janitors
// at once do no harm.
type janitor struct {
	*rows

	me      string
	version int32 // of the janitor's node at the last look
	since   time.Time
	next    int                          // the first folder of the next sweep
	seen    [shards + 1]map[string]sight // by the name of a node
}

// sight is the first sight of a write of a node, and of its record.
type sight struct {
	mzxid        int64
	since, again time.Time // again is when the node is to be read again
	record       string    // its id
	recorded     time.Time
}

// Work sweeps until ctx ends.
func (r *rows) Work(ctx context.Context) {
	j := &janitor{rows: r, me: lockerkit.NewID(), version: anyVersion}
	for lockerkit.Pause(sweepEvery, ctx.Done()) {
		limited, cancel := context.WithTimeout(ctx, sweepEvery)
		if j.onDuty(limited, time.Now()) {
			j.round(limited)
		}
		cancel()
	}
}

// onDuty reports whether this process is the janitor.
func (j *janitor) onDuty(ctx context.Context, now time.Time) bool {
	path := j.root + "/j"
	n, err := j.get(ctx, path, false)
	switch {
	case err != nil:
		return false
	case n.stat == nil:
		_ = j.make(ctx, path, nil) // fails if nobody has had a key yet
		return false
	case string(n.value) != j.me && n.stat.Version != j.version:
		j.version, j.since = n.stat.Version, now
		return false
	case string(n.value) != j.me && now.Sub(j.since) < 2*sweepEvery:
		return false
	}
	return j.do(ctx, write(path, []byte(j.me), n.stat.Version), nil) == nil
}

// round looks at all folders. If ctx ends before, the next round goes on from
// there.
func (j *janitor) round(ctx context.Context) {
	for range len(j.seen) {
		folder := j.root + "/v"
		if j.next < shards {
			folder = j.shard(uint32(j.next))
		}
		if j.sweep(ctx, &j.seen[j.next], folder); ctx.Err() != nil {
			return
		}
		j.next = (j.next + 1) % len(j.seen)
	}
}

// sweep looks at those of the nodes in a folder that may mean nothing any more.
func (j *janitor) sweep(ctx context.Context, seen *map[string]sight, folder string) {
	n, err := j.children(ctx, folder)
	if err != nil {
		return
	}
	now := time.Now()
	next := make(map[string]sight, len(n.names))
	due := slices.DeleteFunc(n.names, func(name string) bool {
		s, ok := (*seen)[name]
		next[name] = s
		return ok && now.Before(s.again)
	})
	sights := make([]sight, len(due))
	_ = lockerkit.Each(len(due), flights, func(i int) error {
		sights[i] = j.look(ctx, folder+"/"+due[i], next[due[i]])
		return nil
	})
	for i, name := range due {
		next[name] = sights[i]
	}
	*seen = next
}

// look reads a node of which s was the last sight. What was not written since
// and means nothing any more is deleted. A row that stays gets a head which
// says that nobody owns its key, or that its record is over.
func (j *janitor) look(ctx context.Context, path string, s sight) sight {
	n, err := j.get(ctx, path, false)
	if err != nil || n.stat == nil {
		return s
	}
	now := time.Now()
	h, value, ok := parse(n.value)
	if s.mzxid != n.stat.Mzxid {
		s.mzxid, s.since = n.stat.Mzxid, now
	}
	if s.record != h.record.id {
		s.record, s.recorded = h.record.id, now
	}
	if s.again = now.Add(lookEvery); !ok {
		return s // nobody's, for ever
	}
	next := s.again // when something may be over
	if h.held == 0 {
		next = s.since.Add(keepMax)
	}
	over := func(since time.Time, lasts time.Duration) bool {
		at := since.Add(lasts + sweepGrace)
		if at.Before(next) {
			next = at
		}
		return !now.Before(at)
	}
	gone, left := over(s.since, h.keep), h
	if h.held > 0 && h.keep > h.held+sweepEvery && over(s.since, h.held) {
		left.held = 0
	}
	if h.record.left() && over(s.recorded, h.record.lasts) {
		left.record.lasts = 0
	}
	marker := tag{state: h.state, gen: h.gen}.marker(path)
	ops := []any{remove(path, n.stat.Version)}
	switch {
	case gone && n.stat.NumChildren > 0:
		ops = []any{remove(marker, anyVersion), ops[0]}
	case !gone && left != h:
		ops = []any{exists(marker), write(path, left.pack(value), n.stat.Version)}
	case !gone:
		s.again = next
		return s
	}
	_, _ = j.multi(ctx, ops) // refused if somebody waits, who will see to it
	return s
}
