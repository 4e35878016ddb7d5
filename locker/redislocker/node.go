package redislocker

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// node returns the address of the cluster node that has key, as far as the
// client knows it now. It sends nothing. Without a cluster the result is the
// same for all keys.
func (l *Locker) node(key string) string {
	if l.cluster == nil {
		return ""
	}
	client, err := l.cluster.MasterForKey(over, l.lockName(key))
	if err != nil {
		return ""
	}
	return client.Options().Addr
}

// primary returns the address where key lives now, as far as the client knows.
// It is for servers that may change. The result is "" if the client does not
// know.
func (l *Locker) primary(key string) string {
	if l.cluster == nil {
		return l.at.now()
	}
	return l.node(key)
}

// ask sends a request to the primary of each key. From the answers the client
// learns whether it still is the primary.
func (l *Locker) ask(ctx context.Context, keys []string) {
	if l.at != nil {
		l.at.look(ctx)
	}
	cmds := make([]command, len(keys))
	for i, k := range keys {
		cmds[i] = command{redis.NewCmd(ctx, "exists", l.lockName(k))}
	}
	l.exchange(ctx, l.client, cmds)
}

// over is a context that has ended, for calls that must not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends here
	cancel()
	return ctx
}()

// perNode calls send once for each node, with the indices of the node's claims.
// It serves all nodes at the same time.
func (l *Locker) perNode(cs []*locker.Claim, send func(node string, at []int)) {
	byNode := make(map[string][]int, 1)
	for i, c := range cs {
		n := l.node(c.Key)
		byNode[n] = append(byNode[n], i)
	}
	if len(byNode) == 1 {
		for n, at := range byNode {
			send(n, at)
		}
		return
	}
	var wg sync.WaitGroup
	for n, at := range byNode {
		wg.Go(func() { send(n, at) }) // ends with the request's time limit
	}
	wg.Wait()
}
