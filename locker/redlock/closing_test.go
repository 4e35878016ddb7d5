package redlock_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redlock"
)

// Close returns and leaves no goroutine. Meanwhile a quorum hangs, and tries,
// renewals and releases are under way.
func TestCloseEndsWhileNodesHang(t *testing.T) {
	t.Parallel()
	servers := redistest.StartN(t, 3)
	l := redlock.New(clientsOf(t, servers), redlock.WithRestartDelay(0))
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	var kept []*locker.Claim
	for i := range 8 {
		kept = append(kept, claim("kept"+strconv.Itoa(i)))
		mustAcquire(t, l, kept[i])
	}
	for _, s := range servers[1:] {
		s.Stop()
		t.Cleanup(s.Cont)
	}
	var crowd sync.WaitGroup
	for i := range 32 {
		crowd.Go(func() { // ends with Close
			for n := 0; ; n++ {
				c := claim(strconv.Itoa(i) + "-" + strconv.Itoa(n))
				_, err := l.Acquire(t.Context(), c, locker.Try{Wait: true})
				_, _ = l.Release(t.Context(), c, locker.End{Queued: true})
				if errors.Is(err, locker.ErrClosed) {
					return
				}
			}
		})
	}
	for i, c := range kept {
		crowd.Go(func() { // ends with Close
			for !errors.Is(renew(t, l, c), locker.ErrClosed) {
				if i%2 == 0 {
					_, _ = l.Release(t.Context(), c, locker.End{})
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond) // all of it is under way
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = l.Close(ctx)
	crowd.Wait()
	for _, s := range servers[1:] {
		s.Cont()
	}
	if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Close once the nodes are back: %v", err)
	}
}
