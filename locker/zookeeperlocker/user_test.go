package zookeeperlocker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// patience bounds the wait for what must come.
const patience = 60 * time.Second

func nothing(context.Context) error { return nil }

// newGuard returns a guard that is closed when t ends. It waits for as long as
// a slow machine may need.
func newGuard(t *testing.T, l locker.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, l, append([]guard.Option{guard.WithMaxWait(2 * patience)}, opts...)...)
}

// wantSound wants a Check without findings. A machine that stands still makes
// one about the round trip.
func wantSound(t *testing.T, g *guard.Guard) {
	t.Helper()
	err := g.Check(t.Context())
	for start := time.Now(); err != nil && time.Since(start) < patience; time.Sleep(10 * time.Millisecond) {
		err = g.Check(t.Context())
	}
	if err != nil {
		t.Errorf("Check: %v", err)
	}
}

func at(conn *zk.Conn, prefix string) locker.Locker {
	return zookeeperlocker.New(conn, zookeeperlocker.WithPrefix(prefix))
}

// waiting waits until n claims wait for key.
func waiting(t *testing.T, g *guard.Guard, key string, n int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < patience; time.Sleep(5 * time.Millisecond) {
		if waits(t, g, key, n) {
			return
		}
	}
	t.Fatalf("%d do not come to wait for %s", n, key)
}

// waits reports whether n claims wait for key.
func waits(t *testing.T, g *guard.Guard, key string, n int) bool {
	t.Helper()
	s, err := g.Inspect(t.Context(), key)
	return err == nil && s.Waiting >= n
}

// A holder that is cut off is, for everybody else, one whose process was
// killed.
func TestAHolderThatIsCutOffStopsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	const holders, ttl = 20, 4 * time.Second
	addr, prefix := store(t)
	others := newGuard(t, at(zktest.Connect(t, session, addr), prefix), guard.WithMaxWait(2*patience))
	var all sync.WaitGroup
	for i := range holders {
		p := faultpipe.NewLossy(t, addr)
		// Some sessions end before their leases, and some long after.
		conn := zktest.Connect(t, []time.Duration{time.Second, session}[i%2], p.Addr)
		g := newGuard(t, at(conn, prefix), guard.WithTTL(ttl))
		key := fmt.Sprint("k", i)
		l, err := g.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan time.Time, 1) // perhaps before the cut, on a machine that stands still
		context.AfterFunc(l.Context(), func() { told <- time.Now() })
		all.Go(func() {
			got := make(chan time.Time, 1)
			go func() {
				defer close(got)
				err := others.Do(t.Context(), key, func(context.Context) error {
					got <- time.Now()
					if l.Err() == nil {
						t.Errorf("the next began in the holder's lease, which ends in %v", time.Until(l.Deadline()))
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
			// A session may end while the machine stands still.
			for start := time.Now(); len(got) == 0 && !waits(t, others, key, 1) && time.Since(start) < patience; {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(rand.N(ttl))
			cut := time.Now()
			mend := p.Cut(i%4 < 2, true)
			defer mend()
			stopped := <-told
			next, ok := <-got
			_ = l.Release(t.Context()) // it was lost
			if !ok {
				return
			}
			t.Logf("told %v before the next, which began %v after the cut", next.Sub(stopped), next.Sub(cut))
		})
	}
	all.Wait()
}

// A session that has ended takes the queue's entries with it, but no key.
func TestWhoWaitsBeyondTheEndOfASessionIsServed(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	p := faultpipe.NewLossy(t, addr)
	holder := newGuard(t, at(zktest.Connect(t, session, addr), prefix))
	conn := zktest.Connect(t, time.Second, p.Addr)
	waiter := newGuard(t, at(conn, prefix), guard.WithMaxWait(2*patience))
	l, err := holder.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- waiter.Do(t.Context(), "k", nothing) }()
	waiting(t, holder, "k", 1)
	first := conn.SessionID()
	mend := p.Cut(true, true)
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if s, err := holder.Inspect(t.Context(), "k"); err == nil && s.Waiting == 0 {
			break
		}
		if time.Since(start) > patience {
			t.Fatal("the entry of a session that has ended stays")
		}
	}
	mend()
	waiting(t, holder, "k", 1)
	if conn.SessionID() == first {
		t.Error("the session goes on")
	}
	if err := errors.Join(l.Release(t.Context()), <-got); err != nil {
		t.Error(err)
	}
}

func TestTheKeyOfADeadProcessIsFreedThoughNobodyWantsIt(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	p := faultpipe.NewLossy(t, addr)
	conn := zktest.Connect(t, session, addr)
	dead := newGuard(t, at(zktest.Connect(t, time.Second, p.Addr), prefix), guard.WithTTL(time.Second))
	l, err := dead.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	other := newGuard(t, at(conn, prefix))
	if err := other.Do(t.Context(), "another", nothing); err != nil { // it lives
		t.Fatal(err)
	}
	mend := p.Cut(true, true)
	defer mend()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		s, err := other.Inspect(t.Context(), "k")
		if err == nil && !s.Held {
			break
		}
		if time.Since(start) > patience {
			t.Fatalf("the key stays: %+v, %v", s, err)
		}
	}
	<-l.Context().Done()
	_ = l.Release(t.Context()) // it was lost
}

// The row of a key stays for its record. Who never looked before finds the key
// free all the same, some time after the death of its owner.
func TestARecordDoesNotHoldTheKeyOfADeadProcess(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	l, c := opened(t, addr, prefix), claimOfK()
	c.TTL = 10 * time.Second // Begin comes before its end
	acquire(t, l, c)
	if _, err := l.Begin(t.Context(), c, locker.Record{Value: "mark", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s, err := opened(t, addr, prefix).Inspect(t.Context(), "k")
		if err == nil && !s.Held && s.Record.Size > 0 {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("%+v, %v: want a mark and no owner", s, err)
		}
	}
}

// Each process measures a TTL from its first sight. A record that others write
// around for ever must end all the same.
func TestARecordEndsThoughItsRowIsWrittenAnew(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"short": "r", "in a row of its own": strings.Repeat("r", 1000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, prefix := store(t)
			l, c := opened(t, addr, prefix), claimOfK()
			acquire(t, l, c)
			r := locker.Record{Value: value, TTL: 3 * time.Second}
			if _, err := l.Release(t.Context(), c, locker.End{Record: r}); err != nil {
				t.Fatal(err)
			}
			if s, err := l.Inspect(t.Context(), "k"); err != nil || s.Record.Size != len(value) {
				t.Fatalf("%+v, %v, want the record", s, err)
			}
			conn := zktest.Connect(t, session, addr)
			for start := time.Now(); !endsFor(t, at(conn, prefix)); time.Sleep(100 * time.Millisecond) {
				if time.Since(start) > patience {
					t.Fatal("the record stays")
				}
			}
		})
	}
}

// endsFor lets a process that has never looked before own the key "k", and
// reports whether it finds no record then. The process ends.
func endsFor(t *testing.T, l locker.Locker) bool {
	t.Helper()
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(context.WithoutCancel(t.Context())) }()
	for _, recall := range []bool{false, true} {
		c := claimOfK()
		c.Recall = recall
		a, err := l.Acquire(t.Context(), c, locker.Try{})
		if err != nil {
			t.Fatal(err)
		}
		if !a.Acquired {
			return false
		}
		if _, err := l.Release(t.Context(), c, locker.End{}); err != nil {
			t.Fatal(err)
		}
	}
	return true
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
			waiting(t, operator, "k", others)
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
		case <-time.After(patience):
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
			guard.WithTTL(30*time.Second), guard.WithMaxWait(2*patience), guard.WithFencing())
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
	case <-time.After(2 * patience):
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
	got := make(chan error, 1)
	err := g.Do(t.Context(), "k", func(context.Context) error {
		go func() { got <- other.Do(t.Context(), "k", nothing) }()
		waiting(t, g, "k", 1)
		return nil
	})
	if err := errors.Join(err, <-got); err != nil {
		t.Error(err)
	}
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
	for _, g := range []*guard.Guard{g, other} {
		wide := g.With(guard.WithResultLimit(locker.MaxRecord))
		got, err := guard.Once(t.Context(), wide, "k", time.Hour, func(context.Context) (string, error) {
			if g == other {
				t.Error("it ran again")
			}
			return long, nil
		})
		if err != nil || got != long {
			t.Errorf("%d bytes, %v", len(got), err)
		}
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
	g, err := guard.New(l, guard.WithMaxWait(2*patience))
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
