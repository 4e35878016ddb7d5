//go:build unix

package mysqllocker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/sqltest"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/mysqllocker"
)

// TestTheServerIsKilled kills the server while two guards, with callers that
// wait, share a key, and starts it again.
func TestTheServerIsKilled(t *testing.T) {
	server, err := sqltest.StartMySQL("innodb-flush-log-at-trx-commit=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close) // after the guards, which would wait for it else
	var s sections
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for range 2 {
		g := byURL(t, server.URL)
		for range 4 {
			callers.Go(func() {
				for ctx.Err() == nil {
					err := g.Do(ctx, "hot", s.run)
					if err != nil && ctx.Err() == nil && !errors.Is(err, guard.ErrLeaseLost) {
						t.Error(err)
					}
				}
			})
		}
	}
	for range 2 {
		s.more(t)
		kept := byURL(t, server.URL)
		lease, err := kept.Acquire(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		server.Kill()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		s.more(t)
		k, err := byURL(t, server.URL).Inspect(t.Context(), "kept")
		if err != nil || !k.Held {
			t.Errorf("%+v, %v; want that a lease outlives the crash", k, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if s.overlaps.Load() > 0 || s.falls.Load() > 0 {
		t.Errorf("%d sections beside another, %d tokens that fell", s.overlaps.Load(), s.falls.Load())
	}
}

// byURL returns a guard with fencing tokens. A lease outlives a server that
// starts slowly.
func byURL(t *testing.T, url string) *guard.Guard {
	t.Helper()
	l, err := locker.FromDSN(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.(*mysqllocker.Locker).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := testguard.New(t, l, guard.WithTTL(2*time.Minute), guard.WithMaxWait(5*time.Minute), guard.WithFencing())
	return g
}

// sections are turns on one key, which must not overlap.
type sections struct{ done, inside, overlaps, falls, last atomic.Int64 }

func (s *sections) run(ctx context.Context) error {
	defer s.inside.Add(-1)
	if s.inside.Add(1) > 1 {
		s.overlaps.Add(1)
	}
	lease, _ := guard.LeaseFrom(ctx)
	token, err := lease.FencingToken(ctx)
	if err != nil {
		return err
	}
	if was := s.last.Swap(int64(token)); was >= int64(token) {
		s.falls.Add(1)
	}
	s.done.Add(1)
	return nil
}

// more blocks until there were ten more.
func (s *sections) more(t *testing.T) {
	t.Helper()
	goal := s.done.Load() + 10
	for end := time.Now().Add(3 * time.Minute); s.done.Load() < goal; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no turns any more")
		}
	}
}
