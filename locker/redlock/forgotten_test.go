package redlock_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
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
	try := func(key string) (bool, error) {
		return g.TryDo(t.Context(), key, func(context.Context) error { return nil })
	}
	for round := range 2 {
		var wg sync.WaitGroup
		for i := range 8 { // connections
			wg.Go(func() { _, _ = try(strconv.Itoa(i)) })
		}
		wg.Wait()
		time.Sleep(1200 * time.Millisecond) // longer than a connection is known to be well
		for _, p := range proxies {
			p.SilenceAll()
		}
		// A call for each connection would be refused if none told of the
		// others. One may be on a busy machine, which opens the new connections
		// too late. What that has left is on a key of its own.
		for refused := 0; ; refused++ {
			ran, err := try(fmt.Sprint("k", round, refused))
			if ran && err == nil {
				break
			}
			if refused == 3 {
				t.Fatalf("ran %v, %v, as 3 calls before it", ran, err)
			}
		}
	}
}
