package faults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The entries that are kept for a key, and those that stay in the end.

func TestFault32KeysThatAreNotHeldCostNothing(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	g := newGuard(t, rdb, guard.WithTTL(long), guard.WithFencing(), guard.WithMaxWait(long))
	warm(t, g)
	const used, held, workers = 5000, 500, 32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < used; i += workers {
				if err := g.Do(t.Context(), fmt.Sprint("used", i), nop); err != nil {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if left := settled(func() []string { return rdb.Keys(t.Context(), "guard:{*}").Val() }); len(left) > 0 {
		t.Errorf("%d locks are left", len(left))
	}
	if n := len(g.Snapshot(false)); n != 0 {
		t.Errorf("%d keys are remembered in the process", n)
	}
	before := rig.Running(t.Name())
	var leases []*guard.Lease
	for i := range held {
		leases = append(leases, acquire(t, g, fmt.Sprint("held", i)))
	}
	if after := rig.Running(t.Name()); after > before+20 {
		t.Errorf("%d goroutines with %d keys held, %d before", after, held, before)
	}
	for _, l := range leases {
		mustRelease(t, l)
	}
	counters := rdb.DBSize(t.Context()).Val() // each with a TTL; otherwise the check for leftovers finds it
	keeps(t, "after %d keys nothing in the process, and %d fencing counters with a TTL on the server; no goroutine "+
		"for a held key", used, counters)
}

func TestFault38ATTLThatRedisCannotKeepIsRefused(t *testing.T) {
	begin(t)
	rdb := redistest.Client(t, serve(t).Addr)
	for _, ttl := range []time.Duration{
		-time.Second, 0, 1, time.Microsecond, time.Millisecond, 99 * time.Millisecond, 100*time.Millisecond + 1,
		time.Second + time.Microsecond, 25 * 24 * time.Hour,
	} {
		_, err := guard.New(redislocker.New(rdb), guard.WithTTL(ttl))
		wantErr(t, err, guard.ErrInvalidOption)
	}
	for _, ttl := range []time.Duration{100 * time.Millisecond, 101 * time.Millisecond, time.Hour} {
		g := newGuard(t, rdb, guard.WithTTL(ttl), guard.WithoutRenewal())
		l := acquire(t, g, key)
		if left := rdb.PTTL(t.Context(), lock(key)).Val(); left > ttl || left == -1 {
			t.Errorf("a TTL of %v became %v", ttl, left)
		}
		_ = l.Release(t.Context())
		isFree(t, rdb, key)
	}
	keeps(t, "`ErrInvalidOption` below 100 ms and for parts of a millisecond")
}

func TestFault39EveryServerHereRunsTheScripts(t *testing.T) {
	begin(t)
	var tried []string
	for _, binary := range redisproc.Binaries() {
		lab := redistest.Lab(t)
		lab.Binary = binary
		s, err := lab.Start("--databases", "1000")
		if err != nil {
			t.Fatal(err)
		}
		leavesNothing(t, s.Addr)
		tried = append(tried, versionOf(t, s))
	}
	if len(tried) == 0 {
		t.Error("there is no server")
	}
	keeps(t, "its scripts run on what is in PATH: %s", strings.Join(tried, ", "))
}

func versionOf(t *testing.T, s *redisproc.Server) string {
	t.Helper()
	info, err := s.Do(t.Context(), "info", "server").Text()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		at[name] = value
	}
	if v := at["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + at["redis_version"]
}

func TestFault40NothingIsLeftAfterClose(t *testing.T) {
	begin(t)
	s := serve(t)
	before := rig.Running(t.Name())
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	other := newGuard(t, client, guard.WithTTL(long))
	theirs := acquire(t, other, "theirs")
	for range 5 {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
		g := newGuard(t, rdb, guard.WithTTL(long), guard.WithFencing(), guard.WithMaxWait(200*time.Millisecond))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { _ = g.Do(t.Context(), fmt.Sprint(key, i%4), nop) })
			wg.Go(func() { _ = g.Do(t.Context(), "theirs", nop) }) // waits in vain
		}
		l := acquire(t, eager(g), "held")
		wg.Wait()
		mustRelease(t, l)
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = rdb.Close()
	}
	mustRelease(t, theirs)
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	left := settled(func() []string {
		if rig.Running(t.Name()) > before {
			return rig.Goroutines(t.Name())
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("more goroutines than the %d before:\n%s", before, strings.Join(left, "\n\n"))
	}
	keeps(t, "no goroutine, no connection in `CLIENT LIST`, no key without a TTL")
}
