package redislocker

import (
	"context"
	"sync"

	"github.com/go-lockguard/guard/locker"
)

// node returns the address of the node of a cluster that has key, as far as the client knows it now: it asks nobody. It is
// the same for all keys elsewhere.
func (l *Locker) node(k keys) string {
	if l.cluster == nil {
		return ""
	}
	client, err := l.cluster.MasterForKey(over, k.lock)
	if err != nil {
		return ""
	}
	return client.Options().Addr
}

// over is a context that has ended, for what must not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends here
	cancel()
	return ctx
}()

// perNode calls send with the places of the claims of each node, for all nodes at the same time.
func (l *Locker) perNode(cs []*locker.Claim, send func(at []int)) {
	byNode := make(map[string][]int, 1)
	for i, c := range cs {
		n := l.node(l.keys(c.Key))
		byNode[n] = append(byNode[n], i)
	}
	if len(byNode) == 1 {
		for _, at := range byNode {
			send(at)
		}
		return
	}
	var wg sync.WaitGroup
	for _, at := range byNode {
		wg.Go(func() { send(at) }) // ends with the request's time limit
	}
	wg.Wait()
}
