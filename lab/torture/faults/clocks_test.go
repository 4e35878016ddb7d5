package faults

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Clocks that are wrong. The tests shift the clocks of servers. A client's own
// clock cannot be set here without setting the clock of all processes. So row
// 12 and half of row 13 are unit tests of the deadline: go test -race -run
// Fault ./internal/turns

// clocked starts a server whose clock can be shifted, by hours at once.
func clocked(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	s := redistest.StartWithClock(t)
	leavesNothing(t, s.Addr)
	return s, redistest.Client(t, s.Addr)
}

func shift(t *testing.T, s *redistest.Server, d time.Duration) {
	t.Helper()
	if err := s.ShiftClock(d); err != nil {
		t.Fatal(err)
	}
}

func TestFault13AClockThatIsHoursOffChangesNothing(t *testing.T) {
	begin(t)
	for _, off := range []time.Duration{6 * time.Second, time.Hour, -time.Hour} {
		s, rdb := clocked(t)
		shift(t, s, off)
		said := &spoken{}
		opts := redislocker.WithHook(said)
		const ttl = 4 * time.Second
		var renewals renewed
		a := newGuardOn(t, redislocker.New(rdb, opts), guard.WithTTL(ttl), guard.WithFencing(), guard.WithMaxWait(long),
			guard.WithObserver(&renewals))
		b := newGuardOn(t, redislocker.New(rdb, opts), guard.WithTTL(ttl), guard.WithFencing(),
			guard.WithMaxWait(100*time.Millisecond))
		l := acquire(t, a, key)
		first := token(t, l)
		for renewals.Load() < 2 && l.Err() == nil {
			if _, err := b.Acquire(t.Context(), key); err == nil {
				t.Fatalf("%v off: another got it while it is held", off)
			}
			if left := rdb.PTTL(t.Context(), lock(key)).Val(); left > ttl || left <= 0 {
				t.Errorf("%v off: a TTL of %v", off, left)
			}
		}
		mustRelease(t, l)
		next := acquire(t, eager(b), key)
		if n := token(t, next); n <= first {
			t.Errorf("%v off: token %d after %d", off, n, first)
		}
		mustRelease(t, next)
		lines := said.all()
		if len(lines) < 10 {
			t.Errorf("it said only %q", lines)
		}
		for _, line := range lines {
			if absolute.MatchString(line) {
				t.Errorf("a time of the client's clock was sent: %s", line)
			}
		}
	}
	keeps(t, "nothing changes with clocks 6 s or an hour apart: no time of a client's clock is sent; a step is met "+
		"by the unit test of row 12")
}

// absolute matches the commands and options that take a time of day. They are
// whole words, because an owner id may contain one by chance.
var absolute = regexp.MustCompile(`(?i)\b(PXAT|EXAT|P?EXPIREAT)\b`)

func TestFault13AWordThatTakesATimeIsFound(t *testing.T) {
	begin(t)
	said := &spoken{}
	said.note(redis.NewCmd(t.Context(), "set", "k", "v", "PXAT", 1),
		redis.NewCmd(t.Context(), "eval", `redis.call("pexpireat")`),
		redis.NewCmd(t.Context(), "get", "ct9xPbEXATznr"))
	found := slices.DeleteFunc(said.all(), func(line string) bool { return !absolute.MatchString(line) })
	if len(found) != 2 {
		t.Errorf("found %q", found)
	}
}

// spoken is a hook that keeps all commands of a client.
type spoken struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (h *spoken) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *spoken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		h.note(c)
		return next(ctx, c)
	}
}

func (h *spoken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		h.note(cs...)
		return next(ctx, cs)
	}
}

func (h *spoken) note(cs ...redis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range cs {
		h.lines = append(h.lines, fmt.Sprintln(c.Args()...))
	}
}

func (h *spoken) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func TestFault14AServersClockAheadEndsALeaseThatIsToldSo(t *testing.T) {
	begin(t)
	s, rdb := clocked(t)
	const ttl = 6 * time.Second
	a, b := newGuard(t, rdb, guard.WithTTL(ttl), guard.WithFencing()),
		newGuard(t, rdb, guard.WithTTL(ttl), guard.WithFencing())
	l := acquire(t, a, key)
	first := token(t, l)
	shift(t, s, 30*time.Second)
	stepped := time.Now()
	next := acquire(t, b, key) // the key has gone
	if n := token(t, next); n <= first {
		t.Errorf("token %d after %d", n, first)
	}
	d := lostByRenewal(t, l, stepped)
	_ = l.Release(t.Context())
	if next.Err() != nil || !has(t, rdb, key) {
		t.Error("the first has released the key of the second")
	}
	mustRelease(t, next)
	keeps(t, "the first holder was told %v later, at its next renewal (TTL %v); the second has "+
		"the higher token", d, ttl)
}

func TestFault15AServersClockBehindStretchesLeasesButNoWaits(t *testing.T) {
	begin(t)
	s, rdb := clocked(t)
	a := newGuard(t, rdb, guard.WithTTL(10*time.Second))
	b := newGuard(t, rdb, guard.WithTTL(10*time.Second), guard.WithMaxWait(long), guard.WithFencing())
	l := acquire(t, a, key)
	first := token(t, l)
	shift(t, s, -90*time.Second)
	left := rdb.PTTL(t.Context(), lock(key)).Val()
	if left < 60*time.Second {
		t.Fatalf("the lease was not stretched: %v", left)
	}
	got := waits(t, b)
	queued(t, rdb)
	start := time.Now()
	rdb.Del(t.Context(), lock(key)) // without a message to waiters
	next := <-got
	d := took(t, "a waiter's look", start, poll)
	if n := token(t, next); n <= first {
		t.Errorf("token %d after %d", n, first)
	}
	_ = l.Release(t.Context())
	mustRelease(t, next)
	l = acquire(t, a, key)
	got = waits(t, b)
	queued(t, rdb)
	mustRelease(t, l)
	mustRelease(t, <-got)
	keeps(t, "a key of 10 s had %v left; a waiter found it free %v after it was, and tokens rise",
		left.Round(time.Second), d)
}

// Each step changes how long the waiting claims seem not to have been seen.
func TestFault15TurnsGoOnThoughTheServersClockSteps(t *testing.T) {
	begin(t)
	s, _ := clocked(t)
	gs := make([]*guard.Guard, 4)
	for i := range gs {
		gs[i] = on(t, s.Addr, guard.WithTTL(10*time.Second), guard.WithMaxWait(long), guard.WithFencing())
		warm(t, gs[i])
	}
	steps := []time.Duration{time.Second, 30 * time.Second, -90 * time.Second, time.Hour, 0}
	const span = time.Second
	var worst time.Duration
	judged(t, func() string {
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, step := range steps {
				time.Sleep(span)
				if err := s.ShiftClock(step); err != nil {
					t.Error(err)
				}
			}
		})
		began := time.Now()
		all := takeTurns(t, gs, nil, span*time.Duration(len(steps)+1))
		wg.Wait()
		worst = all.longest().Round(time.Millisecond)
		if worst > poll && timed(t, began) {
			return fmt.Sprintf("%v without a turn", worst)
		}
		for i, step := range steps {
			from := span * time.Duration(i+1)
			if all.rate(from, from+span) == 0 {
				return fmt.Sprintf("no turn after the step to %v", step)
			}
		}
		return ""
	})
	keeps(t, "processes that take turns on a key, while the clock is set by up to an hour in both directions: "+
		"%v without a turn at most", worst)
}
