package lockertest_test

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/lockertest"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A suite must not fail a sound locker for its slowness. Nor may it fail one
// whose messages come late or get lost at first.
func TestSoundLockerPassesHoweverSlow(t *testing.T) {
	for name, plant := range map[string]func(memory) locker.Locker{
		"slow requests": func(m memory) locker.Locker { return &slow{memory: m, request: 40 * time.Millisecond} },
		"slow messages": func(m memory) locker.Locker { return &slow{memory: m, message: 300 * time.Millisecond} },
		"stalls": func(m memory) locker.Locker {
			return stalling(m)
		},
		"reads that are behind": func(m memory) locker.Locker { return &behind{m} },
		"claims spoilt":         func(m memory) locker.Locker { return &spoils{memory: m} },
		"deaf at first":         func(m memory) locker.Locker { return &slow{memory: m, deaf: 2 * time.Second} },
		"wakes":                 func(m memory) locker.Locker { return wakes{m} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range lockertest.Checks() {
				synctest.Test(t, func(t *testing.T) {
					mem, all := memlocker.New(), new(ledger)
					if err := c.Test(plant(memory{mem, all}), plant(memory{mem.Peer(), all})); err != nil {
						t.Errorf("%s: %v", c.Name, err)
					}
				})
			}
		})
	}
}

// slow delays each request and its answer, and each message, by up to the given
// times. It stalls now and then, and hears nothing at first.
type slow struct {
	memory
	request, message, stall, deaf time.Duration

	travels atomic.Int64
	heard   time.Time // the locker is deaf until then
	pending sync.WaitGroup
}

// stalling returns a locker whose first stall comes at a random moment.
func stalling(m memory) *slow {
	l := &slow{memory: m, request: time.Millisecond, stall: 3 * time.Second}
	l.travels.Store(rand.N[int64](97))
	return l
}

func (l *slow) travel() {
	time.Sleep(rand.N(l.request + 1))
	if l.travels.Add(1)%97 == 0 {
		time.Sleep(l.stall)
	}
}

func (l *slow) Open(w locker.Waker) error {
	l.heard = time.Now().Add(l.deaf)
	return l.memory.Open(late{w, l})
}

func (l *slow) Close(ctx context.Context) error {
	l.pending.Wait()
	defer l.pending.Wait()
	return l.memory.Close(ctx)
}

func (l *slow) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.travel()
	defer l.travel()
	return l.memory.Acquire(ctx, c, t)
}

func (l *slow) Renew(ctx context.Context, cs []*locker.Claim, answered func(int, error)) {
	l.travel()
	defer l.travel()
	l.memory.Renew(ctx, cs, answered)
}

func (l *slow) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.travel()
	defer l.travel()
	return l.memory.Release(ctx, c, e)
}

// late is the Waker of a slow locker.
type late struct {
	locker.Waker
	l *slow
}

func (w late) later(tell func()) {
	if time.Now().Before(w.l.heard) {
		return
	}
	w.l.pending.Go(func() {
		time.Sleep(rand.N(w.l.message + 1))
		tell()
	})
}

func (w late) Wanted(key string) { w.later(func() { w.Waker.Wanted(key) }) }

func (w late) Granted(key, owner string, o locker.Offer) {
	w.later(func() { w.Waker.Granted(key, owner, o) })
}

func (w late) Recorded(key, owner, value string) {
	w.later(func() { w.Waker.Recorded(key, owner, value) })
}

// wakes never says that a release handed the key over. Instead of a grant it
// tells that a try is worthwhile.
type wakes struct{ memory }

func (l wakes) Open(w locker.Waker) error { return l.memory.Open(wake{w}) }

func (l wakes) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	r.Handed = false
	return r, err
}

type wake struct{ locker.Waker }

func (w wake) Granted(key, _ string, _ locker.Offer) { w.Wake(key) }

// behind reads for a while what stood in the store before the other locker has
// changed it, as servers do that have no clock of their own and do not agree
// yet.
type behind struct{ memory }

// before is what a key was before a locker has changed it.
type before struct {
	by    *behind
	state locker.KeyState
	until time.Time
}

func (l *behind) Capabilities() locker.Capabilities {
	can := l.memory.Capabilities()
	can.Limits.Late = locker.LookEvery
	return can
}

// changes has the other locker see for a while what key is now, if do changes
// it.
func (l *behind) changes(key string, do func() bool) {
	state, err := l.memory.Inspect(context.Background(), key)
	if !do() || err != nil {
		return
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.all.before == nil {
		l.all.before = make(map[string]before)
	}
	l.all.before[key] = before{l, state, time.Now().Add(locker.QueueLife / 2)}
}

// old returns what key was before, if l cannot know better.
func (l *behind) old(key string) (locker.KeyState, bool) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	b, ok := l.all.before[key]
	return b.state, ok && b.by != l && time.Now().Before(b.until)
}

func (l *behind) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (a locker.Answer, err error) {
	if was, ok := l.old(c.Key); ok && was.Owner != "" && t == (locker.Try{}) {
		return locker.Answer{Holder: was.Holder}, nil
	}
	l.changes(c.Key, func() bool {
		a, err = l.memory.Acquire(ctx, c, t)
		return a.Acquired
	})
	return a, err
}

func (l *behind) Release(ctx context.Context, c *locker.Claim, e locker.End) (r locker.Released, err error) {
	l.changes(c.Key, func() bool {
		r, err = l.memory.Release(ctx, c, e)
		return err == nil
	})
	return r, err
}

func (l *behind) Forget(ctx context.Context, key string) (bool, error) {
	if was, ok := l.old(key); ok && was.Record.Size == 0 {
		return false, nil
	}
	return l.memory.Forget(ctx, key)
}

func (l *behind) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	if was, ok := l.old(key); ok {
		return was, nil
	}
	return l.memory.Inspect(ctx, key)
}

func (l *behind) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		for s, err := range l.memory.List(ctx) {
			was, ok := l.old(s.Key)
			if ok && !was.Held {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// spoils gives no answer to some tries, and then to none of that claim any
// more, as redlock does if votes cannot be given back.
type spoils struct {
	memory

	mu    sync.Mutex // guards what follows
	tries int
	spoil map[string]bool // by owner
}

func (l *spoils) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.mu.Lock()
	if l.spoil == nil {
		l.spoil = make(map[string]bool)
	}
	l.tries++
	if l.tries%7 == 0 && !t.Queued {
		l.spoil[c.Owner] = true
	}
	spoilt := l.spoil[c.Owner]
	l.mu.Unlock()
	if spoilt {
		return locker.Answer{Queued: t.Wait}, locker.ErrUnavailable
	}
	return l.memory.Acquire(ctx, c, t)
}
