package zookeeperlocker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// nodeOfK is the node of the key "k" below the prefix of a test.
const nodeOfK = "/k/a/aw"

// nodesOf returns the names below a node that begin with prefix.
func nodesOf(t *testing.T, conn *zk.Conn, dir, prefix string) (names []string) {
	t.Helper()
	all, _, err := conn.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}

// drop deletes a node, and what is below it, as a hand does.
func drop(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	for _, name := range nodesOf(t, conn, path, "") {
		drop(t, conn, path+"/"+name)
	}
	if err := conn.Delete(path, -1); err != nil {
		t.Fatalf("delete %s: %v", path, err)
	}
}

// dropMarker deletes the marker of the key "k".
func dropMarker(t *testing.T, conn *zk.Conn, prefix string) {
	t.Helper()
	markers := nodesOf(t, conn, prefix+nodeOfK, "h-")
	if len(markers) != 1 {
		t.Fatalf("markers %v, want one", markers)
	}
	drop(t, conn, prefix+nodeOfK+"/"+markers[0])
}

// awaitNone waits until there is no node of the key "k".
func awaitNone(t *testing.T, conn *zk.Conn, prefix string) {
	t.Helper()
	testguard.Eventually(t, "nothing of the key is left", func() bool {
		there, _, err := conn.Exists(prefix + nodeOfK)
		return err == nil && !there
	})
}

func opened(t *testing.T, addr, prefix string) locker.Locker {
	t.Helper()
	l := at(zktest.Connect(t, session, addr), prefix)
	if err := l.Open(lockerkit.Deaf{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
	return l
}

func claimOfK() *locker.Claim {
	return &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: testguard.Patience, Limit: 1}
}

func acquire(t *testing.T, l locker.Locker, c *locker.Claim) {
	t.Helper()
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
}

// goesOn are the ways in which an owner may go on.
var goesOn = map[string]func(ctx context.Context, l locker.Locker, c *locker.Claim) error{
	"renew": func(ctx context.Context, l locker.Locker, c *locker.Claim) (err error) {
		l.Renew(ctx, []*locker.Claim{c}, func(_ int, e error) { err = e })
		return err
	},
	"fence": func(ctx context.Context, l locker.Locker, c *locker.Claim) error {
		_, err := l.Fence(ctx, c)
		return err
	},
	"release": func(ctx context.Context, l locker.Locker, c *locker.Claim) error {
		_, err := l.Release(ctx, c, locker.End{})
		return err
	},
	"force release": func(ctx context.Context, l locker.Locker, c *locker.Claim) error {
		return l.ForceRelease(ctx, c.Key, c.Owner)
	},
	"acquire again": func(ctx context.Context, l locker.Locker, c *locker.Claim) error {
		a, err := l.Acquire(ctx, c, locker.Try{Held: true})
		if err == nil && !a.Acquired {
			return locker.ErrLeaseLost
		}
		return err
	},
}

// A hand deletes the node, another claim takes the key, and the old owner goes
// on.
func TestAnOwnerWhoseNodeWasDeletedChangesNothing(t *testing.T) {
	t.Parallel()
	for name, goOn := range goesOn {
		for _, renewed := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				addr, prefix := store(t)
				conn := zktest.Connect(t, session, addr)
				l, other := opened(t, addr, prefix), opened(t, addr, prefix)
				a, b := claimOfK(), claimOfK()
				acquire(t, l, a)
				for range renewed {
					if err := goesOn["renew"](t.Context(), l, a); err != nil {
						t.Fatal(err)
					}
				}
				drop(t, conn, prefix+nodeOfK)
				acquire(t, other, b)
				if err := goOn(t.Context(), l, a); !errors.Is(err, locker.ErrLeaseLost) {
					t.Errorf("the old owner: %v, want ErrLeaseLost", err)
				}
				if s, err := other.Inspect(t.Context(), "k"); err != nil || s.Owner != b.Owner {
					t.Errorf("the key is %s's, want %s's: %v", s.Owner, b.Owner, err)
				}
				for _, go2 := range []string{"renew", "release"} {
					if err := goesOn[go2](t.Context(), other, b); err != nil {
						t.Errorf("the new owner: %s: %v", go2, err)
					}
				}
				awaitNone(t, conn, prefix)
			})
		}
	}
}

// Whatever a hand does to what stands below the node of a key, its owner and
// those who wait go on.
func TestAnOwnerGoesOnWhateverStandsBelowItsNode(t *testing.T) {
	t.Parallel()
	for damage, do := range map[string]func(t *testing.T, conn *zk.Conn, prefix string){
		"no marker": dropMarker,
		"a stranger's node": func(t *testing.T, conn *zk.Conn, prefix string) {
			t.Helper()
			if _, err := conn.Create(prefix+nodeOfK+"/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		},
		"another version": func(t *testing.T, conn *zk.Conn, prefix string) {
			t.Helper()
			value, _, err := conn.Get(prefix + nodeOfK)
			if err == nil {
				_, err = conn.Set(prefix+nodeOfK, value, -1)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		for name, goOn := range goesOn {
			for _, waiters := range []int{0, 2} {
				t.Run(damage+"/"+name, func(t *testing.T) {
					t.Parallel()
					addr, prefix := store(t)
					conn := zktest.Connect(t, session, addr)
					l, c := opened(t, addr, prefix), claimOfK()
					acquire(t, l, c)
					others := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
					var all sync.WaitGroup
					for i := range waiters {
						g := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
						all.Go(func() {
							if err := g.Do(t.Context(), "k", nothing); err != nil {
								t.Error(err)
							}
						})
						testguard.Waiting(t, others, "k", i+1)
					}
					do(t, conn, prefix)
					ctx, cancel := context.WithTimeout(t.Context(), testguard.Patience)
					defer cancel()
					if err := goOn(ctx, l, c); err != nil {
						t.Errorf("the owner: %v", err)
					}
					_, _ = l.Release(ctx, c, locker.End{})
					all.Wait()
					awaitNone(t, conn, prefix)
				})
			}
		}
	}
}

// The key of a dead holder comes free, also when a hand has deleted its marker.
func TestTheKeyOfADeadHolderComesFree(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for name, free := range map[string]func(t *testing.T, other *guard.Guard){
		"by the next": func(t *testing.T, other *guard.Guard) {
			t.Helper()
			if err := other.Do(t.Context(), "k", nothing); err != nil {
				t.Error(err)
			}
		},
		"by the janitor": func(t *testing.T, other *guard.Guard) {
			t.Helper()
			if err := other.Do(t.Context(), "another", nothing); err != nil { // it lives
				t.Fatal(err)
			}
		},
		"by an operator": func(t *testing.T, other *guard.Guard) {
			t.Helper()
			s, err := other.Inspect(t.Context(), "k")
			if err == nil && s.Held {
				err = other.ForceRelease(t.Context(), "k", s.Owner)
			}
			if err != nil && !errors.Is(err, locker.ErrLeaseLost) { // others may be faster
				t.Error(err)
			}
		},
	} {
		for _, marked := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				addr, prefix := store(t)
				conn := zktest.Connect(t, session, addr)
				p := faultpipe.NewLossy(t, addr)
				dead := newGuard(t, at(zktest.Connect(t, time.Second, p.Addr), prefix), guard.WithTTL(ttl))
				l, err := dead.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				mend := p.Cut(true, true)
				defer mend()
				<-l.Context().Done()
				_ = l.Release(t.Context()) // it was lost
				if !marked {
					dropMarker(t, conn, prefix)
				}
				free(t, newGuard(t, at(zktest.Connect(t, session, addr), prefix)))
				awaitNone(t, conn, prefix)
			})
		}
	}
}

// Others delete the node of a key when the time is over that it says.
func TestANodeOutlivesTheLeaseOfItsOwner(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := claimOfK()
	acquire(t, opened(t, addr, prefix), c)
	data, _, err := zktest.Connect(t, session, addr).Get(prefix + nodeOfK)
	var name string
	var kept, held int64 // ms
	n, _ := fmt.Sscan(string(data), &name, &kept, &held)
	if err != nil || n < 3 || min(kept, held) < c.TTL.Milliseconds() {
		t.Errorf("%q, %v, want it to last %v", data, err, c.TTL)
	}
}
