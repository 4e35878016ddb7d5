package redislocker

import (
	"context"

	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/locker"
)

// These functions are for package redlock, whose lockers keep a lease on
// several servers.
func init() {
	redisnode.Option = func(n redisnode.Node) any {
		return optionFunc(func(s *settings) { s.instance, s.conn.Admit = n.Instance, n.Admit })
	}
	redisnode.FenceFrom = func(
		ctx context.Context, l locker.Locker, c *locker.Claim, floor uint64,
	) (uint64, error) {
		return l.(*Locker).fenceFrom(ctx, c, floor)
	}
}
