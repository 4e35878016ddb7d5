package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// An election is two processes that want to lead until the test ends. At most
// one may lead at a time.
type election struct {
	*bench
	t *testing.T

	mu     sync.Mutex // guards the fields below
	leader string     // "" if nobody leads
	since  time.Time
	ended  time.Time // when the last term ended
	cause  error     // the cause of that
}

func newElection(t *testing.T) *election {
	t.Helper()
	return &election{bench: newBench(t), t: t}
}

// stand has g stand for election under the given name. It returns a function
// that makes g leave and waits until g has left.
func (e *election) stand(g *guard.Guard, name string) (leave func() error) {
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Lead(ctx, key, func(ctx context.Context) error { return e.term(ctx, name) }) }()
	leave = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	e.t.Cleanup(func() { _ = leave() })
	synctest.Wait()
	return leave
}

func (e *election) term(ctx context.Context, name string) error {
	e.mu.Lock()
	if e.leader != "" {
		e.t.Errorf("%s is elected while %s leads", name, e.leader)
	}
	e.leader, e.since = name, time.Now()
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader, e.ended, e.cause = "", time.Now(), context.Cause(ctx)
	return nil
}

// want checks who leads now, and since when.
func (e *election) want(name string, since time.Duration) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := time.Since(e.since); e.leader != name || (name != "" && d != since) {
		e.t.Fatalf("%q leads for %v, want %q for %v", e.leader, d, name, since)
	}
}

// wantSoon checks that somebody leads within d, and returns how long that took.
func (e *election) wantSoon(name string, d time.Duration) (took time.Duration) {
	e.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		e.mu.Lock()
		leader := e.leader
		e.mu.Unlock()
		took = time.Since(start)
		if leader != "" && (name == "" || name == leader) {
			return took
		}
		if took > d {
			e.t.Fatalf("%q leads after %v, want %q", leader, took, name)
		}
	}
}

func (e *election) wantEnded(ago time.Duration, cause error) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := time.Since(e.ended); d != ago || !errors.Is(e.cause, cause) {
		e.t.Errorf("ended %v ago with cause %v, want %v ago with %v", d, e.cause, ago, cause)
	}
}

// cutOff takes a process's locker from the store.
func cutOff(s *spy, cut bool) {
	s.set(func(s *spy) {
		s.renew, s.acquire = nil, nil
		if cut {
			s.renew = func(_ context.Context, _ func() []error) []error { return []error{guard.ErrUnavailable} }
			s.acquire = refuse(guard.ErrUnavailable)
		}
	})
}

func TestLead_ALeaderLeadsUntilItLeavesAndTheNextFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		leaveA := e.stand(e.Guard, "a")
		leaveB := e.stand(e.other, "b")
		time.Sleep(time.Hour) // far beyond MaxHold and MaxWait
		e.want("a", time.Hour)
		if err := leaveA(); err != nil {
			t.Errorf("a left with %v, want its function's nil", err)
		}
		e.wantEnded(0, context.Canceled)
		e.want("b", 0)
		leaveC := e.stand(e.Guard, "c")
		time.Sleep(time.Minute)
		wantErr(t, leaveC(), context.Canceled, guard.ErrNotAcquired) // it was never elected
		e.want("b", time.Minute)
		wantErr(t, leaveB(), nil)
	})
}

func TestLead_WhoIsCutOffStopsBeforeTheNextAndStandsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.stand(e.Guard, "a")
		leaveB := e.stand(e.other, "b")
		time.Sleep(time.Minute)
		cutOff(e.spy, true)
		e.spy.mu.Lock()
		last := e.spy.renewedAt
		e.spy.mu.Unlock()
		e.wantSoon("b", 10*time.Second)
		if d := time.Since(last); d > 10*time.Second+250*time.Millisecond {
			t.Errorf("b leads %v after a's last renewal, want the TTL", d)
		}
		e.wantEnded(time.Since(last)-trustOf10s, guard.ErrLeaseLost)
		time.Sleep(time.Minute) // a tries all the time, in vain
		cutOff(e.spy, false)
		time.Sleep(time.Minute)
		if err := leaveB(); err != nil {
			t.Error(err)
		}
		e.want("a", 0)
	})
}

func TestLead_ALeaderWhoseKeyIsLostIsElectedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.stand(e.Guard, "a")
		for range 3 {
			time.Sleep(time.Minute)
			e.mem.Lose(key)
			time.Sleep(5 * time.Second) // a renewal finds the loss
			e.wantSoon("a", 0)
			e.wantEnded(time.Since(e.since), guard.ErrLeaseLost)
		}
	})
}

func TestLead_AnOutageEndsTheTermAndNotTheElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.stand(e.Guard, "a")
		e.stand(e.other, "b")
		for range 3 {
			mend := e.mem.Break()
			time.Sleep(10 * time.Minute)
			e.want("", 0)
			wantErr(t, e.cause, guard.ErrLeaseLost)
			mend()
			t.Log("a leader after", e.wantSoon("", 500*time.Millisecond))
			time.Sleep(time.Minute)
		}
	})
}

func TestLead_AStoreThatRefusesIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.spy.set(func(s *spy) { s.acquire = refuse(errors.New("NOPERM")) })
		e.stand(e.Guard, "a")
		time.Sleep(time.Minute)
		e.want("", 0)
		if n := e.spy.acquires.Load(); n < 60 || n > 240 { // twice a second on average
			t.Errorf("%d tries in a minute", n)
		}
		e.spy.set(func(s *spy) { s.acquire = nil })
		e.wantSoon("a", time.Second)
	})
}

// The store refuses the try during which ctx ends.
func TestLead_ACallThatIsOverWhileTheStoreRefusesSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, leave := context.WithCancel(t.Context())
		b.spy.set(func(s *spy) {
			s.acquire = func(context.Context, *locker.Claim, func() (locker.Answer, error)) (locker.Answer, error) {
				leave()
				return locker.Answer{}, errors.New("NOPERM")
			}
		})
		wantErr(t, b.Lead(ctx, key, nop), guard.ErrNotAcquired, context.Canceled)
	})
}

func TestLead_EndsWithItsFunctionIfThatLeadsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		own := errors.New("own")
		wantErr(t, b.Lead(t.Context(), key, nop), nil)
		if err := b.Lead(t.Context(), key, func(context.Context) error {
			return own
		}); err != own { //nolint:errorlint // unchanged
			t.Errorf("got %v", err)
		}
		runs := 0
		err := b.Lead(t.Context(), key, func(ctx context.Context) error {
			if runs++; runs == 1 {
				b.mem.Lose(key)
				<-ctx.Done()
			}
			return own
		})
		if err != own || runs != 2 { //nolint:errorlint // unchanged
			t.Errorf("got %v after %d runs", err, runs)
		}
		runs = 0
		err = b.Lead(t.Context(), key, func(context.Context) error { runs++; b.mem.Lose(key); return own })
		wantErr(t, err, guard.ErrLeaseLost, own) // only the release has noticed
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
		wantErr(t, b.Lead(t.Context(), "", nop), guard.ErrInvalidKey)
		wantErr(t, b.Lead(t.Context(), key, nil), guard.ErrInvalidOption)
		wantErr(t, (*guard.Guard)(nil).Lead(t.Context(), key, nop), guard.ErrNoDefault)
		_ = b.Do(t.Context(), key, func(ctx context.Context) error {
			wantErr(t, b.Lead(ctx, key, nop), nil) // inside
			b.mem.Lose(key)
			<-ctx.Done()
			wantErr(t, b.Lead(ctx, key, nop), guard.ErrLeaseLost)
			return nil
		})
		func() {
			defer func() {
				if recover() != "own" {
					t.Error("the panic is gone")
				}
			}()
			_ = b.Lead(t.Context(), key, func(context.Context) error { panic("own") })
		}()
		wantErr(t, b.other.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop), nil)
	})
}

func TestClose_EndsTheTermOfALeaderAndFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		leaveA := e.stand(e.Guard, "a")
		leaveC := e.stand(e.Guard, "c")
		e.stand(e.other, "b")
		time.Sleep(time.Minute)
		closed := time.Now()
		if err := e.Close(t.Context()); err != nil { // it waits for a renewal that is due just then
			t.Fatal(err)
		}
		e.wantEnded(time.Since(closed), guard.ErrClosed)
		e.want("b", time.Since(closed))
		if err := leaveA(); err != nil {
			t.Errorf("a: %v", err)
		}
		wantErr(t, leaveC(), guard.ErrClosed)
	})
}
