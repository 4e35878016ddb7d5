package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

func peerCutOff(t *testing.T, lib *libs.Library) result {
	t.Helper()
	const ttl = 3 * time.Second
	n := peerNetwork(t)
	held := take(t, peerOn(t, lib, n.Addr, ttl), key)
	whole := peerOn(t, lib, n.server.Addr, ttl)
	warmUp(t, whole)
	time.Sleep(ttl * 6 / 10) // it has been renewed
	stopped := make(chan time.Time, 1)
	go func() { // ends by a time limit
		if told(held, rig.Long) {
			stopped <- time.Now()
		} else {
			stopped <- time.Time{}
		}
	}()
	n.partition(true)
	next := take(t, whole, key)
	started := time.Now()
	at := <-stopped
	_ = next.Release(t.Context())
	n.partition(false)
	_ = held.Release(t.Context())
	switch before := started.Sub(at); {
	case at.IsZero():
		return result{no, "not told within 30 s (TTL 3 s)"}
	case before > 0:
		return result{yes, fmt.Sprintf("told %v before the other started (TTL 3 s)", round(before))}
	default:
		return result{no, fmt.Sprintf("told %v after the other had started (TTL 3 s)", round(-before))}
	}
}

func peerSlow(t *testing.T, lib *libs.Library) result {
	t.Helper()
	const ttl = 4 * time.Second
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, ttl)
	warmUp(t, l)
	jitter, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop
		for jitter.Err() == nil {
			n.DelayReplies(200*time.Millisecond + rand.N(200*time.Millisecond))
			time.Sleep(50 * time.Millisecond)
		}
	})
	held := take(t, l, key)
	start := time.Now()
	was := told(held, 2*ttl)
	stop()
	wg.Wait()
	n.DelayReplies(0)
	_ = held.Release(t.Context())
	if was {
		return result{no, fmt.Sprintf("lost after %v", round(time.Since(start)))}
	}
	return result{parts, "not lost; nothing warns of a TTL that is too short"}
}

func peerPaused(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.server.Addr, 2*time.Second)
	warmUp(t, l)
	held := take(t, l, "held")
	left := ttlOf(t, n.direct, lib, "held")
	paused := time.Now()
	command(t, n.direct, "client", "pause", 4000, "ALL")
	toldAt := make(chan time.Duration, 1)
	go func() { // ends by a time limit
		if told(held, 10*time.Second) {
			toldAt <- time.Since(paused)
		} else {
			toldAt <- -1
		}
	}()
	start := time.Now()
	got, err := l.Acquire(t.Context(), key, 300*time.Millisecond)
	took := time.Since(start)
	if err == nil {
		_ = got.Release(t.Context())
	}
	at := <-toldAt
	command(t, n.direct, "client", "unpause")
	_ = held.Release(t.Context())
	inTime := at >= 0 && at < left
	when := fmt.Sprintf("told %v after the pause began, its key could end after %v", round(at), round(left))
	if at < 0 {
		when = "not told"
	}
	return result{
		kept(took < time.Second && inTime),
		fmt.Sprintf("a wait of 300 ms took %v; the holder: %s", round(took), when),
	}
}

func peerMessage(t *testing.T, lib *libs.Library) result {
	t.Helper()
	if lib != libs.Rueidislock {
		return result{none, "it has no messages, it polls"}
	}
	n := peerNetwork(t)
	a, b := peerOn(t, lib, n.server.Addr, 10*time.Second), peerOn(t, lib, n.Addr, 10*time.Second)
	warmUp(t, b)
	held := take(t, a, key)
	type got struct {
		lease libs.Lease
		err   error
	}
	done := make(chan got, 1)
	go func() { // ends with the wait
		l, err := b.Acquire(t.Context(), key, rig.Long)
		done <- got{l, err}
	}()
	time.Sleep(500 * time.Millisecond)
	n.SilenceAll()
	_ = held.Release(t.Context())
	start := time.Now()
	g := <-done
	d := time.Since(start)
	if g.err != nil {
		return result{no, "connections died without a word: not woken within 30 s, " + brief(g.err)}
	}
	_ = g.lease.Release(t.Context())
	return result{kept(d < poll), fmt.Sprintf("connections died without a word: the waiter had the key %v "+
		"after the release", round(d))}
}
