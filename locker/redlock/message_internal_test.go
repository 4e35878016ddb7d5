package redlock

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// A look finds that a node has handed over the key. The message about that
// comes while the claim is being released again. If the message caused the key
// to be given back, the Release would find the lease lost.
func TestAMessageThatComesBesideAReleaseDoesNotEndTheLeaseBeforeIt(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := waited(t, nodes, l)
		for _, n := range nodes {
			var told atomic.Bool
			n.beforeScripts(func(args []string) {
				if isRelease(args, c) && !told.Swap(true) {
					n.Publish("guard:inbox:"+l.instance, "offered 1000 "+c.Owner+" 0 0 k")
					time.Sleep(50 * time.Millisecond) // of the release on its way
				}
			})
		}
		if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(time.Minute)
		nothingLeft(t, nodes)
	})
}

// A node hands over the key to a claim that has been released there. The node
// gets it back at once, even if the Release still waits for other nodes.
func TestAKeyThatComesAfterTheReleaseIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := waited(t, nodes, l)
		nodes[2].beforeScripts(func(args []string) {
			if isRelease(args, c) {
				time.Sleep(150 * time.Millisecond) // within the limit of a node
			}
		})
		if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
			t.Errorf("Release: %v", err)
		}
		synctest.Wait() // nodes 1 and 2 have answered, 3 has not
		if !nodes[2].Exists("guard:{k}") || l.known.find(c.Owner) == nil {
			t.Fatal("node 3 was as quick as the others")
		}
		_ = nodes[0].Set("guard:{k}", c.Owner+l.instance)
		nodes[0].Publish("guard:inbox:"+l.instance, "offered 1000 "+c.Owner+" 0 0 k")
		time.Sleep(time.Millisecond)
		if nodes[0].Exists("guard:{k}") {
			t.Error("node 1 keeps a key for a claim that is over")
		}
		time.Sleep(time.Minute)
		nothingLeft(t, nodes)
	})
}

// waited returns a claim that l has acquired by a hand-over.
func waited(t *testing.T, nodes []*fake, l *Locker) *locker.Claim {
	t.Helper()
	other := openOn(t, nodes)
	before, c := newClaim(10*time.Second), newClaim(10*time.Second)
	if !acquires(t, other, before) {
		t.Fatal("not acquired")
	}
	if a, err := l.Acquire(t.Context(), c, locker.Try{Wait: true}); err != nil || !a.Queued {
		t.Fatalf("Acquire: %+v, %v, want it queued", a, err)
	}
	synctest.Wait() // subscribed
	if r, err := other.Release(t.Context(), before, locker.End{}); err != nil || r.Waiting != 1 {
		t.Fatalf("Release: %+v, %v, want one that waits", r, err)
	}
	if a, err := l.Acquire(t.Context(), c, locker.Try{Wait: true, Queued: true}); err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
	time.Sleep(time.Second) // all nodes
	return c
}

// isRelease reports whether args are those of a script that releases c.
func isRelease(args []string, c *locker.Claim) bool {
	const first = 2 + 5 // the first value behind the script, the number of its keys and these
	return len(args) > first && args[1] == "5" && args[first] == c.Owner
}

func nothingLeft(t *testing.T, nodes []*fake) {
	t.Helper()
	for i, n := range nodes {
		if keys := n.Keys(); len(keys) > 0 {
			t.Errorf("node %d keeps %s", i+1, strings.Join(keys, ", "))
		}
	}
}

// beforeScripts calls script before each script runs.
func (f *fake) beforeScripts(script func(args []string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
}
