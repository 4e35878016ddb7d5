package redislocker

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// node returns the address of the node of a cluster that has key, as far as the
// client knows it now: it asks nobody. It is the same for all keys elsewhere.
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

// primary returns where key lives now, as far as the client knows, on servers
// that may change; "" if it does not.
func (l *Locker) primary(key string) string {
	if l.cluster == nil {
		return l.at.now()
	}
	return l.node(key)
}

// ask asks the primary of each key something, for the client to learn whether
// it still is.
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

// over is a context that has ended, for what must not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends here
	cancel()
	return ctx
}()

// perNode calls send with the places of the claims of each node, for all nodes
// at the same time.
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
