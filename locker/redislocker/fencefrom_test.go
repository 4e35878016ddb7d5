package redislocker_test

import (
	"testing"

	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

func TestTokensAreNeverBelowTheFloor(t *testing.T) {
	l := open(t, redistest.Client(t, redistest.Start(t).Addr))
	c := fenced("k")
	first := mustAcquire(t, l, c)
	floor := first + 1_000_000_000_000 // µs: far in front of the clock
	raised, err := redisnode.FenceFrom(t.Context(), l, c, floor)
	if err != nil || raised != floor {
		t.Fatalf("FenceFrom %d: %d, %v", floor, raised, err)
	}
	mustRelease(t, l, c)
	if next := mustAcquire(t, l, fenced("k")); next < raised+locker.FenceBlock {
		t.Errorf("the token after a raise to %d is %d", raised, next)
	}
}
