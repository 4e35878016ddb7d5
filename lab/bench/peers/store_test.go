package peers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

func peerForgets(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, time.Second)
	warmUp(t, l)
	flushed := time.Now()
	calls, failed := 0, 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); calls++ {
		if time.Since(flushed) > 5*time.Millisecond {
			n.direct.ScriptFlush(t.Context())
			flushed = time.Now()
		}
		held, err := l.Acquire(t.Context(), key, 2*time.Second)
		if err == nil {
			err = held.Release(t.Context())
		}
		if err != nil {
			failed++
		}
	}
	return result{kept(failed == 0), fmt.Sprintf("%d of %d calls failed", failed, calls)}
}

func peerTrouble(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, 8*time.Second)
	warmUp(t, l)
	command(t, n.direct, "config", "set", "min-replicas-to-write", 1)
	mend := time.AfterFunc(500*time.Millisecond,
		func() { _ = n.server.Do(t.Context(), "config", "set", "min-replicas-to-write", 0).Err() })
	defer mend.Stop()
	start := time.Now()
	held, err := l.Acquire(t.Context(), key, 5*time.Second)
	took := time.Since(start)
	if err != nil {
		how := parts
		if took > 4*time.Second {
			how = no
		}
		return result{how, fmt.Sprintf("without replicas for 500 ms: gives up after %v, %s", round(took), brief(err))}
	}
	_ = held.Release(t.Context())
	return result{yes, fmt.Sprintf("without replicas for 500 ms: acquired after %v", round(took))}
}

func peerRefused(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, rig.Long)
	warmUp(t, l)
	n.direct.LPush(t.Context(), lib.Keys("list")[0], "x")
	start := time.Now()
	held, err := l.Acquire(t.Context(), "list", 3*time.Second)
	took := time.Since(start)
	if err == nil {
		_ = held.Release(t.Context())
		return result{no, "acquired a key of another type"}
	}
	return result{kept(took < time.Second), fmt.Sprintf("a key of another type: after %v of 3 s, %s",
		round(took), brief(err))}
}

func peerEvicted(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t, "--maxmemory", "4mb", "--maxmemory-policy", "volatile-ttl")
	held := take(t, peerOn(t, lib, n.server.Addr, 3*time.Second), key)
	filler := strings.Repeat("x", 1000)
	for i := 0; locked(t, n.direct, lib, key) && i < 1000; i++ {
		pipe := n.direct.Pipeline()
		for j := range 100 {
			pipe.Set(t.Context(), fmt.Sprint("filler", i, ":", j), filler, time.Hour)
		}
		_, _ = pipe.Exec(t.Context())
	}
	start := time.Now()
	was := told(held, 10*time.Second)
	d := time.Since(start)
	_ = held.Release(t.Context())
	if !was {
		return result{no, "not told within 10 s (TTL 3 s)"}
	}
	return result{parts, fmt.Sprintf("told after %v (TTL 3 s); nothing warns of the policy", round(d))}
}

func peerMemory(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, time.Second)
	held := take(t, l, key)
	command(t, n.direct, "config", "set", "maxmemory", "1")
	was := told(held, 2500*time.Millisecond)
	_ = held.Release(t.Context())
	time.Sleep(200 * time.Millisecond)
	left := locked(t, n.direct, lib, key)
	if was || left {
		return result{no, fmt.Sprintf("lost: %v; the key is left: %v", was, left)}
	}
	return result{yes, "renewed and released"}
}

func peerDeleted(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	held := take(t, peerOn(t, lib, n.server.Addr, 1500*time.Millisecond), key)
	command(t, n.direct, "flushall")
	start := time.Now()
	was := told(held, 10*time.Second)
	d := time.Since(start)
	back := locked(t, n.direct, lib, key)
	_ = held.Release(t.Context())
	switch {
	case back:
		return result{no, "the holder makes its key again, whoever may have had it meanwhile"}
	case !was:
		return result{no, "not told within 10 s (TTL 1.5 s)"}
	}
	return result{yes, fmt.Sprintf("told after %v (TTL 1.5 s)", round(d))}
}

func peerTTL(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	l, err := lib.Open(libs.Setup{Addrs: []string{s.Addr}, TTL: 500 * time.Microsecond, NoRenewal: true})
	if err != nil {
		return result{yes, "0.5 ms: " + brief(err)}
	}
	defer func() { _ = l.Close(t.Context()) }()
	held, err := l.Acquire(t.Context(), key, time.Second)
	there := locked(t, redistest.Client(t, s.Addr), lib, key)
	if err != nil {
		return result{parts, "0.5 ms: only at the first acquire, " + brief(err)}
	}
	_ = held.Release(t.Context())
	if !there {
		return result{no, "0.5 ms: granted, without a key"}
	}
	return result{no, "0.5 ms: granted, and the key lives longer than that"}
}

func peerClocks(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.StartWithClock(t)
	must(t, s.ShiftClock(6*time.Second))
	const ttl = 5 * time.Second
	held := take(t, peerOn(t, lib, s.Addr, ttl), key)
	second, err := peerOn(t, lib, s.Addr, ttl).Acquire(t.Context(), key, 0)
	still := held.Held()
	_ = held.Release(t.Context())
	if err != nil {
		return result{yes, "with a server 6 s ahead: one holder"}
	}
	defer func() { _ = second.Release(t.Context()) }()
	if still && second.Held() {
		return result{no, "with a server 6 s ahead, and a TTL of 5 s: two holders at once"}
	}
	return result{no, "with a server 6 s ahead, and a TTL of 5 s: the second gets the key at once, the first is told"}
}

func peerAhead(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.StartWithClock(t)
	const ttl = 3 * time.Second
	held := take(t, peerOn(t, lib, s.Addr, ttl), key)
	must(t, s.ShiftClock(30*time.Second))
	start := time.Now()
	second, err := peerOn(t, lib, s.Addr, ttl).Acquire(t.Context(), key, time.Second)
	was := told(held, 10*time.Second)
	d := time.Since(start)
	_ = held.Release(t.Context())
	got := "another got the key"
	if err != nil {
		got = "nobody else got the key within a second"
	} else {
		_ = second.Release(t.Context())
	}
	if !was {
		return result{no, got + "; the holder was not told within 10 s (TTL 3 s), and there is no token"}
	}
	return result{parts, fmt.Sprintf("%s; the holder was told after %v (TTL 3 s); there is no token", got, round(d))}
}

func peerBehind(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.StartWithClock(t)
	rdb := redistest.Client(t, s.Addr)
	held := take(t, peerOn(t, lib, s.Addr, 10*time.Second), key)
	other := peerOn(t, lib, s.Addr, 10*time.Second)
	warmUp(t, other)
	must(t, s.ShiftClock(-90*time.Second))
	freed := make(chan time.Time, 1)
	timer := time.AfterFunc(500*time.Millisecond, func() {
		_ = s.Do(t.Context(), "del", lib.Keys(key)[0]).Err()
		freed <- time.Now()
	})
	defer timer.Stop()
	left := ttlOf(t, rdb, lib, key)
	next, err := other.Acquire(t.Context(), key, 20*time.Second)
	d := time.Since(<-freed)
	_ = held.Release(t.Context())
	if err != nil {
		return result{no, fmt.Sprintf("a key of 10 s had %v left; a waiter did not get it within 20 s", round(left))}
	}
	_ = next.Release(t.Context())
	return result{kept(d < poll), fmt.Sprintf("a key of 10 s had %v left; a waiter had it %v after it was free",
		left.Round(time.Second), round(d))}
}
