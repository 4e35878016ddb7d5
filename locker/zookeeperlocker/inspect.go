package zookeeperlocker

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const strangerMax = 64 // bytes of a stranger's value that are shown

// Inspect returns the owner of key and the claims that wait for it, in a
// request for each. Remaining is exact to the last look of this process, and
// the whole TTL if it has never looked.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	if err := l.begin(); err != nil {
		return locker.KeyState{}, err
	}
	defer l.life.Leave()
	return l.inspect(ctx, key)
}

func (l *Locker) inspect(ctx context.Context, key string) (s locker.KeyState, err error) {
	s.Key = key
	dir := l.dir(key)
	c, err := l.children(ctx, dir)
	if err != nil {
		return s, unclear(err)
	}
	queue := queueIn(c.names)
	s.Waiting = len(queue)
	owner, err := l.get(ctx, dir+ownerNode)
	if err != nil {
		return s, unclear(err)
	}
	if owner.stat != nil {
		l.showOwner(&s, owner)
	}
	var names []string
	for _, q := range queue[:min(len(queue), locker.MaxListed)] {
		names = append(names, q.Name)
	}
	for _, n := range l.getAll(ctx, dir, names, "") {
		var e entry
		if json.Unmarshal(n.value, &e) == nil {
			s.Waiters = append(s.Waiters, locker.Waiter{Owner: e.Owner, Holder: e.Record.Holder})
		}
	}
	if err := ctx.Err(); err != nil {
		return s, unclear(err)
	}
	return s, nil
}

func (l *Locker) showOwner(s *locker.KeyState, n node) {
	s.Held = true
	owner, r, ok := parse(n.value)
	if !ok {
		s.Owner = strings.ToValidUTF8(string(n.value[:min(len(n.value), strangerMax)]), "?")
		return
	}
	s.Owner, s.Holder, s.Remaining = owner, r.Holder, r.ttl()
	if seen, ok := l.sights.Seen(s.Key, n.stat.Mzxid); ok {
		s.Remaining = seen.Left(time.Now())
	}
}

// List returns the state of each key. List reads one of the 16 shards at a
// time.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.begin(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.life.Leave()
		for i := range uint32(shards) {
			c, err := l.children(ctx, l.shard(i))
			if err != nil {
				yield(locker.KeyState{}, unclear(err))
				return
			}
			for _, name := range c.names {
				key, ok := keyOf(name)
				if !ok {
					continue
				}
				s, err := l.inspect(ctx, key)
				if err == nil && !s.Held && s.Waiting == 0 {
					continue // nobody's any more
				}
				if err != nil && ctx.Err() != nil {
					s = locker.KeyState{}
				}
				if !yield(s, err) || s.Key == "" {
					return
				}
			}
		}
	}
}

var ownerID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ForceRelease ends the hold of owner on key, hands the key over, and tells the
// owner's process.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen || !ownerID.MatchString(owner) {
		return lockerkit.Invalid(store, "%q is no owner id", owner)
	}
	if err := l.begin(); err != nil {
		return err
	}
	defer l.life.Leave()
	if _, err := l.free(ctx, key, owner, nil); err != nil {
		return err
	}
	// A hint: the owner's process watches the directory.
	_, _ = call(ctx, &l.servers, func() (*zk.Stat, error) { return l.conn.Set(l.dir(key), nil, anyVersion) })
	return nil
}
