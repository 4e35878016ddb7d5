package guard_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// oneServer is a store that serves renewals one by one, in the order in which
// they were sent. Each takes its time, and each answer is told at once.
// oneServer serves a renewal even when nobody waits for its answer any more.
type oneServer struct {
	guard.Locker
	each  time.Duration
	stall func(batch int) time.Duration // extra time of the answers to a batch

	mu      sync.Mutex // guards the fields below
	free    time.Time  // when every renewal that was sent is served
	batches int
}

// accept takes n renewals that are sent now. It returns when the first of them
// begins to be served, and the extra time of their answers.
func (s *oneServer) accept(n int) (begin time.Time, stall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin = time.Now()
	if begin.Before(s.free) {
		begin = s.free
	}
	s.free = begin.Add(time.Duration(n) * s.each)
	s.batches++
	return begin, s.stall(s.batches)
}

func (s *oneServer) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	begin, stall := s.accept(len(cs))
	for i, c := range cs {
		answer := time.NewTimer(time.Until(begin.Add(time.Duration(i+1)*s.each + stall)))
		select {
		case <-answer.C:
			s.Locker.Renew(ctx, []*locker.Claim{c}, func(_ int, err error) { answered(i, err) })
		case <-ctx.Done():
			answer.Stop()
			answered(i, guard.ErrUnavailable)
		}
	}
}

// lostOf returns how many of n leases of 1 s are lost in 6 s. The store takes
// 100 µs for each renewal, so it can do 10,000 a second. Leases that are
// renewed at a third of their TTL need 3 n a second.
func lostOf(t *testing.T, n int, stall func(batch int) time.Duration) (lost int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.New(&oneServer{Locker: memlocker.New(), each: 100 * time.Microsecond, stall: stall},
			guard.WithTTL(time.Second), guard.WithMaxHold(0), guard.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		leases := make([]*guard.Lease, n)
		for i := range leases {
			time.Sleep(time.Second / time.Duration(n))
			if leases[i], err = g.Acquire(t.Context(), strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(6 * time.Second)
		for _, l := range leases {
			if l.Err() != nil {
				lost++
			}
			_ = l.Release(t.Context())
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return lost
}

func noStall(int) time.Duration { return 0 }

func TestDo_LeasesThatCannotAllBeRenewedEarlyAreRenewedLater(t *testing.T) {
	t.Parallel()
	if n := lostOf(t, 6000, noStall); n > 0 {
		t.Errorf("%d of 6,000 leases lost: 18,000 renewals a second are more than the store can do, 6,000 are not", n)
	}
}

func TestDo_NoMoreLeasesAreLostThanCannotBeRenewed(t *testing.T) {
	t.Parallel()
	const n, can = 12_000, 7500 // 10,000 a second; each lease is renewed 0.76 s after its last renewal, or sooner
	if lost := lostOf(t, n, noStall); lost > n-can {
		t.Errorf("%d of %d leases lost, the store can renew %d", lost, n, can)
	}
}

func TestDo_ALateBatchCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	late := func(batch int) time.Duration {
		if batch%50 == 0 {
			return 700 * time.Millisecond
		}
		return 0
	}
	if n := lostOf(t, 2000, late); n > 2 { // some may be in four late batches in a row
		t.Errorf("%d of 2,000 leases lost to one late batch in fifty", n)
	}
	if n := lostOf(t, 2000, func(int) time.Duration { return 700 * time.Millisecond }); n == 0 {
		t.Error("nothing is lost though all batches are late: the check sees nothing")
	}
}

// The message of a release by force overtakes the answer to a renewal that the
// store has carried out before.
func TestForceRelease_IsHeardWhileARenewalIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		hung := must(b.Acquire(t.Context(), key))
		var released time.Time
		b.spy.set(func(s *spy) {
			s.renew = func(ctx context.Context, next func() []error) []error {
				errs := next()
				if released.IsZero() {
					released = time.Now()
					wantErr(t, b.other.ForceRelease(ctx, key, must(b.other.Inspect(ctx, key)).Owner), nil)
					time.Sleep(20 * time.Millisecond)
				}
				return errs
			}
		})
		<-hung.Context().Done()
		if d := time.Since(released); d > 50*time.Millisecond {
			t.Errorf("the holder heard after %v, want a message", d)
		}
		wantErr(t, hung.Release(t.Context()), guard.ErrLeaseLost)
	})
}
