package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker/redlock"
)

// A balancer forgets the connections to all servers of a process that has asked
// for nothing for a while. A call with one attempt is not refused because of
// that.
func TestOneAttemptOutlivesConnectionsThatWereForgotten(t *testing.T) {
	t.Parallel() // it mostly waits
	proxies, nodes := behindProxies(t, []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)})
	const limit = 500 * time.Millisecond // as much as a call has, because a busy machine opens connections slowly
	l := redlock.New(nodes, redlock.WithRestartDelay(0), redlock.WithNodeLimit(limit))
	g := testguard.New(t, l, guard.WithMaxWait(0))
	testguard.OutlivesForgottenConnections(t, func() {
		for _, p := range proxies {
			p.SilenceAll()
		}
	}, func(key string) error {
		ran, err := g.TryDo(t.Context(), key, func(context.Context) error { return nil })
		if !ran && err == nil {
			err = guard.ErrNotAcquired
		}
		return err
	})
}
