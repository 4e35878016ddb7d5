package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/memlocker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The code of shared-results.md.

type accessToken struct {
	AccessToken string
	Expiry      time.Time
}

type tokenSource interface {
	Token() (*accessToken, error)
}

// sharedTokens is an oauth2.TokenSource for all instances.
type sharedTokens struct {
	ctx    context.Context //nolint:containedctx // Token has none
	guard  *guard.Guard
	client string
	source tokenSource // asks the server, each time
}

func (s *sharedTokens) Token() (*accessToken, error) {
	return guard.Once(s.ctx, s.guard, guard.Key("token", s.client), time.Minute,
		func(ctx context.Context) (*accessToken, error) {
			t, err := s.source.Token()
			if err != nil {
				return nil, err // not kept: the next call asks again
			}
			return t, guard.KeepFor(ctx, max(0, time.Until(t.Expiry)-time.Minute))
		})
}

type report struct{ Sold int }

// reports computes one report at a time, and everybody gets it.
type reports struct {
	guard   *guard.Guard // with guard.WithFailOpen(guard.OnceToo)
	compute func(ctx context.Context, day string) (report, error)
}

func (s *reports) get(ctx context.Context, day string) (report, error) {
	return guard.Once(ctx, s.guard, guard.Key("report", day), 5*time.Minute, func(ctx context.Context) (report, error) {
		return s.compute(ctx, day)
	})
}

type server struct {
	life time.Duration
	n    atomic.Int64
}

func (s *server) Token() (*accessToken, error) {
	time.Sleep(50 * time.Millisecond)
	return &accessToken{fmt.Sprint("secret ", s.n.Add(1)), time.Now().Add(s.life)}, nil
}

func everybodyGets(t *testing.T, want string, sources ...*sharedTokens) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range sources {
		for range 10 {
			wg.Go(func() {
				if got, err := s.Token(); err != nil || got.AccessToken != want {
					t.Errorf("got %v, %v, want %q", got, err, want)
				}
			})
		}
	}
	wg.Wait()
}

func TestATokenIsRefreshedOnceOverAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		s := &server{life: time.Hour}
		a := &sharedTokens{t.Context(), sharingGuard(t, mem), "billing", s}
		b := &sharedTokens{t.Context(), sharingGuard(t, mem.Peer()), "billing", s}
		everybodyGets(t, "secret 1", a, b)
		time.Sleep(58 * time.Minute)
		everybodyGets(t, "secret 1", a, b)
		time.Sleep(2 * time.Minute)
		everybodyGets(t, "secret 2", a, b)
		s.life = 30 * time.Second // too short to be shared
		time.Sleep(time.Hour)
		if first, _ := a.Token(); first.AccessToken != "secret 3" {
			t.Errorf("got %v", first)
		}
		everybodyGets(t, "secret 1", &sharedTokens{t.Context(), a.guard, "another client", &server{life: time.Hour}})
	})
}

func TestATokenIsRefreshedOnceOnRedis(t *testing.T) {
	addr := redistest.Start(t).Addr
	s := &server{life: time.Hour}
	var all []*sharedTokens
	for range 3 {
		g := sharingGuard(t, redislocker.New(redistest.Client(t, addr)))
		all = append(all, &sharedTokens{t.Context(), g, "billing", s})
	}
	everybodyGets(t, "secret 1", all...)
}

func TestOneComputesAndAllGetIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlocker.New()
		var runs atomic.Int64
		of := func(l guard.Locker) *reports {
			g := sharingGuard(t, l, guard.WithFailOpen(guard.OnceToo))
			return &reports{g, func(context.Context, string) (report, error) {
				time.Sleep(time.Second)
				return report{int(runs.Add(1))}, nil
			}}
		}
		a, b := of(mem), of(mem.Peer())
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if r, err := []*reports{a, b}[i%2].get(t.Context(), "2026-11-24"); err != nil || r.Sold != 1 {
					t.Errorf("got %v, %v", r, err)
				}
			})
		}
		wg.Wait()
		defer mem.Break()()
		if r, err := b.get(t.Context(), "2026-11-24"); err != nil || r.Sold != 2 {
			t.Errorf("in an outage: got %v, %v, want one of its own", r, err)
		}
	})
}

func sharingGuard(t *testing.T, l guard.Locker, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(l, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
	return g
}
