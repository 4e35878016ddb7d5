package lockertest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

var outageFaults = []fault{
	{
		"waits for the store, whatever ctx says",
		[]string{"every call ends with its ctx, though the store gives no answer"},
		func(m memory) locker.Locker { return waitsForStore{m} },
	},
	{
		"frees the key of a record without an answer",
		[]string{"a record without an answer is kept before the key is freed"},
		func(m memory) locker.Locker { return freesFirst{m} },
	},
	{
		"never removes a mark",
		[]string{"a mark without an answer is removed"},
		func(m memory) locker.Locker { return neverUnmarks{m} },
	},
	{
		"answers ctx's error alone",
		[]string{"no answer is ErrUnavailable"},
		func(m memory) locker.Locker { return answersContext{m} },
	},
	{
		"takes silence for a lost lease",
		[]string{"no answer is ErrUnavailable"},
		func(m memory) locker.Locker { return takesSilence{m} },
	},
	{
		"forgets in an outage that a claim may be queued",
		[]string{"no answer is ErrUnavailable"},
		func(m memory) locker.Locker { return forgetsQueued{m} },
	},
	{
		"takes silence for the end of a claim that is given up",
		[]string{"what was given up in an outage is freed after it"},
		func(m memory) locker.Locker {
			return givesUp{m, func(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
				if m.down() {
					return locker.Released{}, locker.ErrLeaseLost
				}
				return m.Release(ctx, c, e)
			}}
		},
	},
	{
		"gives up all shares of a key",
		[]string{"a share that was given up in an outage is freed alone"},
		func(m memory) locker.Locker { return givesUpCrowd{m} },
	},
	{
		"takes silence for a full crowd",
		[]string{"no answer is ErrUnavailable"},
		func(m memory) locker.Locker { return takesSilenceForCrowd{m} },
	},
	{
		"waits for the store in Close",
		[]string{"Close ends with its ctx, though the store gives no answer"},
		func(m memory) locker.Locker { return closesSlowly{m} },
	},
	{
		"does not close in an outage",
		[]string{"Close ends with its ctx, though the store gives no answer"},
		func(m memory) locker.Locker { return closesLater{m} },
	},
	{
		"is deaf after an outage",
		[]string{"after an outage the store serves as before"},
		func(m memory) locker.Locker { return &deafened{memory: m} },
	},
	{
		"wakes nobody when its connection was cut",
		[]string{"who listens hears of what came in an outage"},
		func(m memory) locker.Locker { return missesOutage{m} },
	},
	{
		"hears nothing more once its connection was cut",
		[]string{"who listens hears of what came in an outage"},
		func(m memory) locker.Locker { return cutForGood{m} },
	},
}

// A round that missed its message leaves its key to a claim that nobody gives
// back.
func TestALockerThatIsToldNothingAtFirstPassesOutages(t *testing.T) {
	t.Parallel()
	late := func(m memory) locker.Locker { return &lateEar{memory: m} }
	if failed := failingInOutage(t, fault{plant: late}, true); len(failed) > 0 {
		t.Errorf("fails %q", failed)
	}
}

func TestPlantedFaultInAnOutageIsCaught(t *testing.T) {
	t.Parallel()
	for _, f := range outageFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			caught := failingInOutage(t, f, false)
			for _, want := range f.caughtBy {
				if !slices.Contains(caught, want) {
					t.Errorf("passes %q; caught by %q", want, caught)
				}
			}
		})
	}
}

// failingInOutage returns the names of the checks that a locker with the fault
// does not pass, of all or of those that failing would try.
func failingInOutage(t *testing.T, f fault, all bool) (names []string) {
	t.Helper()
	for _, c := range lockertest.FaultyChecks() {
		if !all && !f.tries(c.Name) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			mem, led := memlocker.New(), new(ledger)
			if err := c.Test(f.plant(memory{mem, led}), f.plant(memory{mem.Peer(), led}), mem.Break); err != nil {
				t.Logf("%s: %v", c.Name, err)
				names = append(names, c.Name)
			}
		})
	}
	return names
}

// down reports whether the store is broken.
func (m memory) down() bool {
	_, err := m.Locker.Inspect(context.Background(), "a probe")
	return errors.Is(err, locker.ErrUnavailable)
}

// sitOut waits for the store, but not for ever.
func (m memory) sitOut() {
	for n := 0; m.down() && n < 20; n++ {
		time.Sleep(time.Second)
	}
}

type waitsForStore struct{ memory }

func (l waitsForStore) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	l.sitOut()
	return l.memory.Fence(ctx, c)
}

type answersContext struct{ memory }

func (l answersContext) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	if errors.Is(err, locker.ErrUnavailable) {
		<-ctx.Done()
		return r, ctx.Err()
	}
	return r, err
}

type takesSilence struct{ memory }

func (l takesSilence) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.memory.Renew(ctx, cs, func(i int, err error) {
		if err != nil {
			err = locker.ErrLeaseLost
		}
		answered(i, err)
	})
}

type forgetsQueued struct{ memory }

func (l forgetsQueued) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if err != nil {
		return locker.Answer{}, err
	}
	return a, nil
}

type givesUpCrowd struct{ memory }

func (l givesUpCrowd) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Acquired && c.Limit > 1 {
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		l.all.crowd = append(l.all.crowd, c)
	}
	return a, err
}

func (l givesUpCrowd) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	for _, other := range l.all.crowd {
		if e.Queued {
			_, _ = l.memory.Release(ctx, other, e)
		}
	}
	return l.memory.Release(ctx, c, e)
}

type takesSilenceForCrowd struct{ memory }

func (l takesSilenceForCrowd) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if c.Limit > 1 {
		err = nil
	}
	return a, err
}

type closesSlowly struct{ memory }

func (l closesSlowly) Close(ctx context.Context) error {
	l.sitOut()
	return l.memory.Close(ctx)
}

type closesLater struct{ memory }

func (l closesLater) Close(ctx context.Context) error {
	if l.down() {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.memory.Close(ctx)
}

type deafened struct {
	memory
	deaf atomic.Bool
}

func (l *deafened) Open(w locker.Waker) error {
	return l.memory.Open(grants{w, func(string, string, *uint64) bool { return !l.deaf.Load() }})
}

func (l *deafened) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if err != nil {
		l.deaf.Store(true)
	}
	return a, err
}

// lateEar misses its first grant.
type lateEar struct {
	memory
	hears atomic.Bool
}

func (l *lateEar) Open(w locker.Waker) error {
	return l.memory.Open(grants{w, func(string, string, *uint64) bool { return l.hears.Swap(true) }})
}
