package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A torture is a minute of virtual time in which callers on two processes come, wait, leave, hang and panic, one process
// closes and is replaced, and the store fails, hangs and loses answers and wake-ups. It keeps the book of who may believe
// to hold what.
type torture struct {
	forgets bool // the store also loses keys, as in a failover: then only the fencing tokens keep order

	mu         sync.Mutex
	inside     map[string]int    // functions that run under a context which has not ended
	newest     map[string]uint64 // the last fencing token
	ran        int
	violations []string
}

func newTorture() *torture { return &torture{inside: map[string]int{}, newest: map[string]uint64{}} }

func (tt *torture) enter(key string) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.ran++
	if tt.inside[key]++; tt.inside[key] > 1 && !tt.forgets {
		tt.violations = append(tt.violations, "two at once on "+key)
	}
}

// token notes the token of a turn that has just begun. Where the store forgets keys, a turn may begin late, with a token
// that the resource would refuse; but no two have the same.
func (tt *torture) token(key string, token uint64) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if tt.forgets {
		key = fmt.Sprint(key, token)
	}
	if token <= tt.newest[key] {
		tt.violations = append(tt.violations, fmt.Sprintf("token %d of %s after %d", token, key, tt.newest[key]))
	}
	tt.newest[key] = token
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
	s.acquire = func(ctx context.Context, _ *locker.Claim, next func() (locker.Answer, error)) (locker.Answer, error) {
		lost, late := trouble()
		answer, err := next()
		wait(ctx, late)
		if lost || ctx.Err() != nil {
			return locker.Answer{Queued: true}, guard.ErrUnavailable
		}
		return answer, err
	}
	s.release = func(ctx context.Context, next func() (locker.Released, error)) (locker.Released, error) {
		lost, late := trouble()
		wait(ctx, late)
		freed, err := next()
		if lost {
			return locker.Released{}, guard.ErrUnavailable
		}
		return freed, err
	}
	return s
}

// forgetful loses half of the messages that a locker has for its gate.
type forgetful struct {
	locker.Waker
	keeps func() bool
}

func (f forgetful) Granted(key, owner string, token uint64, waiting int) bool {
	return !f.keeps() || f.Waker.Granted(key, owner, token, waiting)
}

type losesHalf struct{ guard.Locker }

func (l losesHalf) Open(w locker.Waker) error {
	return l.Locker.Open(forgetful{w, func() bool { return rand.IntN(2) == 0 }})
}

func (tt *torture) run(t *testing.T, seed uint64, sabotage func(guard.Locker) guard.Locker) {
	t.Helper()
	mem := memlocker.New()
	open := func(l guard.Locker) *guard.Guard {
		l = unreliable(l, rand.New(rand.NewPCG(seed, 1)))
		if sabotage != nil {
			l = sabotage(l)
		}
		return newGuard(t, losesHalf{l}, guard.WithTTL(2*time.Second), guard.WithMaxHold(5*time.Second), guard.WithFencing())
	}
	guards := [2]atomic.Pointer[guard.Guard]{}
	guards[0].Store(open(mem))
	guards[1].Store(open(mem.Peer()))
	end := time.Now().Add(time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(rand.N(4 * time.Second))
			mend := mem.Break()
			time.Sleep(rand.N(3 * time.Second))
			mend()
			if tt.forgets {
				mem.Lose("a")
			}
		}
	})
	wg.Go(func() { // one process is replaced by another, now and then
		for time.Now().Before(end) {
			time.Sleep(rand.N(20 * time.Second))
			old := guards[1].Swap(open(mem.Peer()))
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(10*time.Second))
			_ = old.Close(ctx)
			cancel()
		}
	})
	for n := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		wg.Go(func() {
			for time.Now().Before(end) {
				tt.call(guards[n%2].Load(), r)
			}
		})
	}
	wg.Wait()
	for i := range guards { // nothing may be left that keeps a key beyond its TTL
		g := guards[i].Load().With(guard.WithMaxWait(10 * time.Second))
		for _, k := range []string{"a", "b"} {
			if err := g.Do(t.Context(), k, nop); err != nil && !errors.Is(err, guard.ErrUnavailable) {
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
		if token, err := guard.FencingToken(ctx); err == nil {
			tt.token(key, token)
		}
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
				tt := newTorture()
				tt.forgets = seed%4 == 3
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

func (s shortLived) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	short := *c
	short.TTL /= 4
	return s.Locker.Acquire(ctx, &short, t)
}

// deaf says that renewals worked without sending them.
type deaf struct{ guard.Locker }

func (deaf) Renew(_ context.Context, cs []*locker.Claim, answered func(int, error)) {
	for i := range cs {
		answered(i, nil)
	}
}

// repeats gives the same block of tokens for a second.
type repeats struct{ guard.Locker }

func (r repeats) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	answer, err := r.Locker.Acquire(ctx, c, t)
	answer.Token = answer.Token / 1_000_000 * 1_000_000
	return answer, err
}

func TestTortureNoticesABrokenLocker(t *testing.T) {
	for name, sabotage := range map[string]func(guard.Locker) guard.Locker{
		"keys expire early": func(l guard.Locker) guard.Locker { return shortLived{l} },
		"renewals are lost": func(l guard.Locker) guard.Locker { return deaf{l} },
		"tokens repeat":     func(l guard.Locker) guard.Locker { return repeats{l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt := newTorture()
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
