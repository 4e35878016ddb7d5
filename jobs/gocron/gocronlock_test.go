package gocronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	"github.com/go-lockguard/guard/internal/testguard"
	gocronlock "github.com/go-lockguard/guard/jobs/gocron"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both are what gocron asks for.
var (
	_ gocron.Locker  = (*gocronlock.Locker)(nil)
	_ gocron.Elector = (*gocronlock.Elector)(nil)
)

// ticks counts the runs of each tick by instance.
type ticks struct {
	start time.Time
	mu    sync.Mutex // guards runs
	runs  map[int][]string
}

func newTicks() *ticks { return &ticks{start: time.Now(), runs: map[int][]string{}} }

// job returns a job of an instance.
func (ts *ticks) job(instance string) func() {
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		n := int(time.Since(ts.start).Round(time.Second) / time.Second)
		ts.runs[n] = append(ts.runs[n], instance)
	}
}

// expect fails the test unless tick i of 1 to n ran once, on the instance that
// on names.
func (ts *ticks) expect(t *testing.T, n int, on func(i int) string) {
	t.Helper()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i := 1; i <= n; i++ {
		if runs := ts.runs[i]; len(runs) != 1 || runs[0] != on(i) {
			t.Errorf("tick %d ran on %v, want once on %q", i, runs, on(i))
		}
	}
}

func newGuard(t *testing.T, l guard.Locker) *guard.Guard {
	t.Helper()
	return testguard.Patient(t, l)
}

// schedule starts an instance with one job every second.
func schedule(t *testing.T, distributed gocron.SchedulerOption, job func()) (stop func()) {
	t.Helper()
	s, err := gocron.NewScheduler(distributed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), gocron.WithName("tick"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Second))))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	return func() { _ = s.Shutdown() }
}

func TestAnElectorHasOneInstanceRunAllAndTheNextFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, ts := memlocker.New(), newTicks()
		stand := func(l guard.Locker, instance string) (leave func()) {
			e := gocronlock.NewElector(newGuard(t, l), "scheduler")
			if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
				t.Errorf("before the election: got %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error)
			go func() { over <- e.Lead(ctx) }() // ends with ctx
			stop := schedule(t, gocron.WithDistributedElector(e), ts.job(instance))
			synctest.Wait()
			return func() {
				stop()
				cancel()
				if err := <-over; !errors.Is(err, context.Canceled) {
					t.Errorf("the election ends with %v", err)
				}
				if e.IsLeader(t.Context()) == nil {
					t.Error("it leads when the election is over")
				}
			}
		}
		leaveA := stand(mem, "a")
		leaveB := stand(mem.Peer(), "b")
		time.Sleep(100*time.Second + 500*time.Millisecond)
		leaveA()
		time.Sleep(100 * time.Second)
		leaveB()
		ts.expect(t, 200, func(i int) string { return map[bool]string{true: "a", false: "b"}[i <= 100] })
	})
}

func TestALeaderWhoseLeaseIsLostDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, guard.WithLogger(slog.New(slog.DiscardHandler)))
		e := gocronlock.NewElector(g.Guard, "scheduler")
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- e.Lead(ctx) }() // ends with ctx
		synctest.Wait()
		if err := e.IsLeader(ctx); err != nil {
			t.Errorf("elected: got %v", err)
		}
		g.Lose("scheduler")
		g.Hold("scheduler")          // or it is elected again
		time.Sleep(10 * time.Second) // a renewal notices
		synctest.Wait()
		if err := e.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("the lease is lost: got %v", err)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("the election ends with %v", err)
		}
	})
}

func TestASkippedRunIsTold(t *testing.T) {
	var log bytes.Buffer
	w := &jobtest.Waits{}
	g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), guard.WithName("reports"),
		guard.WithObserver(w))
	l := gocronlock.NewLocker(g.Guard)
	release := g.Hold("job:report")
	if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, guard.ErrNotAcquired) {
		t.Errorf("held: got %v", err)
	}
	jobtest.ExpectLog(t, &log, "level=INFO", "tick skipped: the job runs elsewhere", "guard=reports", "job=report",
		"key_hash="+guard.KeyHash("job:report"))
	release()
	mend := g.Break()
	defer mend()
	if _, err := l.Lock(t.Context(), "report"); !errors.Is(err, guard.ErrUnavailable) {
		t.Errorf("no answer: got %v", err)
	}
	jobtest.ExpectLog(t, &log, "level=WARN", "tick skipped: nobody knows", "unavailable")
	if _, err := l.Lock(t.Context(), ""); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("no name: got %v", err)
	}
	if len(w.Errs) < 2 || !errors.Is(w.Errs[0], guard.ErrNotAcquired) || !errors.Is(w.Errs[1], guard.ErrUnavailable) {
		t.Errorf("the observer was told %v", w.Errs)
	}
}

func TestAJobKeepsItsKeyUntilItReturnsAndForMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		g, other := newGuard(t, mem), newGuard(t, mem.Peer())
		free := func() bool {
			ran, err := other.TryDo(t.Context(), "job:report", func(context.Context) error { return nil })
			return ran && err == nil
		}
		for _, c := range []struct {
			set         []guard.Option
			took, until time.Duration // the job's time, and until when the key stays taken
		}{
			{nil, time.Millisecond, 500 * time.Millisecond},
			{nil, time.Hour, time.Hour}, // beyond MaxHold
			{[]guard.Option{guard.WithMinHold(time.Minute)}, time.Second, time.Minute},
		} {
			l, err := gocronlock.NewLocker(g.With(c.set...)).Lock(t.Context(), "report")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.took - time.Microsecond)
			if free() {
				t.Errorf("%v: free while the job runs", c)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel() // as at gocron's Shutdown
			if err := l.Unlock(ended); err != nil {
				t.Errorf("%v: Unlock: %v", c, err)
			}
			time.Sleep(c.until - c.took - time.Millisecond)
			if c.until > c.took && free() {
				t.Errorf("%v: free too early", c)
			}
			time.Sleep(2 * time.Millisecond)
			if !free() {
				t.Errorf("%v: not free", c)
			}
		}
	})
}

func TestALostLeaseIsTheErrorOfUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		l, err := gocronlock.NewLocker(g.Guard).Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		g.Lose("job:report")
		time.Sleep(10 * time.Second) // a renewal notices
		synctest.Wait()
		jobtest.ExpectLog(t, &log, "level=ERROR", "lease lost")
		if err := l.Unlock(t.Context()); !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	})
}
