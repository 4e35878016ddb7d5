package redisconn

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// fresh sends renewals over new, shared connections to a node that left several
// renewals in a row without an answer. All connections of the pool may have
// died without a word, in a NAT or behind a load balancer. A renewal that takes
// the next dead one each time loses its lease, although the node is well.
type fresh struct {
	client func() redis.UniversalClient // made on first use; nil if it cannot be made

	mu     sync.Mutex // guards the fields below
	silent map[string]silence
	used   bool
}

// silence describes the renewals that a node has left without an answer since
// its last answer.
type silence struct {
	row   int       // number of them, each sent after the one before was given up
	last  time.Time // when the last one was given up
	doubt time.Time // the pool's connections are not trusted until then; an answer does not shorten it
}

const (
	// doubtful is how many renewals in a row bring a node's pool into doubt.
	// One alone may be a mere pause.
	doubtful = 2
	// doubted is how long the doubt lasts. Other requests find the pool's dead
	// connections meanwhile.
	doubted = 30 * time.Second
	// freshIdle is how long a connection may go unused before it is as doubtful
	// as those of the pool.
	freshIdle = doubted / 3
)

func (c *Conns) newFresh(hooks []redis.Hook) *fresh {
	return &fresh{silent: make(map[string]silence), client: sync.OnceValue(func() (rdb redis.UniversalClient) {
		switch theirs := c.client.(type) {
		case *redis.Client:
			o := ownOptions(theirs.Options())
			o.ConnMaxIdleTime = freshIdle
			rdb = c.newClient(o)
		case *redis.ClusterClient:
			o := ownClusterOptions(theirs.Options())
			o.ConnMaxIdleTime = freshIdle
			rdb = c.newCluster(o)
		default:
			return nil
		}
		for _, h := range hooks {
			rdb.AddHook(h)
		}
		if c.at != nil {
			rdb.AddHook(c.at) // its connections also leave a replaced primary
		}
		return rdb
	})}
}

// way returns the client for a renewal at node now, either pool or the fresh
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

// note records whether node has answered a renewal that was sent at the given
// time.
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

// close closes the client if one was made. No client is made after it.
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
