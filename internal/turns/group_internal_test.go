package turns

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A patchyGroup asks each node of a patchy locker for its keys.
type patchyGroup struct{ *patchy }

func (p patchyGroup) AcquireAll(
	ctx context.Context, cs []*locker.Claim, _ bool,
) (as []locker.Answer, held int, err error) {
	var errs []error
	for _, c := range cs {
		a, err := p.Acquire(ctx, c, locker.Try{})
		as, errs = append(as, a), append(errs, err)
	}
	return as, len(cs), errors.Join(errs...)
}

func (p patchyGroup) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	for i, c := range cs {
		if !ends[i].Queued {
			panic("no group has taken all its keys")
		}
		r, err := p.Release(ctx, c, ends[i])
		answered(i, r, err)
	}
}

// patience is that of a caller with the settings s.
func patience(s *Settings) Patience {
	now := time.Now()
	return Patience{Start: now, Until: now.Add(s.MaxWait)}
}

func none(string) bool { return false }

// The error of a request to several nodes does not tell which of them is
// silent. The keys of the others go on.
func TestAnErrorOfSeveralNodesIsNobodysOutage(t *testing.T) {
	for _, c := range []struct {
		keys   []string
		silent bool
	}{{[]string{"well:1", "sick:1"}, false}, {[]string{"sick:1", "sick:2"}, true}} {
		synctest.Test(t, func(t *testing.T) {
			p := &patchy{Locker: memlocker.New(), fails: make(map[string]failure), asked: make(map[string][]time.Time)}
			e := open(t, patchyGroup{p})
			p.fail("sick", gone)
			set, events := settings(), &party{}
			g := NewGroup(e, c.keys, none, &set, events)
			g.fetch(t.Context(), patience(&set))
			if well, sick := e.outages.isSilent("well:2"), e.outages.isSilent("sick:3"); well || sick != c.silent {
				t.Errorf("%v: silent: well %v, sick %v", c.keys, well, sick)
			}
			g.Drop()
			p.fail("sick", nil)
			closed(t, e)
		})
	}
}

// In an outage a turn asks for its key alone, as its node's admission says.
func TestAGroupAsksForNothingInAnOutageOrAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patchy{Locker: memlocker.New(), fails: make(map[string]failure), asked: make(map[string][]time.Time)}
		e := open(t, patchyGroup{p})
		set, events := settings(), &party{}
		fetch := func() (asked int) {
			g := NewGroup(e, []string{"a:1", "a:2"}, none, &set, events)
			g.fetch(t.Context(), patience(&set))
			g.Drop()
			return len(p.tries("a"))
		}
		p.fail("a", gone)
		if n := fetch(); n == 0 {
			t.Fatal("the store was not asked")
		}
		if n := fetch(); n != 0 {
			t.Errorf("%d keys were asked for in an outage", n)
		}
		p.fail("a", nil)
		closed(t, e)
		e.outages.on.Store(0)
		if n := fetch(); n != 0 {
			t.Errorf("%d keys were asked for after Close", n)
		}
	})
}

// A key that has callers in line, of which none has the floor because they wait
// for a permit, is not free.
func TestAGroupDoesNotOvertakeCallsThatWaitForAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, memlocker.New())
		first, second := mustTake(t, e, limited(2)), mustTake(t, e, limited(2))
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			mustEnd(t, mustTake(t, e, limited(2)))
		}()
		synctest.Wait()
		set, events := settings(), &party{}
		g := NewGroup(e, []string{stageKey, stageKey + "2"}, none, &set, events)
		turn, at, _, err := g.Take(t.Context(), stageKey, patience(&set))
		if turn != nil || at != stageKey || err != nil {
			t.Errorf("the group took the floor of %s: %v, %v", at, turn, err)
		}
		g.Drop()
		mustEnd(t, first, second)
		<-waited
		closed(t, e)
	})
}

// hung does not answer releases of several keys.
type hung struct{ *memlocker.Locker }

func (h hung) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, _ []locker.End, answer func(int, locker.Released, error),
) {
	<-ctx.Done()
	for n := range cs {
		answer(n, locker.Released{}, fmt.Errorf("%w: it hangs", locker.ErrUnavailable))
	}
}

func TestReleasesTogetherEndWithinTheLimitOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, hung{memlocker.New()}), settings()
		var ts []*Turn
		for _, key := range []string{"a", "b", "c"} {
			turn, err := new(party).take(t.Context(), e, key, s)
			if err != nil {
				t.Fatal(err)
			}
			if back, cause := turn.End(true, true); !back || cause != nil {
				t.Fatalf("the end of a turn: %v, %v", back, cause)
			}
			ts = append(ts, turn)
		}
		start := time.Now()
		for i, err := range ReleaseKeys(t.Context(), ts) {
			if !errors.Is(err, locker.ErrUnavailable) {
				t.Errorf("release %d: %v", i, err)
			}
			ts[i].Leave()
		}
		if took := time.Since(start); took != limits.Release(s.TTL) {
			t.Errorf("they took %v, want %v", took, limits.Release(s.TTL))
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A countedGroup counts its requests for several keys.
type countedGroup struct {
	*memlocker.Locker
	asked int
}

func (c *countedGroup) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	c.asked++
	return c.Locker.AcquireAll(ctx, cs, prefix)
}

// A key that is idle in another process is asked for by itself. The others are
// not asked for together again.
func TestAGroupWithOneAttemptAsksOnceForAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &countedGroup{Locker: memlocker.New()}
		e, owner := open(t, c), open(t, c.Peer())
		settleKey(t, owner, "k9")
		var keys []string
		for i := range 10 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		set, events, now := settings(), &party{}, time.Now()
		p := Patience{Start: now, Until: now, Once: true}
		g := NewGroup(e, keys, none, &set, events)
		var taken []*Turn
		for _, key := range keys {
			turn, _, _, err := g.Take(t.Context(), key, p)
			if turn == nil && err == nil {
				turn = &Turn{}
				_, err = turn.Take(t.Context(), e, key, &set, events, p)
			}
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			taken = append(taken, turn)
		}
		if g.Drop(); c.asked != 1 {
			t.Errorf("asked %d times for several keys, want once", c.asked)
		}
		for _, turn := range taken {
			turn.Drop()
		}
		for _, e := range []*Engine{e, owner} {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
