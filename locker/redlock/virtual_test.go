package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

// fake is a node in virtual time. It can be down, restart empty, and tell how
// long it has been up.
type fake struct {
	*miniredis.Miniredis
	rdb *redis.Client

	mu     sync.Mutex // guards the fields below
	boot   time.Time
	down   bool
	conns  []net.Conn
	script func(args []string) // called before each script runs
}

func newFake(t *testing.T) *fake {
	t.Helper()
	m, rdb := redistest.Miniredis(t)
	f := &fake{Miniredis: m, boot: time.Now()}
	dial := rdb.Options().Dialer
	f.rdb = redis.NewClient(&redis.Options{
		Addr: rdb.Options().Addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.conns = append(f.conns, c)
			return c, err
		},
	})
	t.Cleanup(func() { _ = f.rdb.Close() })
	if err := rdb.Ping(t.Context()).Err(); err != nil { // there is a server from now on
		t.Fatal(err)
	}
	m.Server().SetPreHook(f.answer)
	return f
}

// answer replies in place of miniredis to INFO, and to everything while the
// node is down.
func (f *fake) answer(c *server.Peer, cmd string, args ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.script != nil && strings.HasPrefix(strings.ToLower(cmd), "eval") {
		script := f.script
		f.mu.Unlock()
		script(args)
		f.mu.Lock()
	}
	switch {
	case f.down:
		c.WriteError("LOADING the test says so")
	case strings.EqualFold(cmd, "info"):
		c.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%p%d\r\nuptime_in_seconds:%d\r\n", f, f.boot.UnixNano(),
			int(time.Since(f.boot).Seconds())))
	default:
		return false
	}
	return true
}

func (f *fake) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// restart makes the node forget everything, including its connections.
func (f *fake) restart() {
	f.FlushAll()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boot = time.Now()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// inBubble runs test in virtual time with three nodes that have been up for an
// hour.
func inBubble(t *testing.T, test func(t *testing.T, nodes []*fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes := []*fake{newFake(t), newFake(t), newFake(t)}
		time.Sleep(time.Hour)
		test(t, nodes)
	})
}

func openOn(t *testing.T, nodes []*fake, opts ...Option) *Locker {
	t.Helper()
	var clients []redis.UniversalClient
	for _, f := range nodes {
		clients = append(clients, f.rdb)
	}
	l := New(clients, opts...)
	if err := l.Open(deaf{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// deaf is a guard that hears nothing.
type deaf = lockerkit.Deaf

func newClaim(ttl time.Duration) *locker.Claim {
	return &locker.Claim{
		Key: "k", Owner: rand.Text()[:locker.OwnerLen], TTL: ttl,
		Holder: locker.Holder{Since: time.Now()},
	}
}

// acquires tries as often as a guard would within a second.
func acquires(t *testing.T, l *Locker, c *locker.Claim) bool {
	t.Helper()
	for range 10 {
		if a, err := l.Acquire(t.Context(), c, locker.Try{}); err == nil && a.Acquired {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// secondOwner lets one node be down at first. Then another one restarts empty,
// and the owner does not hear of that. secondOwner reports whether another
// claim gets the key beside the owner.
func secondOwner(t *testing.T, nodes []*fake, opts ...Option) bool {
	t.Helper()
	const ttl = 30 * time.Second
	nodes[2].setDown(true)
	owner, other := openOn(t, nodes, opts...), openOn(t, nodes, opts...)
	if !acquires(t, owner, newClaim(ttl)) {
		t.Fatal("two nodes of three were no quorum")
	}
	if err := owner.Close(t.Context()); err != nil { // it may still be at work, and asks nobody any more
		t.Fatal(err)
	}
	if acquires(t, other, newClaim(ttl)) {
		t.Fatal("a lease excludes nobody")
	}
	nodes[2].setDown(false)
	nodes[0].restart()
	return acquires(t, other, newClaim(ttl))
}

func TestANodeThatRestartedIsHeldOut(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		if secondOwner(t, nodes) {
			t.Error("a node that restarted empty has voted for a second owner")
		}
	})
}

// The test above can see its fault.
func TestWithoutARestartDelayThereAreTwoOwners(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		if !secondOwner(t, nodes, WithRestartDelay(0)) {
			t.Error("a node that restarted empty has not voted: the restart delay is not tested")
		}
	})
}

func TestAHeldOutNodeCountsAgainInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		const out = 20 * time.Second
		l := openOn(t, nodes, WithRestartDelay(out))
		for _, f := range nodes {
			f.restart()
		}
		start := time.Now()
		for !acquires(t, l, newClaim(time.Second)) {
			if time.Since(start) > 2*out {
				t.Fatal("the nodes never count again")
			}
		}
		if took := time.Since(start); took < out {
			t.Errorf("the nodes count after %v, want %v", took, out)
		}
	})
}

func TestATTLDoesNotOutliveTheRestartDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes, WithRestartDelay(5*time.Second))
		if _, err := l.Acquire(t.Context(), newClaim(6*time.Second), locker.Try{}); err == nil {
			t.Error("a lease was granted that outlives the restart delay")
		}
		if err := l.Check(t.Context(), 6*time.Second); err == nil {
			t.Error("Check finds nothing wrong with it")
		}
	})
}

// A quorum that answers when the lease is all but over has granted nothing.
func TestAnAnswerThatComesTooLateGrantsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l := openOn(t, nodes)
		c := newClaim(100 * time.Millisecond)
		b := l.ballot(c, true)
		votes := l.poll(t.Context(), b, locker.Try{})
		if len(votes.ours) < l.quorum {
			t.Fatal("no quorum")
		}
		sent := time.Now().Add(-c.TTL + drift(c.TTL)) // as if it had taken so long
		if a, err := l.win(t.Context(), b, locker.Try{}, votes, sent); err == nil || a.Acquired {
			t.Errorf("%+v, %v, want no grant", a, err)
		}
		synctest.Wait()
		for i, f := range nodes {
			if f.Exists("guard:{k}") {
				t.Errorf("node %d keeps its vote", i+1)
			}
		}
	})
}

// pause makes the node answer its next scripts after these times.
func (f *fake) pause(times ...time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var mu sync.Mutex // guards times
	f.script = func([]string) {
		mu.Lock()
		pause := time.Duration(0)
		if len(times) > 0 {
			pause, times = times[0], times[1:]
		}
		mu.Unlock()
		time.Sleep(pause)
	}
}

func TestASlowNodeDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		const late = 100 * time.Millisecond
		l := openOn(t, nodes)
		for range 5 {
			nodes[0].pause(late, late, late, late)
			c, start := newClaim(30*time.Second), time.Now()
			c.Fencing = true // by a script
			if !acquires(t, l, c) {
				t.Fatal("no quorum")
			}
			_, _ = l.Release(t.Context(), c, locker.End{})
			if took := time.Since(start); took >= late {
				t.Errorf("a turn took %v beside a node that is %v late", took, late)
			}
			time.Sleep(time.Second)
		}
	})
}

// A node that is taken again holds the lease from then on only. Another claim
// may have had it and a second node in between, so that node is no proof that
// the lease never ended. The node's answer that it has forgotten the lease may
// come after the renewal that asked for it, or during the next one.
func TestANodeThatForgotIsNoProofOfALease(t *testing.T) {
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		before time.Duration // the first renewal, after the grant
		pauses [3][]time.Duration
		then   func(t *testing.T, nodes []*fake, renew func() error) error
	}{
		"it answers between two renewals, soon after the grant": {
			0, [3][]time.Duration{{50 * ms}}, betweenRenewals,
		},
		"it answers between two renewals": {
			time.Second, [3][]time.Duration{{50 * ms}}, betweenRenewals,
		},
		"it answers during the next one": {
			time.Second,
			[3][]time.Duration{{50 * ms, 100 * ms}, {0, 80 * ms}},
			func(_ *testing.T, nodes []*fake, renew func() error) error {
				nodes[1].FlushAll() // which it tells after the first node is taken again
				return renew()
			},
		},
		"the next one does without it": {
			time.Second,
			[3][]time.Duration{{50 * ms, 100 * ms}, {}, {0, 80 * ms}},
			func(t *testing.T, nodes []*fake, renew func() error) error {
				t.Helper()
				time.AfterFunc(20*ms, nodes[1].FlushAll) // after it has answered, before the first is taken again
				if err := renew(); err != nil {
					t.Errorf("with a quorum that answered: %v", err)
				}
				time.Sleep(100 * ms)
				return renew()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, nodes []*fake) {
				t.Helper()
				l, c := openOn(t, nodes), newClaim(10*time.Second)
				if !acquires(t, l, c) {
					t.Fatal("no quorum")
				}
				synctest.Wait()
				time.Sleep(row.before)
				for i, f := range nodes {
					f.pause(row.pauses[i]...)
				}
				nodes[0].FlushAll()
				if err := renewed(t, l, c); err != nil {
					t.Fatalf("with one node that forgot: %v", err)
				}
				err := row.then(t, nodes, func() error { return renewed(t, l, c) })
				if !errors.Is(err, locker.ErrLeaseLost) {
					t.Errorf("with two nodes that forgot: %v, want ErrLeaseLost", err)
				}
			})
		})
	}
}

func betweenRenewals(_ *testing.T, nodes []*fake, renew func() error) error {
	nodes[1].FlushAll() // before the first node is taken again
	time.Sleep(100 * time.Millisecond)
	return renew()
}

// A node that was taken again counts after a renewal that did without it.
func TestANodeThatWasTakenAgainCountsFromTheNextRenewalOn(t *testing.T) {
	inBubble(t, func(t *testing.T, nodes []*fake) {
		t.Helper()
		l, c := openOn(t, nodes), newClaim(10*time.Second)
		if !acquires(t, l, c) {
			t.Fatal("no quorum")
		}
		time.Sleep(time.Second)
		nodes[0].FlushAll()
		for range 2 {
			if err := renewed(t, l, c); err != nil {
				t.Fatalf("with one node that forgot: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		nodes[1].FlushAll()
		if err := renewed(t, l, c); err != nil {
			t.Errorf("with another node that forgot later: %v", err)
		}
	})
}
