package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The message of a call that begins to wait comes long before the renewal. One
// that nobody hears is made good by it. Who does not ask has no look.
func TestWanted_OnRedisComesByAMessageOrByTheRenewal(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	for name, c := range map[string]struct {
		ttl  time.Duration
		open func(w locker.Waker) locker.Waker
	}{
		"a message":   {time.Hour, func(w locker.Waker) locker.Waker { return w }},
		"the renewal": {time.Second, func(w locker.Waker) locker.Waker { return unwanted{w} }},
	} {
		t.Run(name, func(t *testing.T) {
			l := &told{redislocker.New(redistest.Client(t, p.Addr)), c.open}
			g, other := newGuard(t, l, guard.WithTTL(c.ttl), guard.WithMaxHold(0)), onRedis(t, p.Addr)
			err := g.Do(t.Context(), name, func(ctx context.Context) error {
				done := make(chan error)
				go func() { done <- other.With(guard.WithMaxWait(time.Minute)).Do(t.Context(), name, nop) }()
				select {
				case <-guard.Wanted(ctx):
				case <-ctx.Done():
					t.Errorf("lost before it was told: %v", context.Cause(ctx))
				case <-time.After(time.Minute):
					t.Error("not told")
				}
				go func() {
					if err := <-done; err != nil {
						t.Errorf("the call that waited: %v", err)
					}
					close(done)
				}()
				t.Cleanup(func() { <-done })
				return nil
			})
			wantErr(t, err, nil)
		})
	}
}

// told is a Redis whose messages pass through what open makes of the waker.
type told struct {
	*redislocker.Locker
	open func(w locker.Waker) locker.Waker
}

func (d *told) Open(w locker.Waker) error { return d.Locker.Open(d.open(w)) }

type unwanted struct{ locker.Waker }

func (unwanted) Wanted(string) {}

// Asking costs a look for each renewal, and nothing else.
func TestWanted_OnRedisCostsALookForEachRenewalWhereItIsAsked(t *testing.T) {
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	g := onRedis(t, p.Addr, guard.WithTTL(time.Second))
	trips := func(ask bool) (n, renewals int) {
		err := g.Do(t.Context(), key, func(ctx context.Context) error {
			p.Reset()
			if ask {
				_ = guard.Wanted(ctx)
			}
			time.Sleep(2 * time.Second)
			n = lockCommands(p)
			return nil
		})
		wantErr(t, err, nil)
		return n, n
	}
	without, _ := trips(false)
	with, _ := trips(true)
	t.Logf("%d commands without a call of Wanted, %d with one", without, with)
	if with > 2*without+2 || with <= without {
		t.Errorf("%d commands without a call of Wanted, %d with one: want one more for each renewal", without, with)
	}
}

// What a deploy costs: the time without a leader, and whether the work of the
// old one was cut.
func TestAskLeader_OnRedisADeployCutsNoBatch(t *testing.T) {
	const ttl, batch = 2 * time.Second, 300 * time.Millisecond
	addr := redistest.Start(t).Addr
	deploy := func(stop func(g *guard.Guard, cancel context.CancelFunc)) (gap time.Duration, whole bool) {
		ended, begun := make(chan time.Time, 1), make(chan time.Time, 1)
		started := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		old, next := onRedis(t, addr, guard.WithTTL(ttl)), onRedis(t, addr, guard.WithTTL(ttl))
		key := t.Name() + time.Now().String()
		go func() {
			_ = old.Lead(ctx, key, func(ctx context.Context) error {
				wanted := guard.Wanted(ctx)
				close(started)
				for {
					select {
					case <-time.After(batch):
						whole = true
					case <-ctx.Done():
						whole = false
					}
					select {
					case <-wanted:
					case <-ctx.Done():
					default:
						continue
					}
					ended <- time.Now()
					return nil
				}
			})
		}()
		<-started
		leads, leave := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			over <- next.Lead(leads, key, func(ctx context.Context) error {
				begun <- time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(2 * batch) // it stands
		go stop(next.With(), cancel)
		at := <-begun
		leave()
		<-over
		return at.Sub(<-ended), whole
	}
	for range 5 {
		asked, whole := deploy(func(g *guard.Guard, cancel context.CancelFunc) {
			defer cancel()
			// The key is that of the last election.
		})
		_, _ = asked, whole
	}
}
