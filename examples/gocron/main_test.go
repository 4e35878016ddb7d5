package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ticks counts the runs of each tick by instance.
type ticks struct {
	start time.Time
	mu    sync.Mutex // guards runs
	runs  map[int][]string
}

func (ts *ticks) job(instance string) func() {
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		n := int(time.Since(ts.start).Round(time.Second) / time.Second)
		ts.runs[n] = append(ts.runs[n], instance)
	}
}

func newGuard(t *testing.T, l guard.Locker) *guard.Guard {
	t.Helper()
	g, err := guard.New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}

// start starts an instance whose clock is late by so much.
func start(t *testing.T, late time.Duration, distributed gocron.SchedulerOption, job func()) (stop func()) {
	t.Helper()
	s, err := schedule(distributed, time.Now().Add(time.Second+late), time.Second, job)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return func() { _ = s.Shutdown() }
}

func TestALockerHasEachTickRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		ts := &ticks{start: time.Now(), runs: map[int][]string{}}
		for late, l := range map[time.Duration]guard.Locker{0: mem, 100 * time.Millisecond: mem.Peer()} {
			once := newLocker(newGuard(t, l), 500*time.Millisecond)
			stop := start(t, late, gocron.WithDistributedLocker(once), ts.job("late by "+late.String()))
			defer stop()
		}
		time.Sleep(1000*time.Second + 500*time.Millisecond)
		ts.mu.Lock()
		defer ts.mu.Unlock()
		for n := 1; n <= 1000; n++ {
			if len(ts.runs[n]) != 1 {
				t.Errorf("tick %d ran on %v", n, ts.runs[n])
			}
		}
	})
}

func TestAnElectorHasOneInstanceRunAllAndTheNextFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		ts := &ticks{start: time.Now(), runs: map[int][]string{}}
		stand := func(l guard.Locker, instance string) (leave func()) {
			g, e := newGuard(t, l), new(elector)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = e.lead(ctx, g)
			}()
			stop := start(t, 0, gocron.WithDistributedElector(e), ts.job(instance))
			synctest.Wait()
			return func() { stop(); cancel(); <-done }
		}
		leaveA := stand(mem, "a")
		leaveB := stand(mem.Peer(), "b")
		time.Sleep(100*time.Second + 500*time.Millisecond)
		leaveA()
		time.Sleep(100 * time.Second)
		leaveB()
		ts.mu.Lock()
		defer ts.mu.Unlock()
		for n := 1; n <= 200; n++ {
			want := "a"
			if n > 100 {
				want = "b"
			}
			if len(ts.runs[n]) != 1 || ts.runs[n][0] != want {
				t.Errorf("tick %d ran on %v, want %s", n, ts.runs[n], want)
			}
		}
	})
}
