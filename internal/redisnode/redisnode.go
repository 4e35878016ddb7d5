// Package redisnode is what package redlock asks of each of its redislockers,
// and users cannot. Package redislocker sets the functions when it is loaded,
// so they stay out of its public surface.
package redisnode

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// Node makes a redislocker one node of several that are one locker to others.
type Node struct {
	// Instance is the locker's id, the same on all nodes. It is as long as an
	// owner id.
	Instance string

	// Admit may refuse a connection with an error. It is called on each new
	// connection, that of the inbox included, before anything else uses it. It
	// is given the server's section of INFO, or the error instead.
	Admit func(info string, err error) error
}

// Option returns the redislocker.Option that makes a locker the node n.
var Option func(n Node) any

// FenceFrom is the Fence of l, a *redislocker.Locker, with no token below
// floor. It raises the server's last token where the tokens of one key come
// from several servers.
var FenceFrom func(ctx context.Context, l locker.Locker, c *locker.Claim, floor uint64) (uint64, error)
