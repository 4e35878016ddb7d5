package rowlocker

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// counted are Rows that count requests.
type counted struct {
	memTickets
	n *atomic.Int64
}

func (c counted) Load(ctx context.Context, keys []string) ([]Row, error) {
	c.n.Add(1)
	return c.memTickets.Load(ctx, keys)
}

func (c counted) Swap(ctx context.Context, changes []*Change) error {
	c.n.Add(1)
	return c.memTickets.Swap(ctx, changes)
}

func (c counted) Dead(ctx context.Context, instances []string) ([]string, error) {
	c.n.Add(1)
	return c.memTickets.Dead(ctx, instances)
}

// budget counts what each step of a story costs on a store like etcd.
type budget struct {
	*testing.T
	ls []*Locker
	n  atomic.Int64
}

func newBudget(t *testing.T) *budget {
	t.Helper()
	b := &budget{T: t}
	b.ls, _ = peers(t, 4, func(m *memRows) *Locker {
		m.members, m.batch = true, 50
		return New(counted{memTickets{memPulse{memEars{m}}}, &b.n})
	})
	return b
}

// costs fails if f makes more requests than most, until all is quiet.
func (b *budget) costs(what string, most int64, f func()) {
	b.Helper()
	before := b.n.Load()
	f()
	synctest.Wait()
	if n := b.n.Load() - before; n > most {
		b.Errorf("%s: %d requests, want %d", what, n, most)
	}
	time.Sleep(time.Millisecond)
}

// acquire asks for the key of c, and reports whether c owns it.
func (b *budget) acquire(at int, c *locker.Claim, t locker.Try) (owns bool) {
	b.Helper()
	a, err := b.ls[at].Acquire(b.Context(), c, t)
	if err != nil || !a.Acquired && !a.Queued {
		b.Fatalf("Acquire: %+v, %v", a, err)
	}
	return a.Acquired
}

func (b *budget) release(at int, c, next *locker.Claim) {
	b.Helper()
	if _, err := b.ls[at].Release(b.Context(), c, locker.End{Next: next}); err != nil {
		b.Fatal(err)
	}
}

func (b *budget) renew(at int, cs ...*locker.Claim) {
	b.Helper()
	b.ls[at].Renew(b.Context(), cs, func(_ int, err error) {
		if err != nil {
			b.Error(err)
		}
	})
}

var (
	waits = locker.Try{Wait: true}
	looks = locker.Try{Wait: true, Queued: true}
)

func TestRequestsOfAKeyThatOneClaimOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		c, d, e, next := wants('c', 1), wants('d', 1), wants('e', 1), wants('n', 1)
		b.costs("an acquire", 1, func() { b.acquire(0, c, waits) })
		b.costs("a release", 1, func() { b.release(0, c, nil) })
		c = wants('C', 1)
		b.costs("an acquire", 1, func() { b.acquire(0, c, waits) })
		b.costs("a renewal", 1, func() { b.renew(0, c) })
		b.costs("a fence", 1, func() { _, _ = b.ls[0].Fence(t.Context(), c) })
		b.costs("a join", 2, func() { b.acquire(1, d, waits) })
		b.costs("a look", 1, func() { b.acquire(1, d, looks) })
		b.costs("a join of a row that is known", 1, func() { b.acquire(1, e, waits) })
		b.costs("a hand-over, with a next", 1, func() { b.release(0, c, next) })
		b.costs("an acquire of a key that was handed over", 1, func() {
			if !b.acquire(1, d, looks) {
				t.Error("the key was not handed over")
			}
		})
		again := wants('A', 1)
		b.costs("a hand-over", 1, func() { b.release(1, d, nil) })
		b.costs("a join right behind a hand-over", 1, func() {
			b.acquire(1, again, locker.Try{Wait: true, Held: true})
		})
		b.costs("a hand-over", 1, func() { b.release(1, e, nil) })
		b.costs("a hand-over", 1, func() { b.release(0, next, nil) })
		b.costs("a release", 1, func() { b.release(1, again, nil) })
	})
}

func TestRequestsOfShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		c, d, alone := wants('c', locker.NoLimit), wants('d', locker.NoLimit), wants('a', 1)
		b.costs("the first share", 1, func() { b.acquire(0, c, waits) })
		b.costs("the second share", 2, func() { b.acquire(1, d, waits) })
		b.costs("a renewal", 1, func() { b.renew(1, d) })
		b.costs("a claim alone behind them", 2, func() { b.acquire(2, alone, waits) })
		b.costs("its look", 1, func() { b.acquire(2, alone, looks) })
		b.costs("a release with others", 2, func() { b.release(0, c, nil) })
		b.costs("a release with a waiter", 2, func() { b.release(1, d, nil) })
		e, f := wants('e', locker.NoLimit), wants('f', locker.NoLimit)
		b.costs("a share behind a claim alone", 2, func() { b.acquire(3, e, waits) })
		b.costs("another", 1, func() { b.acquire(3, f, waits) })
		b.costs("a hand-over to several", 1, func() { b.release(2, alone, nil) })
		b.costs("an acquire of a share that was handed over", 1, func() {
			if !b.acquire(3, e, looks) {
				t.Error("the share was not handed over")
			}
		})
		b.costs("a renewal of two shares of a key", 1, func() { b.renew(3, e, f) })
	})
}

func TestRequestsOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		c, d, e := wants('c', 2), wants('d', 2), wants('e', 2)
		for _, c := range []*locker.Claim{c, d, e} {
			c.Fencing = true
		}
		b.costs("the first permit", 1, func() { b.acquire(0, c, waits) })
		b.costs("the second", 1, func() { b.acquire(0, d, waits) })
		b.costs("a wait", 2, func() { b.acquire(1, e, waits) })
		b.costs("a hand-over", 1, func() { b.release(0, c, nil) })
		b.costs("a renewal", 2, func() { b.renew(1, e) })
		b.costs("a release", 2, func() { b.release(0, d, nil) })
	})
}

func TestRequestsOfSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		for range 2 {
			var cs []*locker.Claim
			for i := range locker.MaxSeveral {
				c := wants(byte('0'+i), 1)
				c.Key = "k" + strconv.Itoa(i)
				cs = append(cs, c)
			}
			b.costs("64 keys together", 1, func() {
				if _, n, err := b.ls[0].AcquireAll(t.Context(), cs, false); n < len(cs) || err != nil {
					t.Errorf("%d of 64 keys, %v", n, err)
				}
			})
			b.costs("their release, which may begin before the last is posted", 6, func() {
				ends := make([]locker.End, len(cs))
				b.ls[0].ReleaseAll(t.Context(), cs, ends, func(_ int, _ locker.Released, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			})
		}
	})
}

// far are Rows that are two milliseconds away.
type far struct{ counted }

func (f far) Swap(ctx context.Context, changes []*Change) error {
	time.Sleep(2 * time.Millisecond)
	return f.counted.Swap(ctx, changes)
}

func TestRequestsOfAThousandLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		l := New(far{counted{memTickets{memPulse{memEars{&memRows{w: newWorld(), members: true, batch: 50}}}}, &n}})
		g, err := guard.New(l, guard.WithTTL(3*time.Second), guard.WithMaxHold(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		leases := make([]*guard.Lease, 1000)
		for w := range 25 {
			all.Go(func() {
				for i := range 40 {
					lease, err := g.Acquire(t.Context(), strconv.Itoa(w*40+i))
					if err != nil {
						t.Error(err)
						return
					}
					leases[w*40+i] = lease
				}
			})
		}
		all.Wait()
		before := n.Load()
		time.Sleep(10 * time.Second)
		if renewals := n.Load() - before; renewals > 940 {
			t.Errorf("1,000 leases of 3 s take %d requests in 10 s", renewals)
		}
		for _, lease := range leases {
			_ = lease.Release(t.Context())
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t)
		for n, most := range map[int]int64{inlineMax: 1, inlineMax + 1: 2} {
			c, d := wants('c', 0), wants('d', 0)
			c.Key, d.Key, c.Recall, d.Recall = strconv.Itoa(n), strconv.Itoa(n), true, true
			b.costs("an acquire", 1, func() { b.acquire(0, c, waits) })
			b.costs("a mark", 1, func() {
				if _, err := b.ls[0].Begin(t.Context(), c, locker.Record{Value: "m", TTL: time.Hour}); err != nil {
					t.Error(err)
				}
			})
			r := locker.Record{Value: string(make([]byte, n)), TTL: time.Hour}
			b.costs("a record", 1, func() {
				if _, err := b.ls[0].Release(t.Context(), c, locker.End{Record: r}); err != nil {
					t.Error(err)
				}
			})
			b.costs("a recall", most, func() {
				a, err := b.ls[1].Acquire(t.Context(), d, locker.Try{Held: true})
				if err != nil || a.Record != r.Value {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
	})
}
