package redislocker

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// fresh is the way of renewals to a node that has left one without an answer: each goes over a connection of its own. Those
// in the pool may have died without a word, all of them, in a NAT or with a load balancer, and a renewal that takes the next
// dead one each time loses its lease though the node is well.
type fresh struct {
	client func() redis.UniversalClient // made when it is first needed; nil if it cannot be

	mu    sync.Mutex           // guards doubt
	doubt map[string]time.Time // until when the pool's connections to a node are not trusted
}

// doubted is how long a node's pool is not trusted after a renewal without an answer. Other requests find its dead
// connections meanwhile.
const doubted = 30 * time.Second

func (l *Locker) newFresh() *fresh {
	return &fresh{doubt: make(map[string]time.Time), client: sync.OnceValue(func() (rdb redis.UniversalClient) {
		switch c := l.client.(type) {
		case *redis.Client:
			o := l.settings.options(c.Options())
			o.ConnMaxIdleTime, o.MaxIdleConns = time.Nanosecond, 1
			rdb = redis.NewClient(o)
		case *redis.ClusterClient:
			o := l.settings.clusterOptions(c.Options())
			o.ConnMaxIdleTime, o.MaxIdleConns = time.Nanosecond, 1
			rdb = redis.NewClusterClient(o)
		default:
			return nil
		}
		for _, h := range l.settings.hooks {
			rdb.AddHook(h)
		}
		return rdb
	})}
}

// way returns how a renewal for node travels now.
func (l *Locker) way(node string) way {
	f := l.fresh
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().After(f.doubt[node]) {
		return l.send
	}
	return func(ctx context.Context, cmds ...command) []command {
		if client := f.client(); client != nil {
			l.exchange(ctx, client, cmds)
			return cmds
		}
		return l.send(ctx, cmds...)
	}
}

// note keeps in mind whether node has answered.
func (f *fresh) note(node string, err error) {
	if err == nil || !unanswered(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubt[node] = time.Now().Add(doubted)
}

// close closes the client if one was made; none is made after it.
func (f *fresh) close() {
	f.mu.Lock()
	used := len(f.doubt) > 0
	f.mu.Unlock()
	if used {
		if client := f.client(); client != nil {
			_ = client.Close()
		}
	}
}
