package redisconn

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Node returns the address of the cluster node that has name, as far as the
// client knows it now. It sends nothing. Without a cluster the result is the
// same for all names.
func (c *Conns) Node(name string) string {
	if c.cluster == nil {
		return ""
	}
	client, err := c.cluster.MasterForKey(ended, name)
	if err != nil {
		return ""
	}
	return client.Options().Addr
}

// ended is a context that has ended, for calls that must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends here
	cancel()
	return ctx
}()

// Sentinel reports whether the client is our own for Sentinel.
func (c *Conns) Sentinel() bool { return c.tracker != nil }

// Elected returns the address of the primary under Sentinel, as far as it is
// known, or "". It asks nobody.
func (c *Conns) Elected() string {
	if at := c.tracker.at.Load(); at != nil {
		return at.addr
	}
	return "" // before the first connection
}

// Ask sends a request to the primary of each name. From the answers the client
// learns whether it still is the primary.
func (c *Conns) Ask(ctx context.Context, names []string) {
	if c.tracker != nil {
		c.tracker.look(ctx)
	}
	cmds := make([]Command, len(names))
	for i, n := range names {
		cmds[i] = NewCommand(ctx, "exists", n)
	}
	c.exchange(ctx, cmds)
}

// ReadInfo reads an answer to INFO.
func ReadInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}

// nodeClient returns the client of the node that has name. It returns nil for a
// client of an unknown type.
func (c *Conns) nodeClient(ctx context.Context, name string) (*redis.Client, error) {
	if c.cluster != nil {
		return c.cluster.MasterForKey(ctx, name)
	}
	client, _ := c.client.(*redis.Client)
	return client, nil
}

// Primaries returns a client for each server that has keys, in the order of
// their addresses.
func (c *Conns) Primaries(ctx context.Context) ([]redis.Cmdable, error) {
	if c.cluster == nil {
		return []redis.Cmdable{c.client}, nil
	}
	var mu sync.Mutex // guards nodes
	nodes := map[string]redis.Cmdable{}
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes[node.Options().Addr] = node
		return nil
	})
	var all []redis.Cmdable
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		all = append(all, nodes[addr])
	}
	return all, err
}
