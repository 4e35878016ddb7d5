package explore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// The scenarios: two or three processes that want the same keys.

const ms = time.Millisecond

func sims() []*sim {
	far := 150 * ms
	return []*sim{
		{name: "excl2", play: exclusive(2, 2, 0)},
		{name: "excl3", play: exclusive(3, 2, 0)},
		{name: "hold2", play: exclusive(2, 2, 4*time.Second)},
		{name: "hold3", play: exclusive(3, 1, 3*time.Second)},
		{name: "long", play: exclusive(2, 1, 14*time.Second)}, // than two TTLs
		{name: "apart", play: apart},
		{name: "handed", play: handed(7 * time.Second)},
		{name: "line", play: inLine},
		{name: "try", play: tryDo},
		{name: "minhold", play: minHold},
		{name: "norenewal", play: exclusive(2, 2, time.Second, guard.WithoutRenewal())},
		{name: "linger", hears: true, play: lingers},
		{name: "permits", play: permits},
		{name: "trypermits", far: 4 * ms, play: tryBeside(4, guard.WithPermits(4))},
		{name: "tryshared", far: 4 * ms, play: tryBeside(locker.NoLimit, guard.WithShared())},
		{name: "shared", play: shared},
		{name: "all", play: several(2)},
		{name: "three", play: threeAtOnce},
		{name: "allread", play: allBesideReader},
		{name: "once", play: onceAndForget(1)},
		{name: "once2", play: onceAndForget(2)},
		{name: "longonce", play: longOnce},
		{name: "atmostonce", play: onceAndForget(1, guard.WithAtMostOnce())},
		{name: "forget2", play: forgetTwice},
		{name: "joins", play: joins},
		{name: "keepfor", play: keepFor},
		{name: "fails", play: fails},
		{name: "wanted", slack: 10 * time.Second, play: wanted},
		{name: "leader", slack: 20 * time.Second, play: leaders},
		{name: "force", slack: 3 * time.Second, play: forces},
		{name: "forceshare", slack: 3 * time.Second, play: forcesShare},
		{name: "close", play: closes},
		{name: "closewriter", play: closesWriter},
		{name: "gaveup", play: gaveUp},
		{name: "inspect", slack: 3 * time.Second, play: looksIn},
		{name: "closing", play: closing},
		{name: "far2", far: far, play: exclusive(2, 2, 0)},
		{name: "farhold", far: far, play: exclusive(2, 1, 4*time.Second)},
		{name: "farheld", far: far, play: exclusive(2, 1, 4500*ms)},          // until between two looks
		{name: "farall", far: far, slack: 3 * time.Second, play: several(2)}, // a try waits for the cleanup of another
		{name: "farallears", far: far, slack: 10 * time.Second, only: isEars, play: several(4)},
		{name: "faronce", far: far, play: onceAndForget(1)},
		{name: "farpermits", far: far, play: permits},
		{name: "atreplica", only: isRedis, given: "B/subscribe=at-replica", play: handsOver},
		{name: "slowhand", only: seenLate, given: "A/swap-k#2=unseen-700ms", play: handsOver},
		{name: "replicas", waits: true, play: exclusive(2, 2, 0)},
		{name: "replicahold", waits: true, play: exclusive(2, 1, 4*time.Second)},
		{name: "replicahand", waits: true, ttl: 30 * time.Second, play: handed(12 * time.Second)},
	}
}

// each runs fn in n processes, which are A, B and so on.
func (s *scene) each(n int, fn func(ctx context.Context, g *guard.Guard, i int) error) {
	for i := range n {
		s.process(string(rune('A'+i)), func(ctx context.Context, g *guard.Guard) error { return fn(ctx, g, i) })
	}
}

// times calls fn so many times, or until it fails.
func times(n int, fn func() error) error {
	for range n {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// under runs the function of y under its key.
func (s *scene) under(ctx context.Context, g *guard.Guard, y stay) error {
	y.asked = time.Now()
	return g.Do(ctx, y.key, func(ctx context.Context) error { return s.do(ctx, y) })
}

func exclusive(n, often int, hold time.Duration, opts ...guard.Option) func(s *scene) {
	return func(s *scene) {
		s.each(n, func(ctx context.Context, g *guard.Guard, _ int) error {
			g = g.With(append(opts, guard.WithFencing())...)
			return times(often, func() error { return s.under(ctx, g, stay{key: "k", hold: hold, fence: true}) })
		})
	}
}

// minHold: the guards are closed when no key is kept any more.
func minHold(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
		defer time.Sleep(400 * ms)
		g = g.With(guard.WithMinHold(300*ms), guard.WithFencing())
		return times(2, func() error { return s.under(ctx, g, stay{key: "k", fence: true}) })
	})
}

// apart: A has had the key for some time when B comes.
func apart(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		time.Sleep(time.Duration(i) * simTTL)
		return s.under(ctx, g, stay{key: "k", hold: simTTL / 2})
	})
}

// handed: A has the key, B gets it by an offer and stays, C wants it.
func handed(hold time.Duration) func(s *scene) {
	return func(s *scene) {
		holds := []time.Duration{time.Second, hold, 0}
		s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
			time.Sleep(time.Duration(i) * 100 * ms)
			return s.under(ctx, g, stay{key: "k", hold: holds[i]})
		})
	}
}

// inLine: two calls in each process, one of which gives up early, so that there
// are hand-offs and lines.
func inLine(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
		g = g.With(guard.WithFencing())
		ended := make(chan error, 2)
		for n := range 2 {
			go func() {
				ctx, cancel := context.WithTimeout(ctx, time.Duration(100+1000*n)*ms)
				defer cancel()
				err := s.under(ctx, g, stay{key: "k", hold: 80 * ms, fence: true})
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrNotAcquired) {
					err = nil
				}
				ended <- err
			}()
			time.Sleep(ms)
		}
		return errors.Join(<-ended, <-ended)
	})
}

func tryDo(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
		return times(3, func() error {
			_, err := g.TryDo(ctx, "k", func(ctx context.Context) error { return s.do(ctx, stay{key: "k"}) })
			time.Sleep(50 * ms)
			return err
		})
	})
}

func lingers(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		g = g.With(guard.WithLinger(500*ms), guard.WithFencing())
		time.Sleep(time.Duration(i) * 2 * ms)
		return times(5-3*i, func() error {
			defer time.Sleep(ms)
			return s.under(ctx, g, stay{key: "k", fence: true})
		})
	})
}

func permits(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, _ int) error {
		g = g.With(guard.WithPermits(2), guard.WithFencing())
		return times(2, func() error { return s.under(ctx, g, stay{key: "k", limit: 2, hold: 100 * ms}) })
	})
}

// tryBeside: without a fault each of four calls has room, in a process, where
// the second comes before the first has its answer, and between processes.
func tryBeside(limit int, opt guard.Option) func(s *scene) {
	return func(s *scene) {
		s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
			g = g.With(opt)
			ended := make(chan error, 2)
			for range 2 {
				go func() {
					ran, err := g.TryDo(ctx, "k", func(ctx context.Context) error {
						return s.do(ctx, stay{key: "k", limit: limit, hold: 100 * ms})
					})
					if !ran && err == nil && s.w.Calm() {
						err = errors.New("REFUSED, though there is room")
					}
					ended <- err
				}()
				time.Sleep(ms)
			}
			return errors.Join(<-ended, <-ended)
		})
	}
}

// shared: two readers and a writer.
func shared(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		y := stay{key: "k", limit: 1000, hold: 100 * ms}
		if i == 1 {
			y.limit = 1
		} else {
			g = g.With(guard.WithShared())
		}
		return times(2, func() error { return s.under(ctx, g, y) })
	})
}

// several: A and B want two keys each, and C one of both, so many times.
func several(n int) func(s *scene) {
	keys := [][]string{{"a", "b"}, {"b", "c"}, {"b"}}
	return func(s *scene) {
		s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
			return times(n, func() error {
				return g.DoAll(ctx, keys[i], func(ctx context.Context) error { return s.do(ctx, stay{key: "b"}) })
			})
		})
	}
}

// briefly calls call, which may end without its key after 200 ms.
func briefly(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 200*ms)
	defer cancel()
	err := call(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrNotAcquired) {
		return nil
	}
	return err
}

// threeAtOnce: A wants three keys, and B one of them, which B has first. Each
// gives up once before it gets what it wants.
func threeAtOnce(s *scene) {
	y := stay{key: "b", hold: 500 * ms}
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		call := func(ctx context.Context) error { return s.under(ctx, g, y) }
		if i == 0 {
			call = func(ctx context.Context) error {
				return g.DoAll(ctx, []string{"a", "b", "c"}, func(ctx context.Context) error { return s.do(ctx, y) })
			}
		} else if err := call(ctx); err != nil {
			return err
		}
		time.Sleep(50 * ms)
		if err := briefly(ctx, call); err != nil {
			return err
		}
		return call(ctx)
	})
}

// allBesideReader: A reads b when B comes, who wants a and b, alone and then to
// read both.
func allBesideReader(s *scene) {
	one := stay{key: "b", limit: locker.NoLimit, hold: time.Second}
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		read := g.With(guard.WithShared())
		both := func(g *guard.Guard, limit int) error {
			return g.DoAll(ctx, []string{"b", "a"}, func(ctx context.Context) error {
				if err := s.do(ctx, stay{key: "a", limit: limit}); err != nil {
					return err
				}
				return s.do(ctx, stay{key: "b", limit: limit, hold: 300 * ms})
			})
		}
		if i == 0 {
			return times(2, func() error { return s.under(ctx, read, one) })
		}
		time.Sleep(50 * ms)
		if err := both(g, 1); err != nil {
			return err
		}
		return both(read, locker.NoLimit)
	})
}

// results are those of one key, by number.
type results struct {
	s    *scene
	opts []guard.Option

	mu        sync.Mutex // guards the fields below
	made      int
	began     int // functions
	forgets   int // that have begun
	returned  map[int]bool
	forgotten map[int]bool // by a Forget that has returned
}

func (s *scene) results(opts ...guard.Option) *results {
	return &results{s: s, opts: opts, returned: make(map[int]bool), forgotten: make(map[int]bool)}
}

// once returns a number that the function made, in this call or before. It is
// none that was forgotten when the call began.
func (r *results) once(ctx context.Context, g *guard.Guard) (n int, err error) {
	r.mu.Lock()
	gone := make(map[int]bool)
	for v := range r.forgotten {
		gone[v] = true
	}
	r.mu.Unlock()
	n, err = guard.Once(ctx, g.With(r.opts...), "k", time.Hour, r.make)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.returned[n] = true
	}
	if err == nil && gone[n] && r.s.exact() {
		r.s.fail("FORGOTTEN: result %d, which was forgotten before the call", n)
	}
	return n, err
}

func (r *results) make(ctx context.Context) (int, error) {
	r.mu.Lock()
	r.began++
	again := len(r.opts) > 0 && r.began > 1+r.forgets && r.s.exact()
	r.mu.Unlock()
	if again {
		r.s.fail("RUN TWICE: run %d of a function that runs at most once, after %d Forgets", r.began, r.forgets)
	}
	err := r.s.do(ctx, stay{key: "k"})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	return r.made, err
}

// forget forgets what was returned before.
func (r *results) forget(ctx context.Context, g *guard.Guard) error {
	r.mu.Lock()
	r.forgets++
	var known []int
	for v := range r.returned {
		known = append(known, v)
	}
	r.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	if _, err := g.Forget(ctx, "k"); err != nil {
		return err
	}
	r.s.note(ctx, "has forgotten")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range known {
		r.forgotten[v] = true
	}
	return nil
}

// onceAndForget: A and B want a result in so many calls at once. A forgets it,
// and both want it again.
func onceAndForget(calls int, opts ...guard.Option) func(s *scene) {
	return func(s *scene) {
		r := s.results(opts...)
		s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
			ended := make(chan error, calls)
			for range calls {
				go func() { _, err := r.once(ctx, g); ended <- err }()
				time.Sleep(ms)
			}
			all := times(calls, func() error { return <-ended })
			if i == 0 {
				all = errors.Join(all, r.forget(ctx, g))
			}
			_, err := r.once(ctx, g)
			return errors.Join(all, err)
		})
	}
}

// longOnce: a result that is too long for a message comes whole.
func longOnce(s *scene) {
	const long = 2000
	s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
		text, err := guard.Once(ctx, g, "k", time.Hour, func(ctx context.Context) (string, error) {
			return strings.Repeat("x", long), s.do(ctx, stay{key: "k", hold: 100 * ms})
		})
		if err == nil && len(text) != long {
			s.fail("SHORT: a result of %d bytes, of %d", len(text), long)
		}
		return err
	})
}

// forgetTwice: a result that was made after a Forget that succeeded stays, even
// if an earlier Forget had no answer.
func forgetTwice(s *scene) {
	r := s.results()
	s.each(1, func(ctx context.Context, g *guard.Guard, _ int) error {
		if _, err := r.once(ctx, g); err != nil {
			return err
		}
		if r.forget(ctx, g) != nil {
			if err := r.forget(ctx, g); err != nil {
				return err
			}
		}
		second, err := r.once(ctx, g)
		if err != nil {
			return err
		}
		time.Sleep(10 * time.Second)
		third, err := r.once(ctx, g)
		if err == nil && third != second && s.exact() {
			s.fail("LOST: result %d, and then %d", second, third)
		}
		return err
	})
}

// joins: calls of B begin all the time, while A forgets.
func joins(s *scene) {
	r := s.results()
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 0 {
			_, err := r.once(ctx, g)
			if err != nil {
				return err
			}
			time.Sleep(200 * ms)
			return r.forget(ctx, g)
		}
		time.Sleep(50 * ms)
		ended := make(chan error, 6)
		for range 6 {
			go func() { _, err := r.once(ctx, g); ended <- err }()
			time.Sleep(60 * ms)
		}
		return times(6, func() error { return <-ended })
	})
}

// keepFor: a function says that its result lasts for 3 s.
func keepFor(s *scene) {
	made := 0
	once := func(ctx context.Context, g *guard.Guard) (at time.Time, err error) {
		return guard.Once(ctx, g, "k", time.Hour, func(ctx context.Context) (time.Time, error) {
			made++
			err := errors.Join(guard.KeepFor(ctx, 3*time.Second), s.do(ctx, stay{key: "k"}))
			return time.Now(), err
		})
	}
	s.each(2, func(ctx context.Context, g *guard.Guard, _ int) error {
		return times(3, func() error {
			began := time.Now()
			at, err := once(ctx, g)
			if old := began.Sub(at); err == nil && old > 4*time.Second && s.w.faults == 0 {
				s.fail("KEPT: a result that is %v old", old)
			}
			time.Sleep(2 * time.Second)
			return err
		})
	})
}

// fails: A's function ends with an error while B waits, who runs its own. That
// ends with a final error, which is kept for 3 s: A's second call gets it, and
// the third one runs its function.
func fails(s *scene) {
	oops, over := errors.New("oops"), &guard.FinalError{Code: "over"}
	once := func(ctx context.Context, g *guard.Guard, keep time.Duration, end error) (ran bool, err error) {
		_, err = guard.Once(ctx, g, "k", time.Hour, func(ctx context.Context) (int, error) {
			ran = true
			err := errors.Join(guard.KeepFor(ctx, keep), s.do(ctx, stay{key: "k", hold: 300 * ms}))
			if err != nil {
				return 0, err
			}
			return 1, end
		})
		return ran, err
	}
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 1 {
			time.Sleep(50 * ms)
			ran, err := once(ctx, g, 3*time.Second, guard.Final("over", oops))
			if !ran && err != nil && strings.Contains(err.Error(), "oops") {
				s.fail("SHARED: B has the error of another's function: %v", err)
			}
			if errors.Is(err, over) {
				return nil
			}
			return err
		}
		if _, err := once(ctx, g, time.Hour, oops); !errors.Is(err, oops) {
			return err
		}
		ran, err := once(ctx, g, 3*time.Second, nil)
		if s.w.Calm() && (ran || !errors.Is(err, over)) {
			s.fail("LOST: A's second call gets %v, and its function ran: %t", err, ran)
		}
		time.Sleep(4 * time.Second)
		ran, err = once(ctx, g, 3*time.Second, nil)
		if s.w.Calm() && !ran {
			s.fail("KEPT: A's third call gets %v", err)
		}
		if errors.Is(err, over) {
			return nil
		}
		return err
	})
}

// wanted: A leaves as soon as somebody wants the key, or after 10 s.
func wanted(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		time.Sleep(time.Duration(i) * time.Second)
		return g.Do(ctx, "k", func(ctx context.Context) error {
			if i == 0 {
				select {
				case <-guard.Wanted(ctx):
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
				}
			}
			return s.do(ctx, stay{key: "k"})
		})
	})
}

// leaders: A leads until C asks for another, and then B does.
func leaders(s *scene) {
	lead := func(ctx context.Context, g *guard.Guard, i int) error {
		ctx, stop := context.WithTimeout(ctx, 20*time.Second)
		defer stop()
		time.Sleep(time.Duration(i) * 500 * ms)
		err := g.Lead(ctx, "k", func(ctx context.Context) error {
			select {
			case <-guard.Wanted(ctx):
			case <-ctx.Done():
			}
			return s.do(ctx, stay{key: "k"})
		})
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		if i < 2 {
			return lead(ctx, g, i)
		}
		time.Sleep(2 * time.Second)
		ctx, stop := context.WithTimeout(ctx, 20*time.Second)
		defer stop()
		_, err := g.AskLeader(ctx, "k")
		return err
	})
}

// forces: C takes the key from who has it.
func forces(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		if i < 2 {
			err := s.under(ctx, g.With(guard.WithFencing()), stay{key: "k", hold: 3 * time.Second, fence: true})
			if errors.Is(err, guard.ErrLeaseLost) {
				return nil
			}
			return err
		}
		time.Sleep(time.Second)
		ctx, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		k, err := g.Inspect(ctx, "k")
		if err != nil || k.Owner == "" {
			return err
		}
		s.net.loses() // the holder may trust its lease until it is told
		if err := g.ForceRelease(ctx, "k", k.Owner); err != nil && !errors.Is(err, guard.ErrLeaseLost) {
			return err
		}
		return nil
	})
}

// forcesShare: C waits for A and B, who share the key, and takes it from one.
func forcesShare(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		if i < 2 {
			time.Sleep(time.Duration(i) * 20 * ms)
			shared := stay{key: "k", limit: locker.NoLimit, hold: 2 * s.ttl}
			err := s.under(ctx, g.With(guard.WithShared()), shared)
			if errors.Is(err, guard.ErrLeaseLost) {
				return nil
			}
			return err
		}
		time.Sleep(300 * ms)
		ended := make(chan error, 1)
		go func() { ended <- s.under(ctx, g, stay{key: "k"}) }() // ends with its one call
		time.Sleep(300 * ms)
		err := s.takesShare(ctx, g)
		return errors.Join(err, <-ended)
	})
}

// takesShare takes the key from one of those who share it. They must not get it
// back.
func (s *scene) takesShare(ctx context.Context, g *guard.Guard) error {
	k, err := g.Inspect(ctx, "k")
	if err != nil || len(k.Owners) == 0 {
		return err
	}
	exact := s.exact()
	owner := k.Owners[len(k.Owners)-1].Owner // which may stand beside the row
	s.net.loses()                            // the holder may trust its lease until it is told
	lost := s.net.lastLoss()
	if err := g.ForceRelease(ctx, "k", owner); err != nil {
		if errors.Is(err, guard.ErrLeaseLost) {
			return nil
		}
		return err
	}
	time.Sleep(s.ttl)
	if k, err = g.Inspect(ctx, "k"); err != nil {
		return err
	}
	back := slices.ContainsFunc(k.Owners, func(w guard.Waiter) bool { return w.Owner == owner })
	if back && exact && s.net.lastLoss().Equal(lost) {
		s.fail("BACK: a share that was released by force")
	}
	return nil
}

// closes: the caller of B leaves as the key comes, and then B's guard is
// closed.
func closes(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 1 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 150*ms)
			defer cancel()
		}
		err := s.under(ctx, g, stay{key: "k", hold: 150 * ms})
		if i == 1 {
			return nil
		}
		return err
	})
}

// closesWriter: A reads, and the guard of B, who waits to write, is closed.
// Then A reads again.
func closesWriter(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 0 {
			g = g.With(guard.WithShared())
			return times(2, func() error {
				return s.under(ctx, g, stay{key: "k", limit: locker.NoLimit, hold: 3 * time.Second})
			})
		}
		time.Sleep(100 * ms)
		ended := make(chan error, 1)
		go func() { ended <- s.under(ctx, g, stay{key: "k"}) }() // ends with Close
		time.Sleep(300 * ms)
		err := g.Close(ctx)
		if e := <-ended; e != nil && !errors.Is(e, guard.ErrClosed) {
			err = errors.Join(err, e)
		}
		return err
	})
}

// gaveUp: A has seen C wait, who gives up and ends. Then B, who was alone,
// hands the key to A.
func gaveUp(s *scene) {
	s.each(3, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 1 {
			return s.under(ctx, g, stay{key: "k", hold: 650 * ms})
		}
		time.Sleep(time.Duration(20+20*i) * ms)
		if i == 2 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 560*ms)
			defer cancel()
		}
		err := s.under(ctx, g.With(guard.WithPermits(2)), stay{key: "k", limit: 2})
		if i == 2 {
			return nil
		}
		return err
	})
}

// looksIn: an operator's calls end, though their ctx has no deadline.
func looksIn(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 0 {
			return times(2, func() error { return s.under(ctx, g, stay{key: "k", hold: 500 * ms}) })
		}
		return times(3, func() error {
			time.Sleep(300 * ms)
			_, err := g.Inspect(ctx, "k")
			for _, e := range g.List(ctx) {
				err = errors.Join(err, e)
			}
			return err
		})
	})
}

// handsOver: A hands the key to B, and wants it again.
func handsOver(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 1 {
			time.Sleep(10 * ms)
			return s.under(ctx, g, stay{key: "k", hold: 4 * time.Second})
		}
		err := s.under(ctx, g, stay{key: "k", hold: 300 * ms})
		return errors.Join(err, s.under(ctx, g, stay{key: "k"}))
	})
}

// isRedis says of a store that it is no rows.
func isRedis(k *rowKind) bool { return k == nil }

// isEars says of a store that it has messages and no pulse, and that a step is
// of one row.
func isEars(k *rowKind) bool { return k != nil && k.name == "ears" }

// seenLate says of a store that others may see a write late, in which a message
// tells of it then and its clock says when it was.
func seenLate(k *rowKind) bool { return k != nil && k.clock && k.ears && !k.deaf }

// closing: B's guard is closed while calls of B have the key and wait for it.
func closing(s *scene) {
	s.each(2, func(ctx context.Context, g *guard.Guard, i int) error {
		if i == 0 {
			return times(3, func() error { return s.under(ctx, g, stay{key: "k", hold: 100 * ms}) })
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- s.under(ctx, g, stay{key: "k", hold: 300 * ms}) }()
		}
		time.Sleep(250 * ms)
		err := g.Close(ctx)
		for range 2 {
			if e := <-ended; e != nil && !errors.Is(e, guard.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
		return err
	})
}
