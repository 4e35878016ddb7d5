package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A torture is a minute of virtual time in which callers on two processes come, wait, leave, hang and panic, while the
// store fails, hangs and loses answers. It keeps the book of who may believe to hold what.
type torture struct {
	mu         sync.Mutex
	inside     map[string]int // functions that run under a context which has not ended
	ran        int
	violations []string
}

func (tt *torture) enter(key string) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.ran++
	if tt.inside[key]++; tt.inside[key] > 1 {
		tt.violations = append(tt.violations, "two at once on "+key)
	}
}

func (tt *torture) leave(key string) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.inside[key]--
}

func (tt *torture) violation(format string, args ...any) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.violations = append(tt.violations, fmt.Sprintf(format, args...))
}

// unreliable is a locker whose answers get lost or come late.
func unreliable(l guard.Locker, r *rand.Rand) *spy {
	var mu sync.Mutex
	trouble := func() (lost bool, late time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(20) == 0 {
			late = time.Duration(r.IntN(3000)) * time.Millisecond
		}
		return r.IntN(20) == 0, late
	}
	s := &spy{Locker: l}
	wait := func(ctx context.Context, d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	s.acquire = func(ctx context.Context, _ *guard.Claim, next func() (uint64, error)) (uint64, error) {
		lost, late := trouble()
		token, err := next()
		wait(ctx, late)
		if lost || ctx.Err() != nil {
			return 0, guard.ErrUnavailable
		}
		return token, err
	}
	s.release = func(ctx context.Context, next func() (guard.Freed, error)) (guard.Freed, error) {
		lost, late := trouble()
		wait(ctx, late)
		freed, err := next()
		if lost {
			return guard.Freed{}, guard.ErrUnavailable
		}
		return freed, err
	}
	return s
}

func (tt *torture) run(t *testing.T, seed uint64, sabotage func(guard.Locker) guard.Locker) {
	t.Helper()
	mem := memlocker.New()
	guards := make([]*guard.Guard, 2)
	for i, l := range []guard.Locker{mem, mem.Peer()} {
		l = unreliable(l, rand.New(rand.NewPCG(seed, uint64(i+1))))
		if sabotage != nil {
			l = sabotage(l)
		}
		guards[i] = newGuard(t, l, guard.WithTTL(2*time.Second), guard.WithMaxHold(5*time.Second))
	}
	end := time.Now().Add(time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(rand.N(4 * time.Second))
			mend := mem.Break()
			time.Sleep(rand.N(3 * time.Second))
			mend()
		}
	})
	for n := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		wg.Go(func() {
			for time.Now().Before(end) {
				tt.call(guards[n%2], r)
			}
		})
	}
	wg.Wait()
	for _, g := range guards { // nothing may be left that keeps a key beyond its TTL
		for _, k := range []string{"a", "b"} {
			if err := g.With(guard.WithMaxWait(10*time.Second)).Do(t.Context(), k, nop); err != nil &&
				!errors.Is(err, guard.ErrUnavailable) {
				tt.violation("%s was left: %v", k, err)
			}
		}
	}
}

// call is one caller's visit.
func (tt *torture) call(g *guard.Guard, r *rand.Rand) {
	key := []string{"a", "b"}[r.IntN(2)]
	wait := time.Duration(r.IntN(3000)) * time.Millisecond
	work := time.Duration(r.IntN(50)) * time.Millisecond
	if r.IntN(20) == 0 {
		work = time.Duration(r.IntN(8000)) * time.Millisecond
	}
	stubborn, panics, nests := r.IntN(10) == 0, r.IntN(30) == 0, r.IntN(5) == 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(5) == 0 {
		time.AfterFunc(time.Duration(r.IntN(1000))*time.Millisecond, cancel)
	}
	ctxEnded := func() bool { return ctx.Err() != nil }
	defer func() { _ = recover() }()
	start := time.Now()
	waited := func() {
		if d := time.Since(start); d > max(wait, 500*time.Millisecond)+50*time.Millisecond && !ctxEnded() {
			tt.violation("waited %v of %v", d, wait)
		}
	}
	err := g.With(guard.WithMaxWait(wait)).Do(ctx, key, func(ctx context.Context) error {
		waited()
		tt.enter(key)
		leave := sync.OnceFunc(func() { tt.leave(key) })
		defer leave()
		stop := context.AfterFunc(ctx, leave) // from here on it does not believe to hold the key
		defer stop()
		if nests {
			_ = g.Do(ctx, key, nop)
		}
		select {
		case <-time.After(work):
		case <-ctx.Done():
			if stubborn {
				time.Sleep(work)
			}
		}
		if panics {
			panic("torture")
		}
		return nil
	})
	if errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, guard.ErrUnavailable) {
		waited()
	}
	if err != nil {
		time.Sleep(time.Millisecond)
	}
}

func TestTortureNeverBreaksAPromise(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt := &torture{inside: map[string]int{}}
				tt.run(t, seed, nil)
				for _, v := range tt.violations {
					t.Error(v)
				}
				if tt.ran < 100 {
					t.Errorf("only %d functions ran", tt.ran)
				}
			})
		})
	}
}

// shortLived drops keys after a quarter of their TTL, before the first renewal, as a store whose clock runs fast would.
type shortLived struct{ guard.Locker }

func (s shortLived) Acquire(ctx context.Context, c *guard.Claim) (uint64, error) {
	short := *c
	short.TTL /= 4
	return s.Locker.Acquire(ctx, &short)
}

// deaf says that renewals worked without sending them.
type deaf struct{ guard.Locker }

func (deaf) Renew(_ context.Context, cs []*guard.Claim) []error { return make([]error, len(cs)) }

func TestTortureNoticesABrokenLocker(t *testing.T) {
	for name, sabotage := range map[string]func(guard.Locker) guard.Locker{
		"keys expire early": func(l guard.Locker) guard.Locker { return shortLived{l} },
		"renewals are lost": func(l guard.Locker) guard.Locker { return deaf{l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt := &torture{inside: map[string]int{}}
				for seed := range uint64(10) {
					tt.run(t, seed, sabotage)
				}
				if len(tt.violations) == 0 {
					t.Error("went unnoticed")
				}
			})
		})
	}
}
