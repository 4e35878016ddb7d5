package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// instances are guards on one store. Each acts as a process of its own.
func instances(t *testing.T, n int, wrap func(guard.Locker) guard.Locker, opts ...guard.Option) []*guard.Guard {
	t.Helper()
	first := memlocker.New()
	gs := make([]*guard.Guard, n)
	for i := range gs {
		var l guard.Locker = first
		if i > 0 {
			l = first.Peer()
		}
		if wrap != nil {
			l = wrap(l)
		}
		gs[i] = newGuard(t, l, opts...)
	}
	return gs
}

// deafWaker loses every message that a locker has for its gate.
type deafWaker struct{ lockerkit.Deaf }

type losesMessages struct{ guard.Locker }

func (l losesMessages) Open(locker.Waker) error { return l.Locker.Open(deafWaker{}) }

func TestDo_InstancesShareAHotKeyFairly(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(guard.Locker) guard.Locker{
		"with wake-ups": nil,
		"messages lost": func(l guard.Locker) guard.Locker { return losesMessages{l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gs := instances(t, 4, wrap)
				turns := make([]float64, len(gs))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var wg sync.WaitGroup
				for i, g := range gs {
					for range 10 {
						wg.Go(func() { // a closed loop that comes back at once
							for ctx.Err() == nil {
								_ = g.Do(ctx, key, func(context.Context) error {
									turns[i]++
									time.Sleep(2 * time.Millisecond)
									return nil
								})
							}
						})
					}
				}
				wg.Wait()
				var sum, squares float64
				for _, n := range turns {
					sum += n
					squares += n * n
				}
				if jain := sum * sum / (float64(len(turns)) * squares); jain < 0.9 {
					t.Errorf("Jain's index over instances is %.2f: %v", jain, turns)
				}
				least := 25_000.0            // of 30,000
				if name == "messages lost" { // 10 turns, and then half a pause until the next one looks
					least = 4_000
				}
				if sum < least {
					t.Errorf("%.0f turns of 2 ms in a minute", sum)
				}
			})
		})
	}
}

// A lease that ran past MaxHold is freed in the background when its function
// returns. Its successor waits behind the key of its own process. The release
// must not cost the successor its place in the queue.
func TestDo_ASuccessorIsWokenWhenALostLeasesFunctionReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Miniredis(t)
		g := newGuard(t, redislocker.New(rdb), guard.WithMaxHold(200*time.Millisecond), guard.WithTTL(20*time.Second),
			guard.WithMaxWait(10*time.Second), guard.WithBackoff(5*time.Second, 10*time.Second))
		for range 5 {
			var returned time.Time
			held := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				_ = g.Do(t.Context(), key, func(context.Context) error {
					close(held)
					time.Sleep(600 * time.Millisecond) // deaf to its context
					returned = time.Now()
					return nil
				})
			})
			<-held
			err := g.Do(t.Context(), key, func(context.Context) error {
				if d := time.Since(returned); d > time.Second { // a poll would come after 5 s or more
					t.Errorf("the successor came %v after the function had returned", d)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			wg.Wait()
		}
	})
}
