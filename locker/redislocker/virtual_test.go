package redislocker_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// wire is a hook that lets a test decide the fate of each request.
type wire struct {
	mu    sync.Mutex
	fault func(deliver func() error) error // nil: none
	skip  int                              // requests before the first fault
	sent  int                              // requests
}

func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *wire) set(fault func(deliver func() error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	pipe := w.ProcessPipelineHook(func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	return func(ctx context.Context, c redis.Cmder) error { return pipe(ctx, []redis.Cmder{c}) }
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.mu.Lock()
		fault := w.fault
		if w.sent++; fault != nil && w.skip > 0 {
			w.skip--
			fault = nil
		}
		w.mu.Unlock()
		if fault == nil {
			return next(ctx, cmds)
		}
		var late []redis.Cmder // a copy arrives, and nobody hears the answer
		for _, c := range cmds {
			late = append(late, redis.NewCmd(context.WithoutCancel(ctx), c.Args()...))
		}
		err := fault(func() error { return next(context.WithoutCancel(ctx), late) })
		for _, c := range cmds {
			c.SetErr(err)
		}
		return err
	}
}

// loseReply delivers a request and loses its reply.
func loseReply(deliver func() error) error {
	_ = deliver()
	return &net.OpError{Op: "read", Err: context.DeadlineExceeded}
}

// loseRequest delivers nothing.
func loseRequest(func() error) error { return &net.OpError{Op: "read", Err: context.DeadlineExceeded} }

// inBubble runs test in virtual time, with a locker whose requests go over w.
func inBubble(t *testing.T, test func(t *testing.T, l *redislocker.Locker, w *wire, has func(key string) bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, rdb := redistest.Miniredis(t)
		w := &wire{}
		l := open(t, rdb, redislocker.WithHook(w))
		mustAcquire(t, l, claim("warm"))
		mustAcquire(t, l, fenced("warm too"))
		_, _ = l.Release(t.Context(), claim("warm three"), locker.End{Queued: true})
		time.Sleep(time.Minute)
		test(t, l, w, func(key string) bool { synctest.Wait(); return m.Exists(lock(key)) })
	})
}

// A waiter that cannot be told yet finds the key by itself. A release hands the
// key to such a waiter even if it comes within the millisecond in which the
// waiter came.
func TestAReleaseInTheSameMillisecondPassesOverNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		l := open(t, rdb)
		c, next := claim("k"), claim("k")
		mustAcquire(t, l, c)
		time.Sleep(1500 * time.Microsecond)
		queue(t, l, next)
		first := rdb.ZRangeWithScores(t.Context(), line("k"), 0, 0).Val()[0]
		entry, _ := first.Member.(string)
		deaf := "l" + entry[1:6+22] + strings.Repeat("x", 22) + entry[6+22+22:]
		rdb.ZRem(t.Context(), line("k"), entry)
		rdb.ZAdd(t.Context(), line("k"), redis.Z{Score: first.Score, Member: deaf})
		release(t, l, c, nil, locker.Released{Waiting: 1, Handed: true})
	})
}

// The places in a queue are ahead of a clock that was set back. How long ago a
// claim was seen is known all the same.
func TestAClockThatStepsBackPassesOverNobodyAndKeepsNoDeadClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		l := open(t, rdb)
		ahead := func(c *locker.Claim, head string) {
			t.Helper()
			queue(t, l, c)
			entry := lineUp(t, rdb, c.Key)[0]
			deaf := head + entry[1:6+22] + strings.Repeat("x", 22) + entry[6+22+22:]
			rdb.ZRem(t.Context(), line(c.Key), entry)
			place := float64(time.Now().Add(time.Hour).UnixMicro())
			rdb.ZAdd(t.Context(), line(c.Key), redis.Z{Score: place, Member: deaf})
		}
		c := claim("alive")
		mustAcquire(t, l, c)
		ahead(claim("alive"), "l")
		release(t, l, c, nil, locker.Released{Waiting: 1, Handed: true})

		mustAcquire(t, l, limited("dead", 3))
		ahead(claim("dead"), "m")
		c, how := limited("dead", 3), locker.Try{Wait: true}
		for range 10 { // the queue does not end while others look
			time.Sleep(locker.LookEvery)
			a, _ := l.Acquire(t.Context(), c, how)
			if a.Acquired {
				return
			}
			how.Queued, how.Place = a.Queued, a.Place
		}
		t.Error("a claim that was not seen for 5 s keeps others from the key")
	})
}
