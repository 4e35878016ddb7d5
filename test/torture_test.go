package guard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/internal/testsize"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var tortureFor = flag.Duration("torture.for", 0,
	"how long to torture, by the clock on the wall, instead of a few seeds")

// A torture is a minute of virtual time with callers on two processes. The
// callers come, wait, leave, hang and panic. One process closes and is
// replaced. The store fails, hangs, refuses, and loses answers and messages.
//
// A torture tells the judge which callers may believe that they hold which keys.
// A calm torture has a sound store. It also records keys that are free while a
// caller waits.
type torture struct {
	calm    bool
	forgets bool // the store also loses keys, as in a failover; then only fencing tokens keep order
	fault   func(guard.Locker) guard.Locker

	mu         sync.Mutex                      // guards the fields below
	inside     map[string]*judge.Floor[*visit] // under a context that has not ended
	left       map[string]time.Time            // when the last of them ended
	newest     map[string]uint64               // the last fencing token
	ran        int
	violations []string
}

func newTorture() *torture {
	return &torture{
		inside: map[string]*judge.Floor[*visit]{}, left: map[string]time.Time{}, newest: map[string]uint64{},
	}
}

// floor returns where those are who have key. mu is held.
func (tt *torture) floor(key string) *judge.Floor[*visit] {
	f := tt.inside[key]
	if f == nil {
		f = &judge.Floor[*visit]{}
		tt.inside[key] = f
	}
	return f
}

// enter notes that a function begins. The function has wanted key since then.
// The zero time says that the moment is not known.
func (tt *torture) enter(v *visit, key string, since time.Time) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.ran++
	if n, most := tt.floor(key).Enter(v); n > most && !tt.forgets {
		tt.violations = append(tt.violations, "two at once on "+key)
	}
	if left := tt.left[key]; left.After(since) {
		if since.IsZero() {
			return
		}
		since = left
	}
	if idle := time.Since(since); tt.calm && !since.IsZero() && idle > 20*leisure {
		tt.violations = append(tt.violations, fmt.Sprintf("%s was free for %v while somebody waited", key, idle))
	}
}

// token notes the token of a turn that has just begun. Where the store forgets
// keys, a turn may begin late, with a token that the resource would refuse. But
// no two turns have the same token.
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

func (tt *torture) leave(v *visit, key string) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.floor(key).Leave(func(g *visit) bool { return g == v })
	tt.left[key] = time.Now()
}

func (tt *torture) violation(format string, args ...any) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.violations = append(tt.violations, fmt.Sprintf(format, args...))
}

// open makes a process: a guard on l, with the network between them.
func (tt *torture) open(t *testing.T, l guard.Locker, seed uint64) *guard.Guard {
	t.Helper()
	d := newDice(seed, 1)
	if tt.fault != nil {
		l = tt.fault(l)
	}
	if tt.calm {
		l = &leisurely{Locker: l, d: d}
	} else {
		l = losesHalf{unreliable(l, d), d}
	}
	return newGuard(t, l, guard.WithTTL(2*time.Second), guard.WithMaxHold(5*time.Second), guard.WithFencing())
}

func (tt *torture) run(t *testing.T, seed uint64) {
	t.Helper()
	// Some requests are still held up when everything is closed.
	t.Cleanup(func() { time.Sleep(10 * time.Second) })
	mem := memlocker.New()
	guards := [2]atomic.Pointer[guard.Guard]{}
	guards[0].Store(tt.open(t, mem, seed))
	guards[1].Store(tt.open(t, mem.Peer(), seed))
	end := time.Now().Add(time.Minute)
	var wg sync.WaitGroup
	if !tt.calm {
		wg.Go(func() { tt.breakStore(mem, newDice(seed, 2), end) })
		wg.Go(func() { // one process is replaced by another, now and then
			for d := newDice(seed, 3); time.Now().Before(end); {
				time.Sleep(d.upTo(20 * time.Second))
				old := guards[1].Swap(tt.open(t, mem.Peer(), seed))
				ctx, cancel := context.WithTimeout(t.Context(), d.upTo(10*time.Second))
				_ = old.Close(ctx)
				cancel()
			}
		})
	}
	for n := range 12 {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		wg.Go(func() {
			for time.Now().Before(end) {
				over := make(chan struct{})
				go func() { // a goroutine of its own, for Goexit
					defer close(over)
					tt.visit(guards[n%2].Load(), r)
				}()
				<-over
			}
		})
	}
	wg.Wait()
	for i := range guards { // nothing must keep a key beyond its TTL
		g := guards[i].Load().With(guard.WithMaxWait(10 * time.Second))
		for _, k := range tortured {
			err := g.Do(t.Context(), k, nop)
			if err != nil && !errors.Is(err, guard.ErrUnavailable) && !errors.Is(err, guard.ErrLeaseLost) {
				tt.violation("%s was left: %v", k, err)
			}
		}
	}
}

func (tt *torture) breakStore(mem *memlocker.Locker, d *dice, end time.Time) {
	for time.Now().Before(end) {
		time.Sleep(d.upTo(4 * time.Second))
		mend := mem.Break()
		time.Sleep(d.upTo(3 * time.Second))
		mend()
		if tt.forgets {
			mem.Lose("a")
		}
	}
}

// tortureOnce runs one seed and returns how many functions ran.
func tortureOnce(t *testing.T, seed uint64) (ran int) {
	t.Helper()
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tt := newTorture()
			tt.forgets, tt.calm = seed%4 == 3, seed%4 == 2
			tt.run(t, seed)
			for _, v := range tt.violations {
				t.Error(v)
			}
			if ran = tt.ran; ran < 100 {
				t.Errorf("only %d functions ran", ran)
			}
		})
	})
	return ran
}

func TestTorture_NeverBreaksAPromise(t *testing.T) {
	t.Parallel()
	sections, seed := 0, uint64(0)
	seeds := testsize.Pick[uint64](20, 4) // the store is calm with seed 2, and forgets with seed 3
	for start := time.Now(); seed < seeds || time.Since(start) < *tortureFor; seed++ {
		sections += tortureOnce(t, seed)
	}
	t.Logf("seeds 0 to %d, %d sections", seed-1, sections)
}
