// Package redisnode is what package redlock asks of each of its redislockers,
// and users cannot.
package redisnode

import (
	"context"

	"github.com/go-lockguard/guard/locker"
)

// Node is the waker of a redislocker that is one of several, which are one
// locker to others. A redislocker that is opened for a Node knows its part.
type Node interface {
	locker.Waker

	// Instance returns the locker's id, the same on all nodes. It is as long as
	// an owner id.
	Instance() string

	// Admit may refuse a connection with an error. It is called on each new
	// connection, that of the inbox included, before anything else uses it. It
	// is given the server's section of INFO, or the error instead.
	Admit(info map[string]string, err error) error

	// SetFence is called once, by Open, with the redislocker's [Fence].
	SetFence(f Fence)
}

// Fence is the Fence of a redislocker, with no token below floor. It raises the
// server's last token where the tokens of one key come from several servers.
type Fence func(ctx context.Context, c *locker.Claim, floor uint64) (uint64, error)
