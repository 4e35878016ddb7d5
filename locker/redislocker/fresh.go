package redislocker

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// fresh is the way of renewals to a node that has left several in a row without
// an answer: over connections that were made since, and are shared. Those in
// the pool may have died without a word, all of them, in a NAT or with a load
// balancer, and a renewal that takes the next dead one each time loses its
// lease though the node is well.
type fresh struct {
	client func() redis.UniversalClient // made when it is first needed; nil if it cannot be

	mu     sync.Mutex // guards what follows
	silent map[string]silence
	used   bool
}

// silence is how a node has left renewals without an answer, since its last
// answer.
type silence struct {
	row   int       // how many, each sent after the one before was given up
	last  time.Time // when that was
	doubt time.Time // the pool's connections are not trusted until then; an answer does not shorten it
}

const (
	// doubtful is how many renewals in a row bring a node's pool into doubt:
	// one is no more than a pause.
	doubtful = 2
	// doubted is how long that lasts. Other requests find the pool's dead
	// connections meanwhile.
	doubted = 30 * time.Second
	// freshIdle is how long a connection may go unused before it is as doubtful
	// as the others.
	freshIdle = doubted / 3
)

func (l *Locker) newFresh() *fresh {
	return &fresh{silent: make(map[string]silence), client: sync.OnceValue(func() (rdb redis.UniversalClient) {
		switch c := l.client.(type) {
		case *redis.Client:
			o := ownOptions(c.Options())
			o.ConnMaxIdleTime = freshIdle
			rdb = l.newClient(o)
		case *redis.ClusterClient:
			o := ownClusterOptions(c.Options())
			o.ConnMaxIdleTime = freshIdle
			rdb = l.newCluster(o)
		default:
			return nil
		}
		for _, h := range l.settings.hooks {
			rdb.AddHook(h)
		}
		if l.at != nil {
			rdb.AddHook(l.at) // they too leave a primary that is none any more
		}
		return rdb
	})}
}

// way returns the client that a renewal for node takes now: pool, or the fresh
// one.
func (f *fresh) way(node string, pool redis.UniversalClient) redis.UniversalClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().Before(f.silent[node].doubt) {
		f.used = true
		if client := f.client(); client != nil {
			return client
		}
	}
	return pool
}

// note keeps in mind whether node has answered a renewal that was sent at the
// given time.
func (f *fresh) note(node string, sent time.Time, unanswered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, known := f.silent[node]
	switch {
	case unanswered && !sent.Before(s.last):
		s.row, s.last = s.row+1, time.Now()
		if s.row >= doubtful {
			s.doubt = s.last.Add(doubted)
		}
	case !unanswered && known:
		s.row = 0
	default:
		return
	}
	f.silent[node] = s
}

// close closes the client if one was made; none is made after it.
func (f *fresh) close() {
	f.mu.Lock()
	used := f.used
	f.mu.Unlock()
	if used {
		if client := f.client(); client != nil {
			_ = client.Close()
		}
	}
}
