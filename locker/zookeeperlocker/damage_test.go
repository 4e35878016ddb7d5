package zookeeperlocker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// dirOfK is the directory of the key "k" below the prefix of a test.
const dirOfK = "/k/a/aw"

// nodesOf returns the names in a directory that begin with prefix.
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

// drop deletes a node as a hand does.
func drop(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	if err := conn.Delete(path, -1); err != nil {
		t.Fatalf("delete %s: %v", path, err)
	}
}

// deaf is a Waker that hears nothing, so that a claim learns all by its calls.
type deaf struct{}

func (deaf) Granted(_, _ string, _ locker.Offer) bool { return true }
func (deaf) Wanted(string)                            {}
func (deaf) Wake(string)                              {}
func (deaf) WakeAll()                                 {}

func opened(t *testing.T, addr, prefix string) locker.Locker {
	t.Helper()
	l := at(zktest.Connect(t, session, addr), prefix)
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.WithoutCancel(t.Context())) })
	return l
}

func claimOfK() *locker.Claim {
	return &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: patience, Limit: 1}
}

// ownerOfK returns the owner id that the key names.
func ownerOfK(t *testing.T, conn *zk.Conn, prefix string) string {
	t.Helper()
	value, _, err := conn.Get(prefix + dirOfK + "/o")
	if err != nil {
		t.Fatal(err)
	}
	owner, _, _ := strings.Cut(string(value), "/")
	return owner
}

// A hand deletes the owner node, another claim takes the key, and the old owner
// goes on in each way that there is.
func TestAnOwnerWhoseNodeWasDeletedChangesNothing(t *testing.T) {
	t.Parallel()
	for name, goOn := range map[string]func(l locker.Locker, c *locker.Claim) error{
		"renew": func(l locker.Locker, c *locker.Claim) (err error) {
			l.Renew(t.Context(), []*locker.Claim{c}, func(_ int, e error) { err = e })
			return err
		},
		"fence": func(l locker.Locker, c *locker.Claim) error {
			_, err := l.Fence(t.Context(), c)
			return err
		},
		"release": func(l locker.Locker, c *locker.Claim) error {
			_, err := l.Release(t.Context(), c, nil)
			return err
		},
		"force release": func(l locker.Locker, c *locker.Claim) error {
			return l.(locker.Inspector).ForceRelease(t.Context(), c.Key, c.Owner)
		},
		"acquire again": func(l locker.Locker, c *locker.Claim) error {
			a, err := l.Acquire(t.Context(), c, locker.Try{Held: true})
			if err == nil && !a.Acquired {
				return locker.ErrLeaseLost
			}
			return err
		},
	} {
		for _, renewed := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				addr, prefix := store(t)
				conn := zktest.Connect(t, session, addr)
				l, other := opened(t, addr, prefix), opened(t, addr, prefix)
				a, b := claimOfK(), claimOfK()
				acquire(t, l, a)
				for range renewed {
					l.Renew(t.Context(), []*locker.Claim{a}, func(_ int, err error) {
						if err != nil {
							t.Fatal(err)
						}
					})
				}
				drop(t, conn, prefix+dirOfK+"/o")
				acquire(t, other, b)
				if err := goOn(l, a); !errors.Is(err, locker.ErrLeaseLost) {
					t.Errorf("the old owner: %v, want ErrLeaseLost", err)
				}
				if got := ownerOfK(t, conn, prefix); got != b.Owner {
					t.Errorf("the key is %s's, want %s's", got, b.Owner)
				}
				if badges := nodesOf(t, conn, prefix+dirOfK, "h-"); len(badges) != 1 || badges[0] != "h-"+b.Owner {
					t.Errorf("badges %v, want that of %s alone", badges, b.Owner)
				}
				other.Renew(t.Context(), []*locker.Claim{b}, func(_ int, err error) {
					if err != nil {
						t.Errorf("the new owner renews: %v", err)
					}
				})
				if _, err := other.Release(t.Context(), b, nil); err != nil {
					t.Errorf("the new owner releases: %v", err)
				}
				if left := nodesOf(t, conn, prefix+dirOfK, ""); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

func acquire(t *testing.T, l locker.Locker, c *locker.Claim) {
	t.Helper()
	if a, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil || !a.Acquired {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
}

func TestDoSucceedsAfterAHandDeletedTheOwnerNode(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	conn := zktest.Connect(t, session, addr)
	const ttl = 3 * time.Second
	first := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithTTL(ttl))
	second := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithTTL(ttl))
	l, err := first.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, conn, prefix+dirOfK+"/o")
	err = second.Do(t.Context(), "k", func(ctx context.Context) error {
		select {
		case <-l.Context().Done():
		case <-time.After(patience):
			t.Error("the first holder is not told")
		}
		return ctx.Err()
	})
	if err := l.Release(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("Release of the first: %v, want ErrLeaseLost", err)
	}
	if err != nil {
		t.Errorf("the second: %v", err)
	}
	var all sync.WaitGroup
	for _, g := range []*guard.Guard{first, second} {
		all.Go(func() {
			for range 20 {
				if err := g.Do(t.Context(), "k", nothing); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if badges := nodesOf(t, conn, prefix+dirOfK, "h-"); len(badges) > 0 {
		t.Errorf("badges are left: %v", badges)
	}
}

// A dead holder's badge is deleted by hand: the key must come free as it would
// have without.
func TestAKeyWhoseBadgeWasDeletedComesFree(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for name, free := range map[string]func(t *testing.T, other *guard.Guard, conn *zk.Conn, dir string){
		"by the next": func(t *testing.T, other *guard.Guard, _ *zk.Conn, _ string) {
			t.Helper()
			if err := other.Do(t.Context(), "k", nothing); err != nil {
				t.Error(err)
			}
		},
		"by the janitor": func(t *testing.T, other *guard.Guard, conn *zk.Conn, dir string) {
			t.Helper()
			if err := other.Do(t.Context(), "another", nothing); err != nil { // it lives
				t.Fatal(err)
			}
			awaitNone(t, conn, dir)
		},
		"by an operator": func(t *testing.T, other *guard.Guard, _ *zk.Conn, _ string) {
			t.Helper()
			s, err := other.Inspect(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := other.ForceRelease(t.Context(), "k", s.Owner); err != nil {
				t.Error(err)
			}
		},
	} {
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
			drop(t, conn, prefix+dirOfK+"/"+nodesOf(t, conn, prefix+dirOfK, "h-")[0])
			free(t, newGuard(t, at(zktest.Connect(t, session, addr), prefix)), conn, prefix+dirOfK)
			if left := nodesOf(t, conn, prefix+dirOfK, ""); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestTheJanitorRemovesABadgeWithoutAnOwner(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	conn := zktest.Connect(t, session, addr)
	l := zookeeperlocker.New(zktest.Connect(t, session, addr), zookeeperlocker.WithPrefix(prefix))
	g := newGuard(t, l)
	if err := g.Do(t.Context(), "k", nothing); err != nil {
		t.Fatal(err)
	}
	badge := prefix + dirOfK + "/h-" + lockerkit.NewID()
	if _, err := conn.Create(badge, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	awaitNone(t, conn, prefix+dirOfK)
}

// awaitNone waits until nothing is left in a directory.
func awaitNone(t *testing.T, conn *zk.Conn, dir string) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left := nodesOf(t, conn, dir, "")
		if len(left) == 0 {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("left behind: %v", left)
		}
	}
}

// An answer that was lost leaves the owner with an old version of its node.
func TestAnOwnerFindsTheVersionOfItsNodeAgain(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	conn := zktest.Connect(t, session, addr)
	l, c := opened(t, addr, prefix), claimOfK()
	acquire(t, l, c)
	renewed := func() {
		value, _, err := conn.Get(prefix + dirOfK + "/o")
		if err == nil {
			_, err = conn.Set(prefix+dirOfK+"/o", value, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	renewed()
	l.Renew(t.Context(), []*locker.Claim{c}, func(_ int, err error) {
		if err != nil {
			t.Errorf("Renew: %v", err)
		}
	})
	renewed()
	if _, err := l.Fence(t.Context(), c); err != nil {
		t.Errorf("Fence: %v", err)
	}
	renewed()
	if _, err := l.Release(t.Context(), c, nil); err != nil {
		t.Errorf("Release: %v", err)
	}
	awaitNone(t, conn, prefix+dirOfK)
}

func TestWhoWaitsGetsAKeyWhoseBadgeWasDeleted(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	conn := zktest.Connect(t, session, addr)
	holder := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithTTL(3*time.Second))
	waiter := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
	l, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- waiter.Do(t.Context(), "k", nothing) }()
	waiting(t, waiter, "k", 1)
	drop(t, conn, prefix+dirOfK+"/"+nodesOf(t, conn, prefix+dirOfK, "h-")[0])
	<-l.Context().Done()
	if err := l.Release(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
		t.Errorf("Release: %v, want ErrLeaseLost", err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	awaitNone(t, conn, prefix+dirOfK)
}
