package lockertest_test

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

var wakingFaults = []fault{
	{
		"tells nobody of a hand-over",
		[]string{"a release gives the key to who waits", "who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker { return hears{m, func(string, string, *uint64) bool { return false }} },
	},
	{
		"tells the wrong key",
		[]string{"a release gives the key to who waits"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return wrongKey{w} }}
		},
	},
	{
		"tells no token with a hand-over",
		[]string{"fencing tokens rise from hand-over to hand-over"},
		func(m memory) locker.Locker {
			return hears{m, func(_, _ string, token *uint64) bool { *token = 0; return true }}
		},
	},
	{
		"hands over nothing, and wakes nobody",
		[]string{"a release gives the key to who waits"},
		func(m memory) locker.Locker { return freesOnly{m} },
	},
	{
		"queues nobody, or says so",
		[]string{
			"a release gives the key to who waits", "a lost message costs the next look only",
			"an owner id is queued once",
		},
		func(m memory) locker.Locker { return deniesQueue{m} },
	},
	{
		"does not count who waits",
		[]string{"a release gives the key to who waits"},
		func(m memory) locker.Locker { return countsNobody{m} },
	},
	{
		"gives a hand-over its full TTL",
		[]string{"an offer lasts its time, and ends"},
		func(m memory) locker.Locker { return &prolongsOffers{memory: m} },
	},
	{
		"ends an offer early",
		[]string{"an offer lasts its time, and ends"},
		func(m memory) locker.Locker { return cutsOffers{m} },
	},
	{
		"tells of a longer offer than it makes",
		[]string{"an offer lasts its time, and ends"},
		func(m memory) locker.Locker { return overstates{cutsOffers{m}} },
	},
	{
		"queues the next claim though nobody waits",
		[]string{"a release finds nobody and frees the key"},
		func(m memory) locker.Locker { return queuesAlways{m} },
	},
	{
		"gives the key to the next claim first",
		[]string{"who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker { return nextFirst{m} },
	},
	{
		"hands on only what it owned",
		[]string{"a late release of a free key serves who waits"},
		func(m memory) locker.Locker { return handsOwnOnly{m} },
	},
	{
		"leaves a claim that is given up in the queue",
		[]string{"who is given up is not granted"},
		func(m memory) locker.Locker {
			return givesUp{m, func(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
				if !m.renewed(c) {
					return locker.Released{}, locker.ErrLeaseLost
				}
				return m.Release(ctx, c, e)
			}}
		},
	},
	{
		"hands on nothing of a claim that is given up",
		[]string{"what was granted to who is given up goes on", "a share that nobody knows goes on"},
		func(m memory) locker.Locker {
			return givesUp{m, func(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
				if l := (freesOnly{m}); m.renewed(c) {
					return l.Release(ctx, c, e)
				}
				return m.Release(ctx, c, e)
			}}
		},
	},
	{
		"takes the next claim of a process for the one given up",
		[]string{"a claim that was given up leaves the next of its process alone"},
		func(m memory) locker.Locker { return &givesUpByProcess{memory: m} },
	},
	{
		"serves the last first",
		[]string{"who waits longest is served first, and who releases last"},
		func(m memory) locker.Locker { return lastFirst{m} },
	},
	{
		"forgets places",
		[]string{"a waiter that comes again keeps its place"},
		func(m memory) locker.Locker { return changesTry{m, func(t *locker.Try) { t.Place = 0 }} },
	},
	{
		"queues an owner id again",
		[]string{"an owner id is queued once", "a shared claim that came too late is not queued again"},
		func(m memory) locker.Locker { return changesTry{m, func(t *locker.Try) { t.Queued = false }} },
	},
	{
		"leaves a claim in the queue that acquires",
		[]string{"a claim that acquires its key leaves the queue"},
		func(m memory) locker.Locker { return handsToItself{m} },
	},
	{
		"sees a claim in the queue only once",
		[]string{"a claim in the queue lives while it is seen"},
		func(m memory) locker.Locker { return &seesOnce{memory: m, seen: make(map[string]locker.Answer)} },
	},
	{
		"keeps the queue for ever",
		[]string{"a claim that nobody sees leaves the queue"},
		func(m memory) locker.Locker { return keepsQueue{m} },
	},
	{
		"sees all claims of a queue when one looks",
		[]string{"a claim that nobody sees is not granted, whoever else looks"},
		func(m memory) locker.Locker { return seesAll{keepsQueue{m}} },
	},
	{
		"takes out a claim that comes back late while it acquires",
		[]string{
			"a claim that comes back late keeps what it gets",
			"a claim that comes back as its offer ends keeps what it gets",
		},
		func(m memory) locker.Locker { return takesOutLate{m, map[*locker.Claim]time.Time{}} },
	},
	{
		"does not tell the holder that others wait",
		[]string{"a holder learns that others wait"},
		func(m memory) locker.Locker {
			return tells{m, func(w locker.Waker) locker.Waker { return unwanted{w} }}
		},
	},
	{
		"tells the holder of each look",
		[]string{"a holder learns that others wait"},
		func(m memory) locker.Locker { return tells{m, func(w locker.Waker) locker.Waker { return urgent{w} }} },
	},
}

// tells puts something between the locker and its Waker.
type tells struct {
	memory
	wrap func(locker.Waker) locker.Waker
}

func (l tells) Open(w locker.Waker) error { return l.memory.Open(l.wrap(w)) }

// grants is a Waker that hears of a hand-over only if hear allows it.
type grants struct {
	locker.Waker
	hear func(key, owner string, token *uint64) bool
}

func (w grants) Granted(key, owner string, o locker.Offer) {
	if w.hear(key, owner, &o.Token) {
		w.Waker.Granted(key, owner, o)
	}
}

type hears struct {
	memory
	hear func(key, owner string, token *uint64) bool
}

func (l hears) Open(w locker.Waker) error { return l.memory.Open(grants{w, l.hear}) }

type wrongKey struct{ locker.Waker }

func (w wrongKey) Granted(key, owner string, o locker.Offer) { w.Waker.Granted(key+"x", owner, o) }

type unwanted struct{ locker.Waker }

func (unwanted) Wanted(string) {}

type urgent struct{ locker.Waker }

func (w urgent) Wanted(key string) {
	w.Waker.Wanted(key)
	w.Waker.Wanted(key)
}

type freesOnly struct{ memory }

func (l freesOnly) Release(_ context.Context, c *locker.Claim, _ locker.End) (locker.Released, error) {
	if !l.renewed(c) {
		return locker.Released{}, locker.ErrLeaseLost
	}
	l.Lose(c.Key)
	return locker.Released{Waiting: 1}, nil
}

type deniesQueue struct{ memory }

func (l deniesQueue) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	a.Queued = false
	return a, err
}

type countsNobody struct{ memory }

func (l countsNobody) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	r.Waiting = 0
	return r, err
}

type prolongsOffers struct {
	memory
	claims sync.Map // by owner
}

func (l *prolongsOffers) Open(w locker.Waker) error {
	return l.memory.Open(grants{w, func(_, owner string, _ *uint64) bool {
		if c, ok := l.claims.Load(owner); ok {
			l.renewed(c.(*locker.Claim))
		}
		return true
	}})
}

func (l *prolongsOffers) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.claims.Store(c.Owner, c)
	return l.memory.Acquire(ctx, c, t)
}

type cutsOffers struct{ memory }

func (l cutsOffers) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	d := *c
	if t.Wait {
		d.TTL = 500 * time.Millisecond
	}
	return l.memory.Acquire(ctx, &d, t)
}

type overstates struct{ cutsOffers }

func (l overstates) Open(w locker.Waker) error { return l.cutsOffers.Open(longOffers{w}) }

type longOffers struct{ locker.Waker }

func (w longOffers) Granted(key, owner string, o locker.Offer) {
	o.Length = 5 * time.Second
	w.Waker.Granted(key, owner, o)
}

type queuesAlways struct{ memory }

func (l queuesAlways) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Next != nil {
		_, _ = l.memory.Acquire(ctx, e.Next, locker.Try{Wait: true})
	}
	return l.memory.Release(ctx, c, locker.End{})
}

type nextFirst struct{ memory }

func (l nextFirst) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Next == nil {
		return l.memory.Release(ctx, c, e)
	}
	a, _ := l.memory.Acquire(ctx, e.Next, locker.Try{Wait: true, Place: -1})
	r, err := l.memory.Release(ctx, c, locker.End{})
	r.Waiting--
	r.Queued, r.Place = a.Queued, a.Place
	return r, err
}

type handsOwnOnly struct{ memory }

func (l handsOwnOnly) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if !l.renewed(c) {
		return locker.Released{}, locker.ErrLeaseLost
	}
	return l.memory.Release(ctx, c, e)
}

// givesUp gives claims up in a way of its own.
type givesUp struct {
	memory
	how func(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error)
}

func (l givesUp) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued {
		return l.how(ctx, c, e)
	}
	return l.memory.Release(ctx, c, e)
}

func (l givesUp) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(int, locker.Released, error),
) {
	for i, c := range cs {
		r, err := l.Release(ctx, c, ends[i])
		answered(i, r, err)
	}
}

type givesUpByProcess struct {
	memory
	mu sync.Mutex // guards at: claims are given up in the background
	at time.Time
}

func (l *givesUpByProcess) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.mu.Lock()
	if e.Queued && l.at.IsZero() {
		l.at = time.Now().Add(time.Second)
	}
	l.mu.Unlock()
	return l.memory.Release(ctx, c, e)
}

func (l *givesUpByProcess) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	l.mu.Lock()
	due := !l.at.IsZero() && time.Now().After(l.at)
	if due {
		l.at = time.Time{}
	}
	l.mu.Unlock()
	if due {
		_, _ = l.memory.Release(ctx, c, locker.End{Queued: true})
	}
	return a, err
}

type lastFirst struct{ memory }

func (l lastFirst) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	l.all.tries--
	t.Place = l.all.tries
	l.all.mu.Unlock()
	return l.memory.Acquire(ctx, c, t)
}

type changesTry struct {
	memory
	change func(t *locker.Try)
}

func (l changesTry) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.change(&t)
	return l.memory.Acquire(ctx, c, t)
}

type handsToItself struct{ memory }

func (l handsToItself) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	r, err := l.memory.Release(ctx, c, e)
	if err == nil && !r.Handed {
		a, _ := l.memory.Acquire(ctx, c, locker.Try{})
		r.Handed = a.Acquired
	}
	return r, err
}

type seesOnce struct {
	memory
	mu   sync.Mutex
	seen map[string]locker.Answer // by owner
}

func (l *seesOnce) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.seen[c.Owner]; ok && t.Queued && !l.renewed(c) {
		return a, nil
	}
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Queued {
		l.seen[c.Owner] = a
	}
	return a, err
}

type keepsQueue struct{ memory }

func (l keepsQueue) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	a, err := l.memory.Acquire(ctx, c, t)
	if a.Queued {
		l.all.mu.Lock()
		defer l.all.mu.Unlock()
		t.Queued, t.Place = false, a.Place
		l.all.again(c.Owner, func() { _, _ = l.memory.Acquire(context.Background(), c, t) })
	}
	return a, err
}

func (l keepsQueue) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	l.all.mu.Lock()
	for _, w := range l.all.queued {
		w.look()
	}
	l.all.queued = nil
	l.all.mu.Unlock()
	return l.memory.Release(ctx, c, e)
}

type seesAll struct{ keepsQueue }

func (l seesAll) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	l.all.mu.Lock()
	for _, w := range l.all.queued {
		w.look()
	}
	l.all.mu.Unlock()
	return l.keepsQueue.Acquire(ctx, c, t)
}

func (l seesAll) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	return l.memory.Release(ctx, c, e)
}
