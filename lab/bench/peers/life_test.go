package peers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// lifeTTL is the TTL of a process that is stopped or killed.
const lifeTTL = 2 * time.Second

// playPeer holds a key of another library in a process of its own. It works as
// long as the lock is held, and then writes.
func playPeer(name, addr string) int {
	chosen, err := libs.Named(name)
	if err != nil {
		return 1
	}
	ctx := context.Background()
	l, err := chosen[0].Open(libs.Setup{Addrs: []string{addr}, TTL: lifeTTL})
	if err != nil {
		return 1
	}
	held, err := l.Acquire(ctx, key, 0)
	if err != nil {
		return 1
	}
	fmt.Println("holds")
	for held.Held() {
		fmt.Println("works")
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("ended")
	return 0
}

func peerStopped(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	a := rig.Spawn(t, lib.Name, s.Addr)
	a.Says("holds")
	a.Says("works")
	a.Stop()
	next := take(t, peerOn(t, lib, s.Addr, rig.Long), key)
	for len(a.Lines) > 0 {
		<-a.Lines
	}
	_ = a.Cmd.Process.Signal(syscall.SIGCONT)
	start := time.Now()
	worked := 0
	for end := time.After(5 * time.Second); ; {
		select {
		case line := <-a.Lines:
			if line == "works" {
				worked++
				continue
			}
			_ = next.Release(t.Context())
			how := no
			if worked <= 1 { // it may have been past its look
				how = parts
			}
			return result{how, fmt.Sprintf("told %v after it goes on, and worked %d times until then; there is no "+
				"token to refuse a write by",
				round(time.Since(start)), worked)}
		case <-end:
			_ = next.Release(t.Context())
			return result{no, fmt.Sprintf("not told within 5 s after it goes on; it worked %d times, and "+
				"there is no token", worked)}
		}
	}
}

func peerKilled(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	a := rig.Spawn(t, lib.Name, s.Addr)
	a.Says("holds")
	start := time.Now()
	_ = a.Cmd.Process.Kill()
	next, err := peerOn(t, lib, s.Addr, rig.Long).Acquire(t.Context(), key, 10*time.Second)
	if err != nil {
		return result{no, "kill -9: not free within 10 s (TTL 2 s)"}
	}
	d := time.Since(start)
	_ = next.Release(t.Context())
	return result{parts, fmt.Sprintf("kill -9: free after %v (TTL 2 s); no shutdown that waits for holders", round(d))}
}

func peerLeaves(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	a, b := peerOn(t, lib, s.Addr, 10*time.Second), peerOn(t, lib, s.Addr, 10*time.Second)
	warmUp(t, b)
	stuck, gone := 0, 0
	for i := range 40 {
		k := fmt.Sprint(key, i)
		held := take(t, a, k)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { // ends with ctx
			l, err := b.Acquire(ctx, k, rig.Long)
			if err == nil {
				_ = l.Release(t.Context())
			}
			done <- err
		}()
		time.Sleep(30 * time.Millisecond)
		leave := time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
		_ = held.Release(t.Context())
		if err := <-done; err != nil {
			gone++
		}
		if l, err := a.Acquire(t.Context(), k, time.Second); err == nil {
			_ = l.Release(t.Context())
		} else {
			stuck++
		}
		leave.Stop()
		cancel()
	}
	return result{kept(stuck == 0), fmt.Sprintf("%d of 40 waiters left around their turn; %d keys stayed taken for "+
		"more than a second", gone, stuck)}
}

func peerHerd(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	const processes, waiters = 4, 50
	var wg sync.WaitGroup
	var turns atomic.Int64
	ls := make([]libs.Locker, processes)
	for i := range ls {
		ls[i] = peerOn(t, lib, s.Addr, 10*time.Second)
		warmUp(t, ls[i])
	}
	held := take(t, ls[0], key)
	rdb.ConfigResetStat(t.Context())
	start := time.Now()
	for _, l := range ls {
		for range waiters {
			wg.Go(func() {
				if held, err := l.Acquire(t.Context(), key, rig.Long); err == nil {
					turns.Add(1)
					_ = held.Release(t.Context())
				}
			})
		}
	}
	time.Sleep(time.Second)
	waiting := commands(t, s)
	_ = held.Release(t.Context())
	wg.Wait()
	all := commands(t, s)
	return result{
		kept(all < 20*processes*waiters && waiting < 100*processes),
		fmt.Sprintf("%d processes with %d waiters each: %d requests in a second of waiting, %d for "+
			"%d turns in %v", processes, waiters,
			waiting, all-waiting, turns.Load(), round(time.Since(start))),
	}
}

// commands returns the number of commands that the server has processed since
// its counters were reset.
func commands(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	info, _ := s.Do(t.Context(), "info", "stats").Text()
	_, rest, _ := strings.Cut(info, "total_commands_processed:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

func peerKeys(t *testing.T, lib *libs.Library) result {
	t.Helper()
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	l := peerOn(t, lib, s.Addr, rig.Long)
	warmUp(t, l)
	before := rig.Running(t.Name())
	for i := range 2000 {
		_ = take(t, l, fmt.Sprint("used", i)).Release(t.Context())
	}
	time.Sleep(time.Second)
	keys, idle := rdb.DBSize(t.Context()).Val(), rig.Running(t.Name())
	var leases []libs.Lease
	for i := range 200 {
		leases = append(leases, take(t, l, fmt.Sprint("held", i)))
	}
	most := rig.Running(t.Name())
	for _, held := range leases {
		_ = held.Release(t.Context())
	}
	return result{
		kept(keys == 0 && idle < before+20),
		fmt.Sprintf("after 2000 keys: %d goroutines more, %d keys on the server; %d goroutines for 200 held keys",
			max(idle-before, 0), keys, max(most-idle, 0)),
	}
}

func peerGone(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	l := peerOn(t, lib, n.Addr, rig.Long)
	warmUp(t, l)
	n.DelayReplies(100 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	leave := time.AfterFunc(50*time.Millisecond, cancel)
	defer leave.Stop()
	held, err := l.Acquire(ctx, key, 0)
	n.DelayReplies(0)
	if err == nil {
		_ = held.Release(t.Context())
		return result{parts, "granted to a caller who had left"}
	}
	time.Sleep(2 * time.Second)
	if locked(t, n.direct, lib, key) {
		return result{no, brief(err) + ", and the key is left for its TTL"}
	}
	return result{yes, brief(err) + "; the key is free"}
}

func peerClose(t *testing.T, lib *libs.Library) result {
	t.Helper()
	n := peerNetwork(t)
	before := rig.Running(t.Name())
	for range 5 {
		l, err := lib.Open(libs.Setup{Addrs: []string{n.server.Addr}, TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			_ = take(t, l, fmt.Sprint(key, i)).Release(t.Context())
		}
		_ = l.Close(t.Context())
	}
	time.Sleep(2 * time.Second)
	left := max(rig.Running(t.Name())-before, 0)
	if left > 0 {
		t.Logf("left:\n%s", strings.Join(rig.Goroutines(t.Name()), "\n\n"))
	}
	conns := strings.Count(n.direct.ClientList(t.Context()).Val(), "\n") - 1
	return result{
		kept(left == 0 && conns <= 0),
		fmt.Sprintf("5 opened and closed: %d goroutines and %d connections are left", left, max(conns, 0)),
	}
}
