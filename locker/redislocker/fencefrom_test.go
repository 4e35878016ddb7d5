package redislocker_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// node is the waker of a locker that is one of several.
type node struct {
	waker
	fence redisnode.Fence
}

func (*node) Instance() string                           { return lockerkit.NewID() }
func (*node) Admit(_ map[string]string, err error) error { return err }
func (n *node) SetFence(f redisnode.Fence)               { n.fence = f }

func TestTokensAreNeverBelowTheFloor(t *testing.T) {
	n := &node{}
	l := openFor(t, n, redistest.Client(t, redistest.Start(t).Addr))
	c := fenced("k")
	first := mustAcquire(t, l, c)
	floor := first + 1_000_000_000_000 // µs: far in front of the clock
	raised, err := n.fence(t.Context(), c, floor)
	if err != nil || raised != floor {
		t.Fatalf("Fence from %d: %d, %v", floor, raised, err)
	}
	mustRelease(t, l, c)
	if next := mustAcquire(t, l, fenced("k")); next < raised+locker.FenceBlock {
		t.Errorf("the token after a raise to %d is %d", raised, next)
	}
}
