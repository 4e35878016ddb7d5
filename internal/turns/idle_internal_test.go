package turns

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// lingering returns settings with a Linger.
func lingering() Settings {
	s := settings()
	s.Linger = time.Second
	return s
}

// settle takes turns on "k" until the key is idle.
func settle(t *testing.T, e *Engine) *grant {
	t.Helper()
	return settleKey(t, e, "k")
}

func settleKey(t *testing.T, e *Engine, key string) *grant {
	t.Helper()
	for range lingerRow + 1 {
		turn, err := new(party).take(t.Context(), e, key, lingering())
		if err != nil {
			t.Fatal(err)
		}
		if err := end(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	gr := idleAt(e, key)
	if gr == nil {
		t.Fatal("the key is not idle")
	}
	return gr
}

// idleAt returns the idle grant of key, or nil.
func idleAt(e *Engine, key string) *grant {
	gt := e.gates.find(key)
	if gt == nil {
		return nil
	}
	gt.mu.Lock()
	defer gt.mu.Unlock()
	return gt.idle()
}

// When an idle key ends, in whatever way, its gate is forgotten and no timer of
// the grant is left.
func TestAnIdleKeyLeavesNothingBehind(t *testing.T) {
	for name, until := range map[string]func(ctx context.Context, e *Engine, mem *memlocker.Locker){
		"in time":  func(context.Context, *Engine, *memlocker.Locker) { time.Sleep(time.Minute) },
		"by want":  func(_ context.Context, e *Engine, _ *memlocker.Locker) { waker{e}.Wanted("k") },
		"by sleep": func(_ context.Context, e *Engine, _ *memlocker.Locker) { idleAt(e, "k").lose(errOutlived) },
		"by a loss": func(_ context.Context, _ *Engine, mem *memlocker.Locker) {
			mem.Lose("k")
			time.Sleep(5 * time.Second)
		},
		"by force": func(ctx context.Context, _ *Engine, mem *memlocker.Locker) {
			s, _ := mem.Inspect(ctx, "k")
			_ = mem.ForceRelease(ctx, "k", s.Owner)
		},
		"by an outage": func(_ context.Context, _ *Engine, mem *memlocker.Locker) {
			mend := mem.Break()
			time.Sleep(2 * time.Minute)
			mend()
		},
		"by Close":    func(ctx context.Context, e *Engine, _ *memlocker.Locker) { _ = e.Close(ctx) },
		"by deafness": func(_ context.Context, _ *Engine, mem *memlocker.Locker) { mem.Deafen(true) },
		"by other terms": func(ctx context.Context, e *Engine, _ *memlocker.Locker) {
			s := settings()
			s.TTL *= 2
			if next, err := new(party).take(ctx, e, "k", s); err == nil {
				_ = end(ctx, next)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				e := open(t, mem)
				gr := settle(t, e)
				until(t.Context(), e, mem)
				synctest.Wait()
				time.Sleep(time.Second)
				if n := len(e.gates.all()); n != 0 {
					t.Errorf("%d gates are left", n)
				}
				if gr.timer.Stop() {
					t.Error("the grant's timer is still set")
				}
				if s, err := mem.Inspect(t.Context(), "k"); err == nil && s.Held && name != "by sleep" {
					t.Error("the key is still held")
				}
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// What makes a grant end as any other, when it comes during the last turn, does
// so at the end of the turn.
func TestAGrantThatMayNotBeIdleIsReleased(t *testing.T) {
	for name, during := range map[string]func(e *Engine, mem *memlocker.Locker, gr *grant){
		"wanted": func(e *Engine, _ *memlocker.Locker, _ *grant) { waker{e}.Wanted("k") },
		"missed": func(_ *Engine, mem *memlocker.Locker, _ *grant) {
			mem.Deafen(true)() // and it hears again
		},
		"deaf":     func(_ *Engine, mem *memlocker.Locker, _ *grant) { mem.Deafen(true) },
		"doubt":    func(_ *Engine, _ *memlocker.Locker, gr *grant) { gr.doubt() },
		"renewed":  func(*Engine, *memlocker.Locker, *grant) { time.Sleep(limits.OfferRenewal + 20*time.Millisecond) },
		"renewing": func(*Engine, *memlocker.Locker, *grant) { time.Sleep(limits.OfferRenewal + time.Millisecond) },
		"tenure":   func(*Engine, *memlocker.Locker, *grant) { time.Sleep(1700 * time.Millisecond) },
		"closing":  func(e *Engine, _ *memlocker.Locker, _ *grant) { e.calls.shut() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memlocker.New()
				e := open(t, mem)
				gr := settle(t, e)
				turn, err := new(party).take(t.Context(), e, "k", lingering())
				if err != nil || turn.grant != gr || !turn.idle || turn.attempts > 0 {
					t.Fatalf("the turn is not on the idle grant (%v)", err)
				}
				if name == "tenure" {
					gr.mu.Lock()
					gr.renewAt = time.Time{} // the renewal would have the same effect
					gr.mu.Unlock()
				}
				during(e, mem, gr)
				if err := end(t.Context(), turn); err != nil {
					t.Error(err)
				}
				if idleAt(e, "k") != nil {
					t.Error("the key is idle")
				}
				synctest.Wait()
				if s, err := mem.Inspect(t.Context(), "k"); name != "closing" && (err != nil || s.Held) {
					t.Errorf("the key is held: %t, %v", s.Held, err)
				}
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A call that asks for more than an idle grant has gets a grant of its own, and
// no key is idle while such a call is in line.
func TestAnIdleGrantServesOnlyItsTerms(t *testing.T) {
	long, fenced := settings(), settings()
	long.TTL *= 2
	fenced.Fencing = true
	for name, s := range map[string]Settings{"shared": limited(locker.NoLimit), "TTL": long, "fencing": fenced} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, memlocker.New())
				take := func(s Settings, old *grant) {
					turn, err := new(party).take(t.Context(), e, "k", s)
					if err != nil || turn.grant == old {
						t.Errorf("%v, or it has the idle grant", err)
						return
					}
					mustEnd(t, turn)
				}
				take(s, settle(t, e))
				time.Sleep(time.Minute) // the key may linger again
				gr := settle(t, e)
				turn, err := new(party).take(t.Context(), e, "k", lingering())
				if err != nil {
					t.Fatal(err)
				}
				var next sync.WaitGroup
				next.Go(func() { take(s, gr) })
				synctest.Wait()
				start := time.Now()
				mustEnd(t, turn)
				next.Wait()
				if took := time.Since(start); took > 0 {
					t.Errorf("the call in line waited for %v more", took)
				}
				closed(t, e)
			})
		})
	}
}

func TestWithoutLingerNoClaimLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		for range 2 * lingerRow {
			turn := mustTake(t, e, settings())
			if turn.grant.bid.claim.Lingers {
				t.Error("a claim lingers")
			}
			mustEnd(t, turn)
		}
		closed(t, e)
	})
}

// A grant that came by way of the store's queue is never idle, whether it was
// handed over or the key was lost.
func TestAGrantByQueueIsNeverIdle(t *testing.T) {
	t.Run("handed over", func(t *testing.T) { queuedIsNeverIdle(t, false) })
	t.Run("lost", func(t *testing.T) { queuedIsNeverIdle(t, true) })
}

func queuedIsNeverIdle(t *testing.T, lost bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		e, other := open(t, mem), open(t, mem.Peer())
		settle(t, e)
		time.Sleep(2 * time.Second)
		theirs, err := new(party).take(t.Context(), other, "k", settings())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Millisecond, func() {
			if lost {
				mem.Lose("k")
				return
			}
			_ = end(t.Context(), theirs)
		})
		ours, err := new(party).take(t.Context(), e, "k", lingering())
		if err != nil {
			t.Fatal(err)
		}
		if !ours.grant.bid.claim.Lingers {
			t.Error("the claim does not linger: the test tests nothing")
		}
		if err := end(t.Context(), ours); err != nil || idleAt(e, "k") != nil {
			t.Errorf("the key is idle (%v)", err)
		}
		if lost {
			_ = end(t.Context(), theirs)
		}
		for _, e := range []*Engine{e, other} {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// States tells an idle key from one that is held.
func TestStatesTellIdleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		settle(t, e)
		since := time.Now()
		time.Sleep(100 * time.Millisecond)
		all := e.States(time.Now(), 1)
		if len(all) != 1 || len(all[0].Holds) != 1 || !all[0].Holds[0].Idle || !all[0].Holds[0].Since.Equal(since) {
			t.Errorf("got %+v, want one key that is idle since %v", all, since)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Neither the floor of an idle key nor the wait of its idle releaser is
// anybody's.
func TestAnIdleKeyIsNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		gr := settle(t, e)
		gt := gr.gate
		if gt.joinFree(&Turn{gate: gt}) {
			t.Error("a group takes the floor of an idle key")
		}
		late := &Turn{gate: gt, set: gr.idler.set}
		gt.rejoin(late, &grant{})
		gt.mu.Lock()
		if gt.floor == nil || !gt.floor.idleReleaser || gt.line.first != late {
			t.Errorf("a turn that comes back has floor %+v, want to stand behind an idle releaser", gt.floor)
		}
		gt.line.remove(late)
		gt.mu.Unlock()
		if all := e.States(time.Now(), 1); len(all) != 0 {
			t.Errorf("an idle releaser is shown: %+v", all)
		}
		synctest.Wait()
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A key that is used again and again sets its timer once.
func TestATurnOnAnIdleKeySetsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		gr := settle(t, e)
		gr.mu.Lock()
		armed := time.Until(gr.idler.armed)
		gr.mu.Unlock()
		if armed != limits.OfferRenewal {
			t.Errorf("the timer fires in %v, want %v", armed, limits.OfferRenewal)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestATurnOnAnIdleKeyAllocatesOnlyItself(t *testing.T) {
	e := open(t, memlocker.New())
	s, p := lingering(), new(party)
	take := func() {
		turn, now := &Turn{}, time.Now()
		if _, err := turn.Take(t.Context(), e, "k", &s, p, Patience{Start: now, Until: now}); err != nil {
			t.Fatal(err)
		}
		if err := end(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	for range lingerRow + 1 {
		take()
	}
	if n := testing.AllocsPerRun(100, take); n > 1 && idleAt(e, "k") != nil {
		t.Errorf("%v allocations, want 1", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// unreleased answers no release from when it hangs.
type unreleased struct {
	*memlocker.Locker
	hangs atomic.Bool
}

func (u *unreleased) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if !u.hangs.Load() {
		return u.Locker.Release(ctx, c, e)
	}
	<-ctx.Done()
	return locker.Released{}, locker.ErrUnavailable
}

// A call right behind an idle releaser whose release gets no answer has heard
// silence, as by a try of its own.
func TestASilentIdleReleaserIsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreleased{Locker: memlocker.New()}
		e := open(t, u)
		settle(t, e)
		u.hangs.Store(true)
		waker{e}.Wanted("k")
		turn, s, now := &Turn{}, lingering(), time.Now()
		_, err := turn.Take(t.Context(), e, "k", &s, new(party), Patience{Start: now, Until: now, Once: true})
		if silent := turn.Silent(err); !silent || !errors.Is(err, locker.ErrUnavailable) {
			t.Errorf("silent: %t, %v", silent, err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call behind an idle releaser that has not sent its release has heard
// nothing of the store.
func TestAnIdleReleaserThatWaitsForOthersIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreleased{Locker: memlocker.New()}
		e := open(t, u)
		for i := range releaserWorkers {
			settleKey(t, e, strconv.Itoa(i))
		}
		settle(t, e)
		u.hangs.Store(true)
		for i := range releaserWorkers {
			waker{e}.Wanted(strconv.Itoa(i))
			synctest.Wait()
		}
		waker{e}.Wanted("k")
		turn, s, p, now := &Turn{}, lingering(), &party{}, time.Now()
		_, err := turn.Take(t.Context(), e, "k", &s, p, Patience{Start: now, Until: now, Once: true})
		if !errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrSilent) || len(p.news) > 0 {
			t.Errorf("%v, and the news %+v", err, p.news)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An idle releaser of a grant that has just been lost does not take away the
// gate that the next call makes.
func TestAnIdleReleaserOfALostGrantLeavesTheNextGateAlone(t *testing.T) {
	e := open(t, memlocker.New())
	gr := settle(t, e)
	gt := gr.gate
	gt.mu.Lock() // as want, which has found the gate
	lost := make(chan struct{})
	go func() { gr.lose(errOutlived); close(lost) }()
	for gr.err(&Turn{spot: spot{listed: true}}) == nil {
		runtime.Gosched()
	}
	gt.releaseIdle()
	next := e.gates.enter("k")
	gt.mu.Unlock()
	<-lost
	e.idleReleasers.working.wait(t.Context())
	if e.gates.find("k") != next {
		t.Error("the gate of a call is not found any more")
	}
	next.leave()
	if n := len(e.gates.all()); n != 0 {
		t.Errorf("%d gates are left", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// noded is a store whose nodes are named by the first letter of a key. Node b
// answers no release while it hangs. Answers for several nodes come together,
// as those of Redis do.
type noded struct {
	*memlocker.Locker
	hangs atomic.Bool
}

func (*noded) Node(key string) string { return key[:1] }

func (n *noded) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if !n.hangs.Load() || n.Node(c.Key) != "b" {
		return n.Locker.Release(ctx, c, e)
	}
	<-ctx.Done()
	return locker.Released{}, locker.ErrUnavailable
}

func (n *noded) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	rs, errs := make([]locker.Released, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { rs[i], errs[i] = n.Release(ctx, c, ends[i]) })
	}
	wg.Wait()
	for i := range cs {
		answered(i, rs[i], errs[i])
	}
}

// A node that hangs delays the idle keys of no other node.
func TestANodeThatHangsDelaysNoIdleKeyOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noded{Locker: memlocker.New()}
		e, other := open(t, n), open(t, n.Peer())
		for i := range 100 {
			settleKey(t, e, "b"+strconv.Itoa(i))
		}
		settleKey(t, e, "a")
		n.hangs.Store(true)
		for i := range 100 {
			waker{e}.Wanted("b" + strconv.Itoa(i))
			synctest.Wait() // one after the other, as keys come to be due
		}
		start := time.Now()
		turn, err := new(party).take(t.Context(), other, "a", settings())
		if took := time.Since(start); err != nil || took > limits.Ask {
			t.Errorf("another process got the key of a node that answers after %v (%v)", took, err)
		}
		n.hangs.Store(false)
		if err == nil {
			_ = end(t.Context(), turn)
		}
		for _, e := range []*Engine{e, other} {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Nor does it delay what is left of claims there that were given up.
func TestANodeThatHangsDelaysNoCleanUpOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noded{Locker: memlocker.New()}
		e := open(t, n)
		n.hangs.Store(true)
		for _, key := range []string{"b", "a"} {
			turn, err := new(party).take(t.Context(), e, key, settings())
			if err != nil {
				t.Fatal(err)
			}
			turn.Drop() // its release is left to the background
			synctest.Wait()
		}
		if s, err := n.Inspect(t.Context(), "a"); s.Held || err != nil {
			t.Errorf("a key of a node that answers is held (%v)", err)
		}
		n.hangs.Store(false)
		closed(t, e)
	})
}

// deafening turns deaf right after it has said that it listens.
type deafening struct {
	*memlocker.Locker
	now bool
}

func (d *deafening) Listens() bool {
	listens := d.Locker.Listens()
	if d.now {
		d.now = false
		d.Deafen(true)
	}
	return listens
}

func TestAProcessThatGoesDeafAsATryBeginsKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deafening{Locker: memlocker.New()}
		e := open(t, d)
		settleKey(t, e, "k")
		time.Sleep(2 * time.Second)
		d.now = true
		turn, err := new(party).take(t.Context(), e, "k", lingering())
		if err != nil || !turn.grant.bid.claim.Lingers {
			t.Fatalf("the claim does not linger: the test tests nothing (%v)", err)
		}
		if err := end(t.Context(), turn); err != nil || idleAt(e, "k") != nil {
			t.Errorf("the key is idle, and the process does not hear (%v)", err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
