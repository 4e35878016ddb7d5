package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// roles returns what a worker that was killed was to each key: the holder, if the store had the key as its own for longer
// than an offer lasts; else a waiter, if it waited or was just offered the key; else a bystander. It looks for some time,
// because what the dead has sent may be still on its way.
func (n *nemesis) roles(ctx context.Context, pid int, waits map[int]bool) map[int]string {
	roles := map[int]string{}
	for key := range n.cfg.keys {
		roles[key] = "bystander"
		if waits[key] {
			roles[key] = "waiter"
		}
	}
	for end := time.Now().Add(n.cfg.offer()); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for key := range n.cfg.keys {
			switch owns, left := n.owns(ctx, key, pid); {
			case owns && left > n.cfg.offer():
				roles[key] = "holder"
			case owns && roles[key] != "holder":
				roles[key] = "waiter" // or a holder whose key ended within the offer's time anyway
			}
		}
	}
	return roles
}

// owns reports whether the store has a key as that of a process, and for how long.
func (n *nemesis) owns(ctx context.Context, key, pid int) (owns bool, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	name := keyInStore(keyName(key))
	pipe := n.rdb.Pipeline()
	value, ttl := pipe.GetRange(ctx, name, 0, 2047), pipe.PTTL(ctx, name)
	_, _ = pipe.Exec(ctx)
	return strings.Contains(value.Val(), fmt.Sprintf(`"pid":%d,`, pid)), ttl.Val()
}

// waitedBy returns the keys that a worker waits for now.
func (b *book) waitedBy(proc int) map[int]bool {
	keys := map[int]bool{}
	for caller := range b.cfg.callers {
		if e := b.ring(proc, caller).current(); e.phase.Load() == waiting {
			keys[int(e.key.Load())] = true
		}
	}
	return keys
}
