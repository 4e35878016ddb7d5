package guard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// The model finds traps of the hand-over (model/README.md). Each has one test
// here on the real engine, with a locker whose messages the test delivers when
// it likes.

// courier keeps the messages of a locker to its guard until the test delivers
// them.
type courier struct {
	guard.Locker

	mu      sync.Mutex // guards the fields below
	waker   locker.Waker
	hold    bool // keep messages back
	pending []func() bool
}

func (c *courier) Open(w locker.Waker) error {
	c.waker = w
	return c.Locker.Open(c)
}

func (c *courier) Granted(key, owner string, o locker.Offer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hold {
		return c.waker.Granted(key, owner, o)
	}
	c.pending = append(c.pending, func() bool { return c.waker.Granted(key, owner, o) })
	return true
}

func (c *courier) Wanted(key string) { c.waker.Wanted(key) }
func (c *courier) Wake(key string)   { c.waker.Wake(key) }
func (c *courier) WakeAll()          { c.waker.WakeAll() }

func (c *courier) keepBack(hold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = hold
}

// deliver delivers the messages that were kept back. It returns how many of
// them the guard knew.
func (c *courier) deliver() (known int) {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, m := range pending {
		if m() {
			known++
		}
	}
	return known
}

// pairWithCourier returns a bench whose own guard gets its messages by courier.
func pairWithCourier(t *testing.T, opts ...guard.Option) (*bench, *courier) {
	t.Helper()
	c := &courier{}
	b := newBenchWith(t, func(l guard.Locker) guard.Locker { c.Locker = l; return c }, opts...)
	return b, c
}

// A lease that was handed over is short until its second renewal. A slow line
// does not cost it, if an answer takes a quarter of the offer.
func TestDo_ASlowLineKeepsALeaseThatWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithTTL(4*time.Second), guard.WithMaxWait(time.Minute))
		b.spy.set(func(s *spy) {
			s.renew = func(ctx context.Context, next func() []error) []error {
				select {
				case <-time.After(330 * time.Millisecond):
					return next()
				case <-ctx.Done():
					return []error{guard.ErrUnavailable}
				}
			}
		})
		l := must(b.other.Acquire(t.Context(), key))
		time.AfterFunc(100*time.Millisecond, func() { _ = l.Release(t.Context()) })
		handed := must(b.Acquire(t.Context(), key))
		time.Sleep(10 * time.Second)
		wantErr(t, handed.Release(t.Context()), nil)
	})
}

func TestDo_AnOfferIsTrustedFromTheLookAndNotFromItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := pairWithCourier(t, guard.WithMaxWait(time.Minute))
		l := must(b.other.Acquire(t.Context(), key))
		done := make(chan struct{})
		// The looks after the first go unanswered. Only the message can tell.
		b.spy.set(func(s *spy) {
			var looks int
			s.acquire = func(ctx context.Context, _ *locker.Claim,
				next func() (locker.Answer, error),
			) (locker.Answer, error) {
				if looks++; looks == 1 {
					return next()
				}
				<-ctx.Done()
				return locker.Answer{}, guard.ErrUnavailable
			}
		})
		c.keepBack(true)
		var theirs atomic.Bool
		go func() {
			defer close(done)
			err := b.Do(t.Context(), key, func(context.Context) error {
				if theirs.Load() {
					t.Error("two at once")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		_ = l.Release(t.Context())
		time.Sleep(1100 * time.Millisecond) // the offer is over
		next := must(b.other.Acquire(t.Context(), key))
		theirs.Store(true)
		b.spy.set(func(s *spy) { s.acquire = nil })
		c.deliver()
		time.Sleep(time.Second)
		theirs.Store(false)
		_ = next.Release(t.Context())
		time.Sleep(time.Second)
		c.keepBack(false)
		<-done
	})
}

func TestDo_ALateMessageDoesNotFreeWhatALookHasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := pairWithCourier(t)
		l := must(b.other.Acquire(t.Context(), key))
		c.keepBack(true)
		got := make(chan *guard.Lease)
		go func() { got <- must(b.Acquire(t.Context(), key)) }()
		synctest.Wait()
		_ = l.Release(t.Context())
		mine := <-got // by a look
		if n := c.deliver(); n != 1 {
			t.Errorf("%d messages were known, want the one of the grant that is held", n)
		}
		if err := b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err == nil {
			t.Error("the key was freed under its holder")
		}
		_ = mine.Release(t.Context())
	})
}

func TestDo_AGrantForOneWhoHasLeftGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := pairWithCourier(t)
		l := must(b.other.Acquire(t.Context(), key))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Do(ctx, key, nop) }()
		synctest.Wait()
		c.keepBack(true)
		_ = l.Release(t.Context()) // hands over to b, which has not heard of it
		cancel()
		synctest.Wait()
		if err := b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err != nil {
			t.Errorf("the key is stuck: %v", err)
		}
		c.deliver()
	})
}

func TestDo_AGrantGoesToTheNextInLineIfItsWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pairWithCourier(t)
		l := must(b.other.Acquire(t.Context(), key))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Do(ctx, key, nop) }()
		synctest.Wait()
		ran := make(chan time.Duration)
		go func() {
			start := time.Now()
			_ = b.Do(t.Context(), key, nop)
			ran <- time.Since(start)
		}()
		synctest.Wait()
		tries := b.spy.acquires.Load()
		cancel()
		synctest.Wait()
		_ = l.Release(t.Context())
		if d := <-ran; d != 0 {
			t.Errorf("the next in line waited %v", d)
		}
		if n := b.spy.acquires.Load() - tries; n != 0 {
			t.Errorf("it sent %d tries, want to go on with the bid of the one who left", n)
		}
	})
}

// A bid has terms, and the grant that it wins has no others.
func TestDo_ABidOfOneWhoLeftIsNotKeptForACallOnOtherTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pairWithCourier(t)
		l := must(b.other.Acquire(t.Context(), key))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.With(guard.WithTTL(time.Second)).Do(ctx, key, nop) }()
		synctest.Wait()
		got := make(chan *guard.Lease)
		go func() { got <- must(b.With(guard.WithTTL(30*time.Second)).Acquire(t.Context(), key)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := b.spy.abandons.Load(); n != 1 {
			t.Errorf("%d bids were abandoned, want that of the one who left", n)
		}
		_ = l.Release(t.Context())
		mine := <-got
		time.Sleep(2 * time.Second) // a key that was handed over is renewed twice by then
		if left := time.Until(mine.Deadline()); left < 20*time.Second {
			t.Errorf("%v are left of a TTL of 30 s", left)
		}
		_ = mine.Release(t.Context())
	})
}

// A turn that is passed on within the process has the terms of its grant.
func TestDo_WhoAsksForMoreThanTheGrantHasGetsAGrantOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct{ has, asks []guard.Option }{
		"a longer TTL":  {[]guard.Option{guard.WithTTL(time.Second)}, []guard.Option{guard.WithTTL(30 * time.Second)}},
		"a shorter TTL": {[]guard.Option{guard.WithTTL(30 * time.Second)}, []guard.Option{guard.WithTTL(time.Second)}},
		"renewal":       {[]guard.Option{guard.WithoutRenewal()}, nil},
		"no renewal":    {nil, []guard.Option{guard.WithoutRenewal()}},
		"fencing":       {nil, []guard.Option{guard.WithFencing()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				first := must(b.With(c.has...).Acquire(t.Context(), key))
				got := make(chan *guard.Lease)
				go func() { got <- must(b.With(c.asks...).Acquire(t.Context(), key)) }()
				synctest.Wait()
				releases := b.spy.releases.Load()
				_ = first.Release(t.Context())
				next := <-got
				if b.spy.releases.Load() == releases {
					t.Error("it was given the grant of the turn before")
				}
				_ = next.Release(t.Context())
			})
		})
	}
}

func TestDo_ATakeOverTakesOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithFencing())
		l := must(b.other.Acquire(t.Context(), key))
		before := must(l.FencingToken(t.Context()))
		var token uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Do(t.Context(), key, func(ctx context.Context) error {
				token = must(guard.FencingToken(ctx))
				return nil
			})
		}()
		synctest.Wait()
		tries, fences := b.spy.acquires.Load(), b.spy.fences.Load()
		_ = l.Release(t.Context())
		<-done
		if n := b.spy.acquires.Load() - tries; n != 0 {
			t.Errorf("%d tries after the release", n)
		}
		if n := b.spy.fences.Load() - fences; n != 0 || token <= before {
			t.Errorf("%d fetches, token %d after %d: want it to come with the key", n, token, before)
		}
	})
}

func TestDo_AHandedOverLeaseIsRenewedToItsFullTTL(t *testing.T) {
	for name, opt := range map[string]guard.Option{
		"renewed":         guard.WithMaxHold(0),
		"without renewal": guard.WithoutRenewal(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, opt)
				l := must(b.other.Acquire(t.Context(), key))
				done := make(chan error)
				go func() {
					done <- b.Do(t.Context(), key, func(ctx context.Context) error {
						time.Sleep(9 * time.Second)
						return context.Cause(ctx)
					})
				}()
				synctest.Wait()
				_ = l.Release(t.Context())
				if err := <-done; err != nil {
					t.Errorf("lost: %v", err)
				}
			})
		})
	}
}

func TestDo_AnOfferThatAgedIsAcquiredAgainUnderTheSameOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := pairWithCourier(t, guard.WithMaxWait(time.Minute))
		l := must(b.other.Acquire(t.Context(), key))
		got := make(chan *guard.Lease)
		go func() { got <- must(b.Acquire(t.Context(), key)) }()
		synctest.Wait()
		c.keepBack(true)
		b.spy.set(func(s *spy) { // looks hang until their limit and do not reach the store
			s.acquire = func(ctx context.Context, _ *locker.Claim,
				_ func() (locker.Answer, error),
			) (locker.Answer, error) {
				<-ctx.Done()
				return locker.Answer{}, guard.ErrUnavailable
			}
		})
		_ = l.Release(t.Context())
		time.Sleep((&locker.Claim{TTL: 10 * time.Second}).LongOffer() * 4 / 5)
		b.spy.set(func(s *spy) { s.acquire = nil })
		c.deliver()
		mine := <-got
		if left := time.Until(mine.Deadline()); left < 9*time.Second {
			t.Errorf("%v are left, want a full lease", left)
		}
		_ = mine.Release(t.Context())
	})
}

func TestDo_AClaimThatCameTooLateNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := pairWithCourier(t, guard.WithMaxWait(time.Minute))
		l := must(b.other.Acquire(t.Context(), key))
		got := make(chan *guard.Lease)
		go func() { got <- must(b.Acquire(t.Context(), key)) }()
		synctest.Wait()
		c.keepBack(true)
		b.spy.set(func(s *spy) {
			s.acquire = func(ctx context.Context, _ *locker.Claim,
				_ func() (locker.Answer, error),
			) (locker.Answer, error) {
				<-ctx.Done()
				return locker.Answer{}, guard.ErrUnavailable
			}
		})
		_ = l.Release(t.Context())
		time.Sleep(1100 * time.Millisecond) // the grant comes, but too late
		next := must(b.other.Acquire(t.Context(), key))
		b.spy.set(func(s *spy) { s.acquire, s.owners = nil, s.owners[:1] })
		time.Sleep(time.Second)
		c.keepBack(false)
		b.spy.set(func(s *spy) {
			if first, last := s.owners[0], s.owners[len(s.owners)-1]; first == last {
				t.Error("it was queued again under the same owner id")
			}
		})
		released := time.Now()
		_ = next.Release(t.Context())
		mine := <-got
		if d := time.Since(released); d != 0 {
			t.Errorf("got the key %v after the release", d)
		}
		_ = mine.Release(t.Context())
	})
}

func TestDo_ABidForOneWhoLeftDuringTheReleaseIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := pairWithCourier(t)
		l := must(b.Acquire(t.Context(), key))
		theirs := make(chan *guard.Lease)
		go func() { theirs <- must(b.other.Acquire(t.Context(), key)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Do(ctx, key, nop) }()
		synctest.Wait()
		b.spy.set(func(s *spy) {
			s.release = func(_ context.Context, next func() (locker.Released, error)) (locker.Released, error) {
				r, err := next() // queues the call in line behind the other process
				cancel()
				time.Sleep(time.Millisecond)
				return r, err
			}
		})
		time.Sleep(150 * time.Millisecond) // so that the tenure is over
		_ = l.Release(t.Context())
		synctest.Wait()
		if n := b.spy.abandons.Load(); n != 1 {
			t.Errorf("%d claims were given up, want the one that the release queued", n)
		}
		_ = (<-theirs).Release(t.Context())
		if err := b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop); err != nil {
			t.Errorf("the key went to nobody: %v", err)
		}
	})
}
