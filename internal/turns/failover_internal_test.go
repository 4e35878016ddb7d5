package turns

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A primary is one process's way to a store that loses its last write. A
// renewal that it answers never reaches the replica, which is the store that
// remains. After that it answers no renewal until the replica is in its place.
type primary struct {
	*memlocker.Locker

	renewals atomic.Int64
	fails    bool          // with the first renewal; set before it
	over     time.Duration // how long the failover takes
	died     time.Time     // the renewals', which come one after the other
}

func (p *primary) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	n := p.renewals.Add(1)
	switch {
	case p.fails && n == 1:
		p.died = time.Now()
		for i := range cs {
			answered(i, nil)
		}
	case p.fails && time.Since(p.died) < p.over:
		for i := range cs {
			answered(i, fmt.Errorf("%w: a failover", locker.ErrUnavailable))
		}
	default:
		p.Locker.Renew(ctx, cs, answered)
	}
}

// shortLeases are the ways in which a lease begins that is shorter than its
// TTL: how p gets the key from other, and with which settings.
func shortLeases() map[string]func(t *testing.T, p, other *Engine) *Turn {
	handed := func(s Settings) func(t *testing.T, p, other *Engine) *Turn {
		return func(t *testing.T, p, other *Engine) *Turn {
			t.Helper()
			alone := s
			alone.Limit = 0
			before := mustTake(t, other, alone)
			got := make(chan *Turn, 1)
			go func() { got <- mustTake(t, p, s) }()
			synctest.Wait()
			time.Sleep(time.Second / 2) // the look that queued the claim is older than the offer
			mustEnd(t, before)
			return <-got
		}
	}
	long := settings()
	long.TTL = 30 * time.Second
	brief := settings()
	brief.TTL = 2 * time.Second
	once := settings()
	once.NoRenewal = true
	return map[string]func(t *testing.T, p, other *Engine) *Turn{
		"an offer":            handed(settings()),
		"an offer of 30 s":    handed(long),
		"an offer of 2 s":     handed(brief),
		"a shared offer":      handed(limited(locker.NoLimit)),
		"an offered permit":   handed(limited(3)),
		"WithoutRenewal":      handed(once),
		"a key that lingers":  lingersFirst,
		"a key that was idle": lingersAgain,
	}
}

// lingersFirst returns a turn that acquired a key that lingers.
func lingersFirst(t *testing.T, p, _ *Engine) *Turn {
	t.Helper()
	for range lingerRow {
		mustEnd(t, mustTake(t, p, lingering()))
	}
	return mustTake(t, p, lingering())
}

func lingersAgain(t *testing.T, p, other *Engine) *Turn {
	t.Helper()
	mustEnd(t, lingersFirst(t, p, other))
	return mustTake(t, p, lingering())
}

// After a failover the key lasts as long as the replica says. A holder whose
// only renewal was lost must not rely on it for longer.
func TestAFailoverThatLosesARenewalGivesNobodyElseTheKey(t *testing.T) {
	for name, take := range shortLeases() {
		for _, over := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 7 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, ", a failover of ", over), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memlocker.New()
					p := &primary{Locker: store.Peer(), over: over}
					holders, others := open(t, p), open(t, store.Peer())
					turn := take(t, holders, others)
					if turn.grant.trust.length >= turn.set.TTL {
						t.Fatalf("the lease begins with %v", turn.grant.trust.length)
					}
					p.fails = true
					p.renewals.Store(0)
					began := time.Now()
					s := settings()
					s.MaxWait = time.Minute
					go func() { // it holds for as long as it may
						for turn.Err() == nil && time.Since(began) < 20*time.Second {
							time.Sleep(time.Millisecond)
						}
						_ = end(t.Context(), turn)
					}()
					next := mustTake(t, others, s)
					if err := turn.Err(); err == nil && turn.Deadline().After(time.Now()) && turnIsOn(turn) {
						t.Errorf("two turns, %v after the key was handed over", time.Since(began))
					}
					mustEnd(t, next)
					time.Sleep(time.Minute)
					closed(t, others)
					if err := holders.Close(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// turnIsOn reports whether the turn has not ended.
func turnIsOn(t *Turn) bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	return t.listed
}

// A lease that grows costs one renewal more than one with its full TTL, and a
// turn that ends within a third of its offer none.
func TestTheCostOfALeaseThatGrows(t *testing.T) {
	for name, c := range map[string]struct {
		lasts    time.Duration
		renewals int64
	}{
		"ends before the first":          {limits.OfferRenewal - 5*time.Millisecond, 0},
		"within a third of its offer":    {time.Second, 1},
		"behind it":                      {1500 * time.Millisecond, 2},
		"until a third of the TTL later": {4 * time.Second, 2},
		"for long":                       {60 * time.Second, 2 + 17},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlocker.New()
				p := &primary{Locker: store.Peer()}
				e, other := open(t, p), open(t, store.Peer())
				turn := shortLeases()["an offer"](t, e, other)
				time.Sleep(c.lasts)
				n := p.renewals.Load()
				if n < c.renewals-1 || n > c.renewals+1 || c.renewals <= 2 && n != c.renewals {
					t.Errorf("%d renewals, want %d", n, c.renewals)
				}
				mustEnd(t, turn)
				closed(t, e)
				closed(t, other)
			})
		})
	}
}

// A claim that rests has not been looked at for a while when the key is handed
// over, so the offer is trusted for less. The renewals that make it longer come
// while it is.
func TestAnOfferToAClaimThatRestsGrowsInTime(t *testing.T) {
	for age := time.Duration(0); age < 2300*time.Millisecond; age += 50 * time.Millisecond {
		t.Run(age.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlocker.New()
				e, other := open(t, store.Peer()), open(t, store.Peer())
				before := mustTake(t, other, settings())
				e.paused.Add(4000) // keys: each look comes after 2 to 4 s
				s := settings()
				s.MaxWait = time.Minute
				got := make(chan *Turn, 1)
				go func() { got <- mustTake(t, e, s) }()
				for unseen(e) < age {
					time.Sleep(10 * time.Millisecond)
				}
				mustEnd(t, before)
				turn := <-got
				time.Sleep(5 * time.Second)
				if err := turn.Err(); err != nil {
					t.Error(err)
				}
				_ = end(t.Context(), turn)
				closed(t, e)
				closed(t, other)
			})
		})
	}
}

// unseen returns how long ago the request was sent that last saw the bid of
// stageKey in the queue.
func unseen(e *Engine) time.Duration {
	synctest.Wait()
	gt := e.gates.find(stageKey)
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if b := gt.contender.bid; b != nil && b.queued {
		return time.Since(b.seen)
	}
	return -1
}
