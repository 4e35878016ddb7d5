package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// fencedGrant acquires and releases, and returns the token.
type fencedGrant func(t *testing.T, l *Locker) uint64

func regular(t *testing.T, l *Locker) uint64 {
	t.Helper()
	c := newClaim(time.Second)
	c.Fencing = true
	for {
		a, err := l.Acquire(t.Context(), c, locker.Try{})
		if err == nil && a.Acquired {
			release(t, l, c)
			return a.Token
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// unraised hands out the highest token of a quorum and does not have it stored.
// That is the fault which the raise prevents.
func unraised(t *testing.T, l *Locker) uint64 {
	t.Helper()
	for {
		c := newClaim(time.Second)
		c.Fencing = true
		b := l.ballot(c, true)
		votes := l.poll(t.Context(), b, locker.Try{})
		b.turn(holding)
		release(t, l, c)
		if len(votes.ours) >= l.quorum {
			return votes.token
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func release(t *testing.T, l *Locker, c *locker.Claim) {
	t.Helper()
	_, _ = l.Release(t.Context(), c, locker.End{}) // a node that is down does not answer
	synctest.Wait()
}

// falls takes a token from a quorum with a node whose clock is ahead. It then
// takes one from a quorum without that node. It reports whether the second
// token is not above the block of the first.
func falls(t *testing.T, nodes []*fake, grant fencedGrant) bool {
	t.Helper()
	now := time.Now()
	nodes[0].SetTime(now.Add(time.Hour))
	nodes[1].SetTime(now)
	nodes[2].SetTime(now)
	l := openOn(t, nodes)
	nodes[2].setDown(true)
	first := grant(t, l)
	nodes[2].setDown(false)
	nodes[0].setDown(true)
	return grant(t, l) < first+locker.FenceBlock
}

func TestTokensRiseFromQuorumToQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		if falls(t, nodes, regular) {
			t.Error("a token fell that another quorum has given")
		}
	})
}

// The test above can see its fault.
func TestWithoutARaiseTokensFall(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		if !falls(t, nodes, unraised) {
			t.Error("tokens rise without a raise: the raise is not tested")
		}
	})
}

// Fence raises too.
func TestLaterBlocksRiseFromQuorumToQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		fence := func(t *testing.T, l *Locker) uint64 {
			t.Helper()
			c := newClaim(time.Second)
			for {
				if acquires(t, l, c) {
					token, err := l.Fence(t.Context(), c)
					release(t, l, c)
					if err == nil {
						return token
					}
					c = newClaim(time.Second)
				}
			}
		}
		if falls(t, nodes, fence) {
			t.Error("a token fell that another quorum has given")
		}
	})
}
