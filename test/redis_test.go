package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func onRedis(t *testing.T, addr string, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return newGuard(t, redislocker.New(redistest.Client(t, addr)), opts...)
}

// lockCommands counts the proxy's commands without those of a connection's
// handshake.
func lockCommands(p *redistest.Proxy) (n int) {
	for name, count := range p.Commands() {
		switch name {
		case "HELLO", "AUTH", "CLIENT", "SELECT", "PING", "SUBSCRIBE":
		default:
			n += count
		}
	}
	return n
}

func TestDo_AnUncontendedCallIsTwoRoundTripsAndNoGoroutine(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for name, opts := range map[string][]guard.Option{"plain": nil, "fencing": {guard.WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			g := onRedis(t, p.Addr, opts...)
			if err := g.Do(t.Context(), key, nop); err != nil { // connects, and loads the scripts
				t.Fatal(err)
			}
			// Each call has a goroutine of its own or none has. One of the
			// proxy may begin late, and a busy machine adds round trips: the
			// least of several rounds counts.
			const rounds = 10
			more, trips := rounds, 1000
			for n := 0; n < rounds && (more > 0 || trips > 2); n++ {
				p.Reset()
				before := runtime.NumGoroutine()
				err := g.Do(t.Context(), key, func(ctx context.Context) error {
					if opts != nil {
						if _, err := guard.FencingToken(ctx); err != nil {
							return err
						}
					}
					more = min(more, max(runtime.NumGoroutine()-before, 0))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				trips = min(trips, p.RoundTrips())
			}
			if more > 0 {
				t.Error("each call has a goroutine of its own")
			}
			if trips != 2 {
				t.Errorf("%d round trips for a call: %v", trips, p.Commands())
			}
		})
	}
}

func TestDo_TenThousandWaitersAreOneContenderAtRedis(t *testing.T) {
	t.Parallel() // it mostly waits
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	g := onRedis(t, p.Addr, guard.WithMaxWaiters(0), guard.WithMaxWait(time.Minute))
	// Ten thousand goroutines may keep renewals from being sent.
	other := onRedis(t, p.Addr, guard.WithMaxWait(time.Minute), guard.WithTTL(time.Minute))
	l := must(other.Acquire(t.Context(), key))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 10_000 {
		wg.Go(func() {
			if err := g.Do(ctx, key, nop); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	p.Reset()
	start := time.Now()
	time.Sleep(2 * time.Second) // the test counts the traffic of these seconds
	if n, most := lockCommands(p), int(time.Since(start).Seconds()*20)+20; n > most {
		t.Errorf("%d commands in %v of waiting: %v", n, time.Since(start), p.Commands())
	}
	cancel()
	wg.Wait()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Do(t.Context(), key, nop); err != nil {
		t.Fatalf("something was left: %v", err)
	}
}

func TestDo_ABusyPoolOfTheCallerCostsNoLease(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGuard(t, redislocker.New(rdb), guard.WithTTL(6*time.Second))
	var wg sync.WaitGroup
	busy, stop := context.WithCancel(t.Context())
	for range 3 {
		wg.Go(func() {
			for busy.Err() == nil {
				rdb.BLPop(busy, time.Second, "nothing")
			}
		})
	}
	err := g.Do(t.Context(), key, func(ctx context.Context) error {
		l, _ := guard.LeaseFrom(ctx)
		for renewed, end := 0, l.Deadline(); renewed < 2; time.Sleep(10 * time.Millisecond) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if d := l.Deadline(); d.After(end) {
				renewed, end = renewed+1, d
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("the lease did not last: %v", err)
	}
	stop()
	wg.Wait()
}

func TestDo_AHungServerBoundsEveryCallAndKeepsNoKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	g := onRedis(t, s.Addr, guard.WithTTL(2*time.Second), guard.WithMaxWait(300*time.Millisecond))
	if err := g.With(guard.WithMaxWait(10*time.Second)).Do(t.Context(), "warm", nop); err != nil {
		t.Fatal(err)
	}
	held := must(g.With(guard.WithMaxWait(10*time.Second)).Acquire(t.Context(), "held"))
	s.Stop()
	// Each returns before the server goes on.
	wantErr(t, g.Do(t.Context(), "k1", nop), guard.ErrUnavailable)
	_, err := g.TryAcquire(t.Context(), "k2")
	wantErr(t, err, guard.ErrUnavailable)
	_, err = held.FencingToken(t.Context())
	if !errors.Is(err, guard.ErrLeaseLost) { // on a busy machine the deadline may come first
		wantErr(t, err, guard.ErrUnavailable)
	}
	if err := held.Release(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
		wantErr(t, err, guard.ErrUnavailable)
	}
	s.Cont()
	deadline := time.Now().Add(time.Minute)
	for {
		left := rdb.Keys(t.Context(), "guard:{*}").Val()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestNew_BadRedisSettingsAreTypedErrorsAndLeaveNothing(t *testing.T) {
	addr := redistest.Start(t).Addr
	rdb := redistest.Client(t, addr)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, l := range map[string]guard.Locker{
		"nil client": redislocker.New(nil), "Ring": redislocker.New(ring),
		"prefix": redislocker.New(rdb, redislocker.WithPrefix("a{b}")),
	} {
		_, err := guard.New(l)
		if !errors.Is(err, guard.ErrInvalidOption) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	l := redislocker.New(rdb)
	newGuard(t, l)
	_, err := guard.New(l)
	wantErr(t, err, guard.ErrInvalidOption)
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left in Redis: %v", keys)
	}
}

func TestCheck_SaysWhatToChange(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	g := onRedis(t, s.Addr)
	if err := g.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("got %v", err)
	}
	if err := onRedis(t, redistest.Start(t).Addr).Check(t.Context()); err != nil {
		t.Errorf("a good server: %v", err)
	}
}

// A managed Redis may have a policy that nobody can change.
func TestCheck_PassesWithAFindingThatIsAccepted(t *testing.T) {
	g := onRedis(t, redistest.Start(t, "--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru").Addr)
	var f *guard.Finding
	if err := g.Check(t.Context()); !errors.As(err, &f) || f.Name != redislocker.FindingEviction ||
		f.Severity != guard.Refuse {
		t.Errorf("got %v", err)
	}
	knowing := g.With(guard.WithAcceptedFindings(redislocker.FindingEviction))
	if err := knowing.Check(t.Context()); err != nil {
		t.Errorf("it was accepted: %v", err)
	}
	found, err := knowing.Findings(t.Context())
	if err != nil || len(found) != 1 || found[0].Name != redislocker.FindingEviction ||
		found[0].Severity != guard.Warn {
		t.Errorf("got %+v, %v", found, err)
	}
	if err := g.With(guard.WithAcceptedFindings("messages")).Check(t.Context()); err == nil {
		t.Error("another finding was accepted")
	}
}
