package guard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.LastDials{M: m}) }

const key = "stock:1"

// What hooks call for the answer of the store.
type (
	acquires = func() (locker.Answer, error)
	releases = func() (locker.Released, error)
)

// A spy is a locker around another one. It counts the requests of the gate, and
// can change or delay them.
type spy struct {
	guard.Locker
	acquires, renewals, fences, releases atomic.Int64

	mu        sync.Mutex      // guards the fields below
	owners    []string        // of each try
	givenUp   map[string]bool // by owner
	renewedAt time.Time
	acquire   func(ctx context.Context, c *locker.Claim, next acquires) (locker.Answer, error)
	renew     func(ctx context.Context, next func() []error) []error
	fence     func(ctx context.Context, next func() (uint64, error)) (uint64, error)
	release   func(ctx context.Context, next releases) (locker.Released, error)
}

func (s *spy) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	s.acquires.Add(1)
	s.mu.Lock()
	s.owners = append(s.owners, c.Owner)
	hook := s.acquire
	s.mu.Unlock()
	next := func() (locker.Answer, error) { return s.Locker.Acquire(ctx, c, t) }
	if hook != nil {
		return hook(ctx, c, next)
	}
	return next()
}

func (s *spy) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	s.renewals.Add(1)
	s.mu.Lock()
	s.renewedAt = time.Now()
	hook := s.renew
	s.mu.Unlock()
	if hook == nil {
		s.Locker.Renew(ctx, cs, answered)
		return
	}
	errs := hook(ctx, func() []error {
		errs := make([]error, len(cs))
		s.Locker.Renew(ctx, cs, func(i int, err error) { errs[i] = err })
		return errs
	})
	for i := range cs { // a batch may have more claims than a hook has errors
		answered(i, errs[min(i, len(errs)-1)])
	}
}

func (s *spy) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	s.fences.Add(1)
	s.mu.Lock()
	hook := s.fence
	s.mu.Unlock()
	next := func() (uint64, error) { return s.Locker.Fence(ctx, c) }
	if hook != nil {
		return hook(ctx, next)
	}
	return next()
}

func (s *spy) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if e.Queued {
		s.note(c, e)
		return s.Locker.Release(ctx, c, e)
	}
	s.releases.Add(1)
	s.mu.Lock()
	hook := s.release
	s.mu.Unlock()
	next := func() (locker.Released, error) { return s.Locker.Release(ctx, c, e) }
	if hook != nil {
		return hook(ctx, next)
	}
	return next()
}

func (s *spy) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(int, locker.Released, error),
) {
	for i, c := range cs {
		s.note(c, ends[i])
	}
	s.Locker.ReleaseAll(ctx, cs, ends, answered)
}

// note notes a claim that is given up.
func (s *spy) note(c *locker.Claim, e locker.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Queued && s.givenUp == nil {
		s.givenUp = make(map[string]bool)
	}
	if e.Queued {
		s.givenUp[c.Owner] = true
	}
}

// The hooks of a store that hangs.
func hangAcquire(ctx context.Context, _ *locker.Claim, _ acquires) (locker.Answer, error) {
	<-ctx.Done()
	return locker.Answer{}, guard.ErrUnavailable
}

func hangRenew(ctx context.Context, _ func() []error) []error {
	<-ctx.Done()
	return []error{guard.ErrUnavailable}
}

// refuse returns the hook of a store that answers each try with err.
func refuse(err error) func(context.Context, *locker.Claim, acquires) (locker.Answer, error) {
	return func(context.Context, *locker.Claim, acquires) (locker.Answer, error) { return locker.Answer{}, err }
}

// claimsGivenUp counts the claims that were given up.
func (s *spy) claimsGivenUp() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.givenUp)
}

// set changes the hooks while calls may be under way.
func (s *spy) set(change func(s *spy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// bench is a guard with its locker, and a second guard on the same store. The
// second one acts as another process.
type bench struct {
	*guard.Guard
	mem   *memlocker.Locker
	spy   *spy
	other *guard.Guard
}

func newBench(t *testing.T, opts ...guard.Option) *bench {
	t.Helper()
	return newBenchWith(t, func(l guard.Locker) guard.Locker { return l }, opts...)
}

// newBenchWith has the guard use the locker that wrap makes of the spy.
func newBenchWith(t *testing.T, wrap func(guard.Locker) guard.Locker, opts ...guard.Option) *bench {
	t.Helper()
	b := &bench{mem: memlocker.New()}
	b.spy = &spy{Locker: b.mem}
	b.Guard = newGuard(t, wrap(b.spy), opts...)
	b.other = newGuard(t, b.mem.Peer(), opts...)
	return b
}

func newGuard(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	return testguard.New(t, l, opts...)
}

// must is for calls that cannot fail unless the test is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantErr(t *testing.T, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Fatalf("got error %v, want one that Is %v", got, w)
		}
	}
}

func nop(context.Context) error { return nil }

// Capabilities are those of the calls that s counts.
func (s *spy) Capabilities() locker.Capabilities {
	can := s.Locker.Capabilities()
	can.Several, can.Records, can.Inspects = false, false, false
	return can
}

// sleeps returns a function that takes the time d.
func sleeps(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}
