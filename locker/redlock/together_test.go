package redlock

import (
	"errors"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func renewed(t *testing.T, l *Locker, c *locker.Claim) (err error) {
	t.Helper()
	l.Renew(t.Context(), []*locker.Claim{c}, func(_ int, e error) { err = e })
	return err
}

// A lease that has lost its quorum stays lost, even if a node is taken
// afterwards.
func TestALeaseThatLostItsQuorumIsNotPutTogetherAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		nodes[2].setDown(true)
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("two nodes of three were no quorum")
		}
		time.Sleep(time.Second)
		nodes[1].FlushAll() // unseen: one node has the lease now
		nodes[2].setDown(false)
		time.Sleep(c.TTL / 3) // the third is taken in the background
		if held, _ := l.Held("k"); held != 3 {
			t.Fatalf("held on %d nodes as far as is known, want 3", held)
		}
		if err := renewed(t, l, c); !errors.Is(err, locker.ErrLeaseLost) {
			t.Errorf("renewed (%v) though only one node has had the lease without a gap", err)
		}
	})
}

// A node that was taken counts from the next renewal that finds all earlier
// nodes there.
func TestANodeThatWasTakenMakesUpForOneThatForgetsLater(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		nodes[2].setDown(true)
		l := openOn(t, nodes)
		c := newClaim(30 * time.Second)
		if !acquires(t, l, c) {
			t.Fatal("two nodes of three were no quorum")
		}
		time.Sleep(time.Second)
		nodes[2].setDown(false)
		for _, before := range []func(){func() {}, nodes[1].FlushAll, func() { nodes[0].setDown(true) }} {
			time.Sleep(c.TTL / 3)
			before()
			if err := renewed(t, l, c); err != nil {
				t.Fatalf("%v, want it renewed", err)
			}
		}
	})
}
