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
	addr := redistest.Start(t).Addr
	for name, c := range map[string]struct {
		ttl  time.Duration
		open func(w locker.Waker) locker.Waker
	}{
		"a message":   {time.Hour, func(w locker.Waker) locker.Waker { return w }},
		"the renewal": {time.Second, func(w locker.Waker) locker.Waker { return unwanted{w} }},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Client(t, addr)
			g := newGuard(t, &told{redislocker.New(rdb), c.open}, guard.WithTTL(c.ttl), guard.WithMaxHold(0))
			other := onRedis(t, addr, guard.WithMaxWait(time.Minute))
			done := make(chan error, 1)
			held := must(other.Acquire(t.Context(), name))
			short := g.With(guard.WithMaxWait(time.Second)) // it connects first
			_, err := short.Acquire(t.Context(), name)      // hears from the first wait on
			wantErr(t, err, guard.ErrNotAcquired)
			wantErr(t, held.Release(t.Context()), nil)
			wantErr(t, g.Do(t.Context(), name, func(ctx context.Context) error {
				for len(rdb.PubSubChannels(t.Context(), "*inbox*").Val()) == 0 {
					time.Sleep(time.Millisecond)
				}
				go func() { done <- other.Do(t.Context(), name, nop) }()
				select {
				case <-guard.Wanted(ctx):
				case <-ctx.Done():
					t.Errorf("lost before it was told: %v", context.Cause(ctx))
				case <-time.After(time.Minute / 2):
					t.Error("not told")
				}
				return nil
			}), nil)
			wantErr(t, <-done, nil)
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
	commands := func(ask bool) (n int) {
		wantErr(t, g.Do(t.Context(), key, func(ctx context.Context) error {
			if ask {
				_ = guard.Wanted(ctx)
			}
			p.Reset()
			time.Sleep(2 * time.Second)
			n = p.RoundTrips()
			return nil
		}), nil)
		return n
	}
	var without, with int
	for range 3 { // a busy machine renews more often, or late
		without, with = commands(false), commands(true)
		if with > without && with <= 3*without {
			return
		}
	}
	t.Errorf("in 2 s of a TTL of 1 s: %d round trips without a call of Wanted, %d with one", without, with)
}

// A worker leads and works in batches. It ends after a batch if it is wanted,
// and inside one if its context ends.
type worker struct {
	batch   time.Duration
	started chan struct{}
	ended   time.Time
	cut     bool
}

func (w *worker) lead(ctx context.Context) error {
	wanted := guard.Wanted(ctx)
	close(w.started)
	for {
		select {
		case <-time.After(w.batch):
		case <-ctx.Done():
			w.ended, w.cut = time.Now(), true
			return nil
		}
		select {
		case <-wanted:
			w.ended = time.Now()
			return nil
		default:
		}
	}
}

// What a deploy costs: the time without a leader, and whether a batch of the
// old one was cut.
func TestAskLeader_OnRedisADeployCutsNoBatch(t *testing.T) {
	const ttl = 2 * time.Second
	addr := redistest.Start(t).Addr
	for _, c := range []struct {
		name string
		cut  bool
		most time.Duration // the gap
		stop func(p *redistest.Proxy, next *guard.Guard, key string, cancel func())
	}{
		{"asked", false, ttl / 2, func(_ *redistest.Proxy, next *guard.Guard, key string, _ func()) {
			if asked, err := next.AskLeader(t.Context(), key); !asked || err != nil {
				t.Errorf("AskLeader: %v, %v", asked, err)
			}
		}},
		{"its context ends", true, ttl / 2, func(_ *redistest.Proxy, _ *guard.Guard, _ string, cancel func()) {
			cancel()
		}},
		// As kill -9, it renews no more and releases nothing.
		{"it dies", true, 2 * ttl, func(p *redistest.Proxy, _ *guard.Guard, _ string, _ func()) { p.DropUp(true) }},
	} {
		key := c.name
		w := &worker{batch: 200 * time.Millisecond, started: make(chan struct{})}
		p := redistest.NewProxy(t, addr)
		old, next := onRedis(t, p.Addr, guard.WithTTL(ttl)), onRedis(t, addr, guard.WithTTL(ttl))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); _ = old.Lead(ctx, key, w.lead) }()
		<-w.started
		begun := make(chan time.Time, 1)
		leads, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_ = next.Lead(leads, key, func(ctx context.Context) error {
				begun <- time.Now()
				<-ctx.Done()
				return nil
			})
		}()
		waits := func() bool { s, err := next.Inspect(t.Context(), key); return err == nil && s.Waiting > 0 }
		for !waits() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(ttl / 2) // somewhere in a batch
		stopped := time.Now()
		c.stop(p, next, key, cancel)
		at := <-begun
		leave()
		cancel()
		<-left
		p.DropUp(false)
		<-over
		if w.cut {
			w.ended = stopped
		}
		gap := at.Sub(w.ended)
		t.Logf("%s: %v without a leader, a batch was cut: %v", c.name, gap.Round(10*time.Microsecond), w.cut)
		if w.cut != c.cut || gap > c.most {
			t.Errorf("%s: %v without a leader, want at most %v; cut: %v", c.name, gap, c.most, w.cut)
		}
	}
}
