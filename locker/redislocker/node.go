package redislocker

import (
	"context"
	"sync"

	"github.com/go-lockguard/guard/locker"
)

// connected waits until there is a connection for key.
func (l *Locker) connected(ctx context.Context, key string) error {
	if l.conn.Near() {
		return nil
	}
	return l.tryError(l.conn.Ready(ctx, l.lockName(key)))
}

// node returns the address of the cluster node that has key, as far as the
// client knows it now. It sends nothing. Without a cluster the result is the
// same for all keys.
func (l *Locker) node(key string) string {
	if !l.conn.Cluster() {
		return ""
	}
	return l.conn.Node(l.lockName(key))
}

// Node implements [locker.Noder]. The address is that of the cluster node.
func (l *Locker) Node(key string) string { return l.node(key) }

// primary returns the address where key lives now, as far as the client knows.
// It is for servers that may change. The result is "" if the client does not
// know.
func (l *Locker) primary(key string) string {
	if l.conn.Sentinel() {
		return l.conn.Elected()
	}
	return l.node(key)
}

// ask sends a request to the primary of each key. From the answers the client
// learns whether it still is the primary.
func (l *Locker) ask(ctx context.Context, keys []string) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = l.lockName(k)
	}
	l.conn.Ask(ctx, names)
}

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
