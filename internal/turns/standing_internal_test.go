package turns

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A counter counts the requests of a process.
type counter struct {
	locker.Locker

	acquires, releases, givenUp atomic.Int64
	delay                       time.Duration // of a release
}

func (c *counter) Acquire(ctx context.Context, cl *locker.Claim, try locker.Try) (locker.Answer, error) {
	c.acquires.Add(1)
	return c.Locker.Acquire(ctx, cl, try)
}

func (c *counter) Release(ctx context.Context, cl *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued {
		c.givenUp.Add(1)
		return c.Locker.Release(ctx, cl, e)
	}
	c.releases.Add(1)
	time.Sleep(c.delay)
	return c.Locker.Release(ctx, cl, e)
}

// raise makes peak n if that is more.
func raise(peak *atomic.Int64, n int64) {
	for seen := peak.Load(); n > seen && !peak.CompareAndSwap(seen, n); {
		seen = peak.Load()
	}
}

func limited(limit int) Settings {
	s := settings()
	s.Limit = limit
	return s
}

func mustTake(t *testing.T, e *Engine, s Settings) *Turn {
	t.Helper()
	turn, err := new(party).take(t.Context(), e, stageKey, s)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func mustEnd(t *testing.T, turns ...*Turn) {
	t.Helper()
	for _, turn := range turns {
		if err := end(t.Context(), turn); err != nil {
			t.Error(err)
		}
	}
}

// closed closes e, and checks that nothing is left at its gates.
func closed(t *testing.T, e *Engine) {
	t.Helper()
	time.Sleep(time.Second) // a gate may be kept for a moment
	if n := len(e.gates.all()); n != 0 {
		t.Errorf("%d gates are left", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many shared turns of a process need one acquire and one release, by the last.
func TestSharedTurnsHaveOneGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: memlocker.New()}
		e := open(t, l)
		var all []*Turn
		for range 100 {
			all = append(all, mustTake(t, e, limited(locker.NoLimit)))
		}
		if s := e.States(time.Now(), 1); len(s) != 1 || len(s[0].Holds) != 100 || s[0].Waiting != 0 {
			t.Errorf("the snapshot is %+v", s)
		}
		mustEnd(t, all[1:]...)
		if n := l.releases.Load(); n != 0 {
			t.Fatalf("released under a turn that is on")
		}
		if err := all[0].Err(); err != nil {
			t.Error(err)
		}
		mustEnd(t, all[0])
		if a, r := l.acquires.Load(), l.releases.Load(); a != 1 || r != 1 {
			t.Errorf("%d acquires and %d releases", a, r)
		}
		closed(t, e)
	})
}

// A turn that must be alone is not beside a shared one, in one process or two.
// It is not overtaken by shared ones that come later from the same process.
func TestAnExclusiveTurnIsAlone(t *testing.T) {
	for name, processes := range map[string]int{"one process": 1, "two processes": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlocker.New()
				writers := open(t, store.Peer())
				readers := writers
				if processes == 2 {
					readers = open(t, store.Peer())
				}
				var mu sync.Mutex
				var on []string
				begun := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					on = append(on, what)
				}
				first := mustTake(t, readers, limited(locker.NoLimit))
				var done sync.WaitGroup
				go1 := func(e *Engine, what string, limit int) {
					done.Go(func() {
						turn, err := new(party).take(t.Context(), e, stageKey, limited(limit))
						if err != nil {
							t.Error(what, err)
							return
						}
						begun(what)
						time.Sleep(10 * time.Millisecond)
						mustEnd(t, turn)
					})
					synctest.Wait()
				}
				go1(writers, "writer", 0)
				go1(readers, "reader", locker.NoLimit)
				go1(readers, "reader", locker.NoLimit)
				if len(on) != 0 {
					t.Errorf("%v came in beside a shared turn", on)
				}
				mustEnd(t, first)
				done.Wait()
				if len(on) != 3 || on[0] != "writer" {
					t.Errorf("the order is %v", on)
				}
				closed(t, readers)
				if processes == 2 {
					closed(t, writers)
				}
			})
		})
	}
}

// Shared turns that wait behind an exclusive one come in together, with one
// request.
func TestSharedTurnsThatWaitComeInTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: memlocker.New()}
		e := open(t, l)
		w := mustTake(t, e, settings())
		var done sync.WaitGroup
		var on, peak atomic.Int64
		for i := range 20 {
			limit := locker.NoLimit
			if i == 7 {
				limit = 0 // the others come in beside each other although it is between them
			}
			done.Go(func() {
				turn := mustTake(t, e, limited(limit))
				raise(&peak, on.Add(1))
				time.Sleep(50 * time.Millisecond)
				on.Add(-1)
				mustEnd(t, turn)
			})
			synctest.Wait()
		}
		before := l.acquires.Load()
		mustEnd(t, w)
		done.Wait()
		if peak.Load() != 19 {
			t.Errorf("%d at once, want 19", peak.Load())
		}
		if n := l.acquires.Load() - before; n > 6 {
			t.Errorf("%d acquires", n)
		}
		closed(t, e)
	})
}

// There are never more permits than the limit, over all processes, and
// everybody is served.
func TestPermitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, callers = 3, 20
		store := memlocker.New()
		var on, peak, served atomic.Int64
		var done sync.WaitGroup
		var engines []*Engine
		for range 3 {
			e := open(t, store.Peer())
			engines = append(engines, e)
			for i := range callers {
				done.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					s := limited(limit)
					s.MaxWait = time.Minute
					turn := mustTake(t, e, s)
					raise(&peak, on.Add(1))
					time.Sleep(5 * time.Millisecond)
					on.Add(-1)
					served.Add(1)
					mustEnd(t, turn)
				})
			}
		}
		done.Wait()
		if peak.Load() != limit || served.Load() != 3*callers {
			t.Errorf("%d at once, %d served", peak.Load(), served.Load())
		}
		for _, e := range engines {
			closed(t, e)
		}
	})
}

// A permit goes to the next of the process without a request.
func TestAPermitIsHandedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: memlocker.New()}
		e := open(t, l)
		var done sync.WaitGroup
		for range 10 {
			done.Go(func() {
				turn := mustTake(t, e, limited(2))
				time.Sleep(5 * time.Millisecond)
				mustEnd(t, turn)
			})
		}
		done.Wait()
		if a, r := l.acquires.Load(), l.releases.Load(); a != 2 || r != 2 {
			t.Errorf("%d acquires and %d releases for 2 permits", a, r)
		}
		closed(t, e)
	})
}

// A permit goes to the next in line also while a call before it contends for
// another permit. That call is overtaken for a pass over the line at most.
func TestAPermitIsHandedOffWhileACallContends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, turns, section = 10, 50, 5 * time.Millisecond
		store := memlocker.New()
		other, l := open(t, store.Peer()), &counter{Locker: store.Peer()}
		e := open(t, l)
		stays := mustTake(t, other, limited(2)) // so that all here have one permit
		var longest, handed atomic.Int64
		var done sync.WaitGroup
		for range callers {
			done.Go(func() {
				for range turns {
					asked := time.Now()
					turn := mustTake(t, e, limited(2))
					if _, handoff, _, _ := turn.Tried(); handoff {
						handed.Add(1)
					}
					if wait := int64(time.Since(asked)); wait > longest.Load() {
						longest.Store(wait)
					}
					time.Sleep(section)
					mustEnd(t, turn)
				}
			})
		}
		done.Wait()
		if n := handed.Load(); n < callers*turns*3/4 {
			t.Errorf("%d of %d permits were handed off", n, callers*turns)
		}
		if n := l.releases.Load(); n > callers*turns/4 {
			t.Errorf("%d releases for %d turns", n, callers*turns)
		}
		const pass = callers * section // over the line
		if wait := time.Duration(longest.Load()); wait > 3*pass {
			t.Errorf("a wait of %v, want %v at most", wait, 3*pass)
		}
		mustEnd(t, stays)
		closed(t, e)
		closed(t, other)
	})
}

// A turn beyond its MaxHold leaves the shared grant. The others stay.
func TestMaxHoldIsForOneSharedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: memlocker.New()}
		e := open(t, l)
		long, short := limited(locker.NoLimit), limited(locker.NoLimit)
		long.MaxHold, short.MaxHold = time.Hour, 20*time.Second
		var hung, other party
		stays, err := other.take(t.Context(), e, stageKey, long)
		if err != nil {
			t.Fatal(err)
		}
		hangs, err := hung.take(t.Context(), e, stageKey, short)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(short.MaxHold + time.Millisecond)
		synctest.Wait()
		if !errors.Is(hung.lost, errnote.ErrMaxHold) || other.lost != nil || stays.Err() != nil || hangs.Err() == nil {
			t.Errorf("%v and %v; %v and %v", hung.lost, other.lost, hangs.Err(), stays.Err())
		}
		mustEnd(t, stays)
		if n := l.releases.Load(); n != 1 {
			t.Errorf("%d releases: a turn that hangs keeps the key", n)
		}
		if back, cause := hangs.End(true, true); back || !errors.Is(cause, errnote.ErrMaxHold) {
			t.Errorf("%t, %v", back, cause)
		}
		hangs.Leave()
		closed(t, e)
	})
}

// MaxHold counts from the begin of a turn, also on a grant that another turn
// without MaxHold has begun. A snapshot tells that it is over.
func TestMaxHoldOnTheGrantOfAnotherTurn(t *testing.T) {
	for name, limit := range map[string]int{"handed off": 0, "beside it": locker.NoLimit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, memlocker.New())
				short := limited(limit)
				short.MaxHold = 100 * time.Millisecond
				first := mustTake(t, e, limited(limit))
				var p party
				var second *Turn
				var done sync.WaitGroup
				done.Go(func() { second, _ = p.take(t.Context(), e, stageKey, short) })
				synctest.Wait()
				if limit == 0 {
					mustEnd(t, first)
				}
				done.Wait()
				time.Sleep(short.MaxHold + time.Millisecond)
				synctest.Wait()
				over := 0
				for _, h := range e.States(time.Now(), 1)[0].Holds {
					if errors.Is(h.Err, errnote.ErrMaxHold) {
						over++
					}
				}
				if !errors.Is(p.lost, errnote.ErrMaxHold) || over != 1 {
					t.Errorf("lost: %v; %d holds are over", p.lost, over)
				}
				_, _ = second.End(true, true)
				second.Leave()
				if limit != 0 {
					mustEnd(t, first)
				}
				closed(t, e)
			})
		})
	}
}

// The last of the shared turns to hang loses the grant as an exclusive one
// does.
func TestMaxHoldOfAllSharedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		s := limited(locker.NoLimit)
		s.MaxHold = 20 * time.Second
		parties, all := make([]party, 3), make([]*Turn, 3)
		for i := range all {
			var err error
			if all[i], err = parties[i].take(t.Context(), e, stageKey, s); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(s.MaxHold + time.Millisecond)
		synctest.Wait()
		for i, turn := range all {
			_, cause := turn.End(true, true)
			if !errors.Is(cause, errnote.ErrMaxHold) || !errors.Is(parties[i].lost, errnote.ErrMaxHold) {
				t.Errorf("turn %d: %v, %v", i, cause, parties[i].lost)
			}
			turn.Leave()
		}
		mustEnd(t, mustTake(t, e, settings()))
		closed(t, e)
	})
}

// A loss ends all turns of a shared grant, and the key is free once the last
// has returned.
func TestALossEndsAllSharedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		l := &counter{Locker: mem}
		e := open(t, l)
		parties, all := make([]party, 3), make([]*Turn, 3)
		for i := range all {
			var err error
			if all[i], err = parties[i].take(t.Context(), e, stageKey, limited(locker.NoLimit)); err != nil {
				t.Fatal(err)
			}
		}
		mend := mem.Break()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		mend()
		for i, turn := range all {
			if !errors.Is(parties[i].lost, locker.ErrLeaseLost) {
				t.Errorf("turn %d was not told", i)
			}
			if n := l.givenUp.Load(); n != 0 {
				t.Errorf("%d claims are given up before the last has returned", n)
			}
			if back, cause := turn.End(true, true); back || !errors.Is(cause, locker.ErrLeaseLost) {
				t.Errorf("turn %d: %t, %v", i, back, cause)
			}
			turn.Leave()
		}
		synctest.Wait()
		if n := l.givenUp.Load(); n != 1 {
			t.Errorf("%d claims are given up", n)
		}
		closed(t, e)
	})
}

// Close waits for shared turns and permits, and takes them if it may not wait.
func TestCloseDuringACrowd(t *testing.T) {
	for name, limit := range map[string]int{"shared": locker.NoLimit, "permits": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, memlocker.New())
				parties, all := make([]party, 3), make([]*Turn, 3)
				for i := range all {
					var err error
					if all[i], err = parties[i].take(t.Context(), e, stageKey, limited(limit)); err != nil {
						t.Fatal(err)
					}
				}
				over := make(chan error, 1)
				go func() { over <- e.Close(t.Context()) }()
				synctest.Wait()
				_, err := new(party).take(t.Context(), e, stageKey, limited(limit))
				if !errors.Is(err, locker.ErrClosed) {
					t.Errorf("a call came in: %v", err)
				}
				mustEnd(t, all[0])
				synctest.Wait()
				select {
				case err := <-over:
					t.Fatal("Close did not wait", err)
				default:
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := e.Close(ctx); err == nil {
					t.Error("Close that may not wait returned nil")
				}
				for i, turn := range all[1:] {
					if !errors.Is(parties[i+1].lost, locker.ErrClosed) {
						t.Errorf("turn %d: %v", i+1, parties[i+1].lost)
					}
					if _, cause := turn.End(true, true); !errors.Is(cause, locker.ErrClosed) {
						t.Errorf("turn %d: %v", i+1, cause)
					}
					turn.Leave()
				}
				if err := <-over; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A call that leaves just as it was let in leaves nothing behind, whatever it
// was let into.
func TestACallThatLeavesAsItIsLetIn(t *testing.T) {
	for name, limit := range map[string]int{"shared": locker.NoLimit, "permits": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &counter{Locker: memlocker.New()}
				e := open(t, l)
				s := limited(limit)
				first := mustTake(t, e, s)
				gt := e.gates.enter(stageKey)
				in := &Turn{
					common: &e.common, gate: gt, set: &s, events: new(party),
					waiting: waiting{ctx: t.Context(), patience: Patience{Until: time.Now().Add(time.Hour)}},
				}
				gt.mu.Lock()
				if limit == locker.NoLimit {
					gt.enter(in, first.grant)
					gt.mu.Unlock()
				} else { // the permit of the first one
					in.given = make(chan struct{}, 1)
					gt.line.push(in)
					gt.mu.Unlock()
					if back, cause := first.End(true, true); back || cause != nil {
						t.Fatalf("the permit was not handed off: %t, %v", back, cause)
					}
				}
				if !e.Enter() {
					t.Fatal("closed")
				}
				(&waiter{Turn: in}).quit()
				if limit == locker.NoLimit {
					mustEnd(t, first)
				} else {
					first.Leave()
				}
				mustEnd(t, mustTake(t, e, settings())) // the key is free
				closed(t, e)
			})
		})
	}
}

// Crowds of all kinds on one key, with calls that leave at any moment: no turn
// is beside one that it must not be beside, and nothing is left.
func TestTortureOfCrowds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		var on judge
		var done sync.WaitGroup
		var engines []*Engine
		for p := range 3 {
			e := open(t, store.Peer())
			engines = append(engines, e)
			for c := range 12 {
				limit := []int{locker.NoLimit, locker.NoLimit, 3, 0}[c%4]
				done.Go(func() {
					for i := range 60 {
						step := time.Duration((i*7+c*3+p*5)%11) * time.Millisecond
						s := limited(limit)
						s.MaxWait = time.Minute
						ctx, cancel := context.WithCancel(t.Context())
						if i%5 == 0 {
							ctx, cancel = context.WithTimeout(t.Context(), step)
						}
						turn, err := new(party).take(ctx, e, stageKey, s)
						cancel()
						if err != nil {
							if !errors.Is(err, ErrEnded) {
								t.Error(err)
							}
							continue
						}
						on.come(t, limit)
						time.Sleep(step)
						on.go1(limit)
						mustEnd(t, turn)
					}
				})
			}
		}
		done.Wait()
		for _, e := range engines {
			closed(t, e)
		}
	})
}

// A judge checks the rule of law 9.
type judge struct {
	mu sync.Mutex
	by map[int]int // turns by limit
}

func (j *judge) come(t *testing.T, limit int) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by == nil {
		j.by = make(map[int]int)
	}
	j.by[limit]++
	switch {
	case j.by[0] > 1, j.by[0] == 1 && len(j.by) > 1, j.by[3] > 3:
		t.Errorf("together: %v", j.by)
	}
}

func (j *judge) go1(limit int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by[limit]--; j.by[limit] == 0 {
		delete(j.by, limit)
	}
}

// A shared turn does not enter a grant whose last member has left. That grant
// is being released, and its key goes to others.
func TestNobodyEntersASharedGrantThatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &counter{Locker: memlocker.New(), delay: 50 * time.Millisecond}
		e := open(t, l)
		first := mustTake(t, e, limited(locker.NoLimit))
		var done sync.WaitGroup
		done.Go(func() { mustEnd(t, first) }) // ends with the release
		synctest.Wait()
		second := mustTake(t, e, limited(locker.NoLimit))
		done.Wait()
		if n := l.acquires.Load(); n != 2 {
			t.Errorf("%d acquires for a grant that ended and one that began", n)
		}
		mustEnd(t, second)
		closed(t, e)
	})
}

// A call that waits for a permit of its own process goes to the store once one
// of these permits is lost, because nobody will pass it on.
func TestALostPermitSendsTheNextToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		s := limited(2)
		s.TTL, s.MaxWait = time.Second, time.Minute
		hangs := s
		hangs.MaxHold = 2 * time.Second
		hung, stays := mustTake(t, e, hangs), mustTake(t, e, s)
		start := time.Now()
		next := mustTake(t, e, s) // waits
		if waited := time.Since(start); waited > hangs.MaxHold+2*s.TTL {
			t.Errorf("it came in after %v, want it at the end of the permit that was lost", waited)
		}
		if hung.Err() == nil || stays.Err() != nil {
			t.Errorf("the permit that was to be lost: %v, the other: %v", hung.Err(), stays.Err())
		}
		mustEnd(t, stays, next)
		if err := end(t.Context(), hung); !errors.Is(err, errnote.ErrMaxHold) {
			t.Error(err)
		}
		closed(t, e)
	})
}

// A call that must be alone stands in line behind one that is given a permit of
// this process. It contends from then on, so that it stops new permits
// elsewhere.
func TestACallBehindOneThatIsGivenAPermitContends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlocker.New()
		e, elsewhere := open(t, store), open(t, store.Peer())
		first, second := mustTake(t, e, limited(2)), mustTake(t, e, limited(2))
		order := make(chan string, 3)
		call := func(e *Engine, name string, limit int, lasts time.Duration) {
			go func() {
				s := limited(limit)
				s.MaxWait = time.Minute
				turn := mustTake(t, e, s)
				order <- name
				time.Sleep(lasts)
				mustEnd(t, turn)
			}()
			synctest.Wait()
		}
		call(e, "permit", 2, 10*time.Second)
		call(e, "alone", 0, time.Second)
		mustEnd(t, second) // its permit is handed to the call in line
		time.Sleep(time.Second)
		call(elsewhere, "elsewhere", 2, time.Second)
		time.Sleep(time.Second)
		mustEnd(t, first)
		for _, want := range []string{"permit", "alone", "elsewhere"} {
			if got := <-order; got != want {
				t.Errorf("%s had its turn, want %s", got, want)
			}
		}
		time.Sleep(2 * time.Second)
		closed(t, e)
		closed(t, elsewhere)
	})
}

// The last permits of a process go to two calls while a third stands in line,
// which wants them all from then on.
func TestACallThatIsLeftInLineWantsThePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meddler{Locker: memlocker.New()}
		e, s := open(t, m), limited(3)
		first, w := mustTake(t, e, s), new(Signal)
		heard := w.C(func() { first.Notify(w) })
		m.acquired = func() { time.Sleep(time.Millisecond) } // so that they stand in line
		taken := make(chan *Turn, 3)
		for range 3 {
			go func() { taken <- mustTake(t, e, s) }() // ends with its wait
		}
		time.Sleep(time.Second)
		select {
		case <-heard:
		default:
			t.Errorf("not told, with %d permits taken of the last two", len(taken))
		}
		mustEnd(t, first)
		for range 3 {
			mustEnd(t, <-taken)
		}
		closed(t, e)
	})
}
