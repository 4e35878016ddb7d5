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
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func nothing(context.Context) error { return nil }

// newGuard returns a guard that is closed when t ends. It waits for as long as
// a slow machine may need.
func newGuard(t *testing.T, l locker.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, l, append([]guard.Option{guard.WithMaxWait(2 * testguard.Patience)}, opts...)...)
}

// wantSound wants a Check without findings. A machine that stands still makes
// one about the round trip.
func wantSound(t *testing.T, g *guard.Guard) {
	t.Helper()
	testguard.Eventually(t, "Check finds nothing", func() bool {
		err := g.Check(t.Context())
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

func at(conn *zk.Conn, prefix string) locker.Locker {
	return zookeeperlocker.New(conn, zookeeperlocker.WithPrefix(prefix))
}

// A session that has ended takes the queue's entries with it, but no key.
func TestWhoWaitsBeyondTheEndOfASessionIsServed(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	p := faultpipe.NewLossy(t, addr)
	holder := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithTTL(testguard.Patience))
	conn := zktest.Connect(t, time.Second, p.Addr)
	waiter := newGuard(t, at(conn, prefix), guard.WithMaxWait(2*testguard.Patience))
	l, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- waiter.Do(t.Context(), "k", nothing) }()
	testguard.Waiting(t, holder, "k", 1)
	first := conn.SessionID()
	testguard.Eventually(t, "another session waits", func() bool {
		mend := p.Cut(true, true)
		testguard.Eventually(t, "the entry of the session ends", func() bool {
			s, err := holder.Inspect(t.Context(), "k")
			return err == nil && s.Waiting == 0
		})
		mend()
		testguard.Waiting(t, holder, "k", 1)
		return conn.SessionID() != first // or the entry was that of a session that ended by itself
	})
	if err := errors.Join(l.Release(t.Context()), <-got); err != nil {
		t.Error(err)
	}
}

func TestAnOwnerWhoseKeyWasTakenIsTold(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	const ttl = time.Hour // so that no renewal tells it
	owner := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithTTL(ttl), guard.WithMaxHold(0))
	operator := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
	for _, others := range []int{0, 1} {
		l, err := owner.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		if others > 0 {
			all.Go(func() {
				if err := operator.Do(t.Context(), "k", nothing); err != nil {
					t.Error(err)
				}
			})
			testguard.Waiting(t, operator, "k", others)
		}
		time.Sleep(100 * time.Millisecond) // the owner's process watches the key; if not yet, it finds out by a look
		s, err := operator.Inspect(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := operator.ForceRelease(t.Context(), "k", s.Owner); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Context().Done():
		case <-time.After(testguard.Patience):
			t.Errorf("with %d who wait, the owner is not told", others)
		}
		if err := l.Release(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("Release: %v, want ErrLeaseLost", err)
		}
		all.Wait()
	}
}

func TestSectionsGoOnWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	servers := zktest.Start(t, 3, zktest.Settings{})
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	const processes, callers, rounds = 2, 4, 20
	n, fenced := 0, uint64(0)
	var all sync.WaitGroup
	half := make(chan struct{})
	for range processes {
		g := newGuard(t, at(zktest.Connect(t, session, addrs...), "/guard"),
			guard.WithTTL(30*time.Second), guard.WithMaxWait(2*testguard.Patience), guard.WithFencing())
		for range callers {
			all.Go(func() {
				for range rounds {
					err := g.Do(t.Context(), "k", func(ctx context.Context) error {
						if n++; n == processes*callers*rounds/2 {
							close(half)
						}
						token, err := guard.FencingToken(ctx)
						if err == nil && token <= fenced {
							t.Errorf("token %d after %d", token, fenced)
						}
						fenced = token
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	select {
	case <-half:
	case <-time.After(2 * testguard.Patience):
		t.Fatal("no sections")
	}
	for _, s := range servers {
		if s.Leads(t.Context()) {
			s.Kill()
			break
		}
	}
	all.Wait()
	if n != processes*callers*rounds {
		t.Errorf("%d sections, want %d", n, processes*callers*rounds)
	}
	g := newGuard(t, at(zktest.Connect(t, session, addrs...), "/guard"))
	wantSound(t, g) // with two of three servers
}

func TestTheRightsThatAreDocumentedAreEnough(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	as := func(user string) *guard.Guard {
		conn := zktest.Connect(t, session, addr)
		if user != "" {
			if err := conn.AddAuth("digest", []byte(user+":password")); err != nil {
				t.Fatal(err)
			}
		}
		all := zk.PermAll &^ zk.PermAdmin
		return newGuard(t, zookeeperlocker.New(conn, zookeeperlocker.WithPrefix(prefix),
			zookeeperlocker.WithACL(zk.DigestACL(int32(all), "app", "password")...)))
	}
	g, other := as("app"), as("app")
	wantSound(t, g)
	testguard.HandsOver(t, g, other)
	for _, user := range []string{"stranger", ""} {
		strange := as(user)
		if err := strange.Do(t.Context(), "k", nothing); err == nil || !strings.Contains(err.Error(), "rights") {
			t.Errorf("Do of user %q: %v, want an error that says what to do", user, err)
		}
		found, _ := locker.Findings(strange.Check(t.Context()))
		if len(found) == 0 || found[0].Name != zookeeperlocker.FindingRights {
			t.Errorf("Check of user %q: %v, want a finding %q", user, found, zookeeperlocker.FindingRights)
		}
	}
}

func TestAValueThatIsTooLongForARequestIsSplit(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	conn := zktest.Connect(t, session, addr)
	g := newGuard(t, at(conn, prefix))
	other := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
	long := strings.Repeat("x", 800<<10)
	once := func(g *guard.Guard) (runs int, err error) {
		wide := g.With(guard.WithResultLimit(locker.MaxRecord))
		got, err := guard.Once(t.Context(), wide, "k", time.Hour, func(context.Context) (string, error) {
			runs++
			return long, nil
		})
		if got != long {
			t.Errorf("%d bytes", len(got))
		}
		return runs, err
	}
	testguard.Eventually(t, "the store confirms a long value in time", func() bool {
		_, err := once(g)
		if err != nil && !errors.Is(err, guard.ErrNotRecorded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if runs, err := once(other); runs != 0 || err != nil {
		t.Errorf("it ran %d times more, %v", runs, err)
	}
	if parts := nodesOf(t, conn, prefix+"/v", ""); len(parts) == 0 { // each write without an answer leaves one
		t.Error("it was not split")
	}
}

func TestAnAddressOpensAndClosesItsConnection(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	l, err := locker.FromDSN("zk://" + addr + prefix + "/deep")
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(l, guard.WithMaxWait(2*testguard.Patience))
	if err != nil {
		t.Fatal(err)
	}
	wantSound(t, g)
	if err := errors.Join(g.Do(t.Context(), "k", nothing), g.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if ok, _, err := zktest.Connect(t, session, addr).Exists(prefix + "/deep/k"); !ok || err != nil {
		t.Errorf("nothing below the prefix of the address: %v", err)
	}
}
