package zookeeperlocker

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
)

// sweepEvery is the time between two sweeps of the janitor. Another process
// takes over if the janitor has not swept for twice as long.
const sweepEvery = 2 * time.Second

// bareFor is how long a directory has no owner before the janitor looks for
// what a hand has left in it.
const bareFor = 5 * sweepEvery

// janitor frees the keys of dead processes for which nobody waits. One process
// at a time does so: the one whose id stands in a node that it writes before
// each sweep. Others measure by their own clocks how long it was not written.
// Two janitors at once do no harm.
type janitor struct {
	l       *Locker
	version int32 // of the node at the last look
	since   time.Time
	shard   uint32                             // where the next sweep begins
	seen    [shards]map[string]lockerkit.Sight // by the directory of a key
}

// sweep is the janitor's goroutine, which ends with the locker.
func (j *janitor) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		ctx, cancel := context.WithTimeout(j.l.life.Context(), sweepEvery)
		if j.onDuty(ctx, time.Now()) {
			j.round(ctx)
		}
		cancel()
		select {
		case <-j.l.life.Context().Done():
			return
		case <-t.C:
		}
	}
}

// onDuty reports whether this process is the janitor.
func (j *janitor) onDuty(ctx context.Context, now time.Time) bool {
	path := j.l.janitorNode()
	n, err := j.l.get(ctx, path)
	if err != nil || n.stat == nil {
		return false // nobody has had a key yet
	}
	mine := string(n.value) == j.l.instance
	if !mine && n.stat.Version != j.version {
		j.version, j.since = n.stat.Version, now
		return false
	}
	if !mine && now.Sub(j.since) < 2*sweepEvery {
		return false
	}
	r, err := j.l.multi(ctx, write(path, []byte(j.l.instance), n.stat.Version))
	return err == nil && r.refused == nil
}

// round looks at all keys, and frees those whose leases have ended. If ctx ends
// before, the next round goes on from there.
func (j *janitor) round(ctx context.Context) {
	for range shards {
		if j.roundOf(ctx, j.shard) != nil {
			return
		}
		j.shard = (j.shard + 1) % shards
	}
}

func (j *janitor) roundOf(ctx context.Context, shard uint32) error {
	above := j.l.shard(shard)
	c, err := j.l.children(ctx, above)
	if err != nil {
		return err
	}
	seen := map[string]lockerkit.Sight{}
	for i, n := range j.l.getAll(ctx, above, c.names, ownerNode) {
		now, name := time.Now(), c.names[i]
		s := lockerkit.Sight{Ends: now.Add(bareFor)}
		if n.stat != nil {
			_, r, ok := parse(n.value)
			s = r.sight(n.stat, ok, now)
		}
		if old, known := j.seen[shard][name]; known && old.Revision == s.Revision {
			s = old
		}
		if s.Over(now) {
			j.end(ctx, name, n)
		}
		if n.stat != nil || !s.Over(now) {
			seen[name] = s
		}
	}
	j.seen[shard] = seen
	return ctx.Err()
}

// end frees a key whose lease has ended, if it was not renewed meanwhile. What
// fails is tried again by a later round.
func (j *janitor) end(ctx context.Context, name string, n node) {
	key, ok := keyOf(name)
	if !ok || n.stat != nil && !j.endLease(ctx, j.l.dir(key), n.stat.Version) {
		return
	}
	_ = j.l.leave(ctx, key, "", "") // to those who wait
}

// endLease deletes an owner node of the given version, and all badges.
func (j *janitor) endLease(ctx context.Context, dir string, version int32) bool {
	c, err := j.l.children(ctx, dir)
	if err != nil {
		return false
	}
	ops := []any{removeVersion(dir+ownerNode, version)}
	for _, owner := range badgesIn(c.names) {
		ops = append(ops, remove(dir+badgePrefix+owner))
	}
	r, err := j.l.multi(ctx, ops...)
	return err == nil && r.refused == nil
}
