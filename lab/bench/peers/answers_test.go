package peers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

func peerLostReply(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, rig.Long)
	warmUp(t, l)
	n.KillNextReply()
	start := time.Now()
	held, err := l.Acquire(t.Context(), key, 3*time.Second)
	if err == nil {
		_ = held.Release(t.Context())
		return result{yes, fmt.Sprintf("acquired after %v", round(time.Since(start)))}
	}
	if locked(t, n.direct, lib, key) {
		return result{no, fmt.Sprintf("%s after %v, while its own key stands for the whole TTL (30 s)", brief(err),
			round(time.Since(start)))}
	}
	return result{parts, fmt.Sprintf("%s after %v; no key is left", brief(err), round(time.Since(start)))}
}

func peerLateReply(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, 500*time.Millisecond)
	warmUp(t, l)
	n.DelayReplies(700 * time.Millisecond)
	start := time.Now()
	held, err := l.Acquire(t.Context(), key, 0)
	took := time.Since(start)
	gone := !locked(t, n.direct, lib, key)
	n.DelayReplies(0)
	if err != nil {
		return result{yes, "not granted"}
	}
	_ = held.Release(t.Context())
	if gone {
		return result{no, fmt.Sprintf("granted after %v, when its key of 500 ms had ended", round(took))}
	}
	return result{no, fmt.Sprintf("granted after %v, with a TTL of 500 ms", round(took))}
}

func peerAbandoned(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, rig.Long)
	warmUp(t, l)
	const tries = 20
	n.server.Stop()
	var wg sync.WaitGroup
	var slowest atomic.Int64
	for i := range tries {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			start := time.Now()
			if held, err := l.Acquire(ctx, fmt.Sprint(key, i), 0); err == nil {
				defer func() { _ = held.Release(t.Context()) }()
			}
			for d := int64(time.Since(start)); d > slowest.Load(); {
				slowest.Store(d)
			}
		})
	}
	wg.Wait()
	n.server.Cont()
	time.Sleep(2 * time.Second)
	left := 0
	for i := range tries {
		if locked(t, n.direct, lib, fmt.Sprint(key, i)) {
			left++
		}
	}
	return result{kept(left == 0), fmt.Sprintf("%d of %d keys left for their whole TTL; a call of 20 ms "+
		"returned after %v", left, tries,
		round(time.Duration(slowest.Load())))}
}

func peerOneWay(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, time.Second)
	held := take(t, l, key)
	n.DropDown(true)
	start := time.Now()
	if !told(held, 20*time.Second) {
		return result{no, "not told within 20 s (TTL 1 s)"}
	}
	after, left := time.Since(start), ttlOf(t, n.direct, lib, key)
	n.partition(false)
	released := make(chan struct{})
	go func() { defer close(released); _ = held.Release(t.Context()) }() // ends with the library's time limits
	<-released
	if left <= 0 {
		return result{no, fmt.Sprintf("told %v after the replies stopped, when its key had "+
			"ended (TTL 1 s)", round(after))}
	}
	return result{yes, fmt.Sprintf("told %v before its key could end", left)}
}

func peerForeign(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := peer(t, lib, libs.Setup{Addrs: []string{s.Addr}, TTL: 300 * time.Millisecond, NoRenewal: true})
	held := take(t, l, key)
	if lib.Renews {
		rdb.Del(t.Context(), lib.Keys(key)...) // it would never end
	}
	theirs := take(t, peerOn(t, lib, s.Addr, rig.Long), key)
	err := held.Release(t.Context())
	safe := locked(t, rdb, lib, key)
	_ = theirs.Release(t.Context())
	if !safe {
		return result{no, "the key of the next holder was deleted"}
	}
	if lib == libs.Rueidislock {
		return result{yes, "the key of the next holder stays; a release says nothing"}
	}
	return result{kept(err != nil), brief(err) + "; the key of the next holder stays"}
}

func peerRace(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, 3*time.Second)
	var wg sync.WaitGroup
	var back atomic.Int64
	at := time.Second
	if lib.Renews {
		at = 3 * time.Second / 2 // when it renews
	}
	for i := range 20 {
		k := fmt.Sprint(key, i)
		held := take(t, l, k)
		wg.Go(func() {
			time.Sleep(at + time.Duration(i-10)*20*time.Millisecond)
			_ = held.Release(t.Context())
			end := time.Now().Add(500 * time.Millisecond)
			for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if lib != libs.Rueidislock && locked(t, n.direct, lib, k) || time.Until(end) < 250*time.Millisecond &&
					locked(t, n.direct, lib, k) {
					back.Add(1)
					return
				}
			}
		})
	}
	n.DelayReplies(100 * time.Millisecond)
	wg.Wait()
	n.DelayReplies(0)
	return result{kept(back.Load() == 0), fmt.Sprintf("%d of 20 keys were there after their release "+
		"around a renewal", back.Load())}
}

func peerLostRelease(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, rig.Long)
	warmUp(t, l)
	held := take(t, l, key)
	n.KillNextReply()
	err := held.Release(t.Context())
	time.Sleep(500 * time.Millisecond)
	left := locked(t, n.direct, lib, key)
	if left {
		return result{no, brief(err) + ", and the key is left for its TTL"}
	}
	return result{kept(err == nil), brief(err) + "; the key is free"}
}

func peerTwice(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, rig.Long)
	warmUp(t, l)
	held := take(t, l, key)
	if err := held.Release(t.Context()); err != nil {
		return result{no, "release: " + brief(err)}
	}
	time.Sleep(100 * time.Millisecond) // for requests that are sent in the background
	n.Reset()
	err := held.Release(t.Context())
	c := n.Commands()
	sent := c["EVAL"] + c["EVALSHA"] + c["DEL"] + c["GET"]
	how := yes
	if sent > 0 {
		how = parts
	}
	return result{how, fmt.Sprintf("the second release: %d requests, %s", sent, brief(err))}
}
