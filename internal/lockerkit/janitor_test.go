package lockerkit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sent records when cleanups are sent, in virtual time.
type sent struct {
	start  time.Time
	answer func(ctx context.Context, due []*Cleanup) bool // nil: all are answered at once

	mu    sync.Mutex
	times map[int][]time.Duration // by cleanup
}

func (s *sent) clean(ctx context.Context, due []*Cleanup) []bool {
	s.mu.Lock()
	for _, c := range due {
		s.times[name(c)] = append(s.times[name(c)], time.Since(s.start))
	}
	s.mu.Unlock()
	ok := s.answer == nil || s.answer(ctx, due)
	return slices.Repeat([]bool{ok}, len(due))
}

func (s *sent) at(n int) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.times[n])
}

// hangs gives no answer until the request's time is over.
func hangs(ctx context.Context, _ []*Cleanup) bool { <-ctx.Done(); return false }

// cleaning runs test in virtual time with a janitor. The janitor ends with the
// test and leaves no goroutine.
func cleaning(t *testing.T, answer func(context.Context, []*Cleanup) bool, test func(*testing.T, *Janitor, *sent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sent{start: time.Now(), answer: answer, times: map[int][]time.Duration{}}
		j := newJanitor(s.clean)
		test(t, j, s)
		if !j.closed {
			_ = j.Close(t.Context())
		}
	})
}

func seconds(of ...int) []time.Duration {
	all := make([]time.Duration, len(of))
	for i, n := range of {
		all[i] = time.Duration(n) * time.Second
	}
	return all
}

// soonThen are these seconds, with the second try soon after the first and the
// others as much later.
func soonThen(of ...int) []time.Duration {
	all := []time.Duration{0}
	for _, at := range seconds(of...) {
		all = append(all, at+cleanupSoon)
	}
	return all
}

func TestACleanupIsDoneAtOnceAndTwiceIfARequestMayBeLate(t *testing.T) {
	cleaning(t, nil, func(t *testing.T, j *Janitor, s *sent) {
		t.Helper()
		j.Add(named(1))
		late := named(2)
		late.Late = true
		j.Add(late)
		time.Sleep(time.Hour)
		if got := s.at(1); !slices.Equal(got, seconds(0)) {
			t.Errorf("sent at %v, want once, at once", got)
		}
		if got := s.at(2); !slices.Equal(got, seconds(0, 1)) {
			t.Errorf("late: sent at %v, want at once and a second later", got)
		}
	})
}

func TestAnUnansweredCleanupComesAgainUntilItIsGivenUp(t *testing.T) {
	refuses := func(context.Context, []*Cleanup) bool { return false }
	cleaning(t, refuses, func(t *testing.T, j *Janitor, s *sent) {
		t.Helper()
		j.Add(named(1))
		time.Sleep(time.Hour)
		want := soonThen(0)
		for want[len(want)-1] < cleanupFor {
			want = append(want, want[len(want)-1]+cleanupPause)
		}
		if got := s.at(1); !slices.Equal(got, want) {
			t.Errorf("sent at %v, want %v", got, want)
		}
		synctest.Wait()
		if len(j.nodes) > 0 {
			t.Error("its backlog is left")
		}
	})
}

func TestANewCleanupDoesNotWaitForOneThatComesAgain(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	answers := func(context.Context, []*Cleanup) bool { return !down.Load() }
	cleaning(t, answers, func(t *testing.T, j *Janitor, s *sent) {
		t.Helper()
		j.Add(named(1))
		time.Sleep(4 * time.Second) // it comes again 5 ms later
		down.Store(false)
		j.Add(named(2))
		synctest.Wait()
		if got := s.at(2); !slices.Equal(got, seconds(4)) {
			t.Errorf("sent at %v, want at 4 s", got)
		}
		time.Sleep(time.Hour)
		if got := s.at(1); !slices.Equal(got, soonThen(0, 1, 2, 3, 4)) {
			t.Errorf("the old one was sent at %v", got)
		}
	})
}

// A try that the server carries out when it goes on takes a key for nobody.
func TestAServerThatGoesOnAfterAHangHasItsKeysFreedWithinTwoSeconds(t *testing.T) {
	for hang := time.Second; hang < cleanupFor-cleanupLimit-cleanupPause; hang += 700 * time.Millisecond {
		var goesOn time.Time
		answers := func(ctx context.Context, due []*Cleanup) bool {
			select {
			case <-time.After(time.Until(goesOn)):
				return true
			case <-ctx.Done():
				return false
			}
		}
		cleaning(t, answers, func(t *testing.T, j *Janitor, s *sent) {
			t.Helper()
			goesOn = time.Now().Add(hang)
			j.Add(named(1))
			time.Sleep(time.Hour)
			got := s.at(1)
			if last := got[len(got)-1]; last > hang+cleanupPause || last < hang-cleanupLimit {
				t.Errorf("after %v of hanging the key was freed by the request at %v", hang, last)
			}
		})
	}
}

func TestANodeThatHangsDelaysNoOthersCleanups(t *testing.T) {
	hungIsOdd := func(ctx context.Context, due []*Cleanup) bool {
		return name(due[0])%2 == 0 || hangs(ctx, due)
	}
	cleaning(t, hungIsOdd, func(t *testing.T, j *Janitor, s *sent) {
		t.Helper()
		for n := range 100 {
			j.Add(at([]string{"well", "hung"}[n%2], n))
			time.Sleep(100 * time.Millisecond)
		}
		for n := 0; n < 100; n += 2 {
			if got := s.at(n); !slices.Equal(got, []time.Duration{time.Duration(n) * 100 * time.Millisecond}) {
				t.Errorf("cleanup %d was sent at %v", n, got)
			}
		}
	})
}

func TestCleanupsForANodeThatHangsAreBounded(t *testing.T) {
	t.Parallel()
	cleaning(t, hangs, func(t *testing.T, j *Janitor, _ *sent) {
		t.Helper()
		for n := range 200 {
			for i := range 500 {
				j.Add(at("hung", 500*n+i))
			}
			time.Sleep(100 * time.Millisecond)
			j.mu.Lock()
			kept := len(j.nodes["hung"].all)
			j.mu.Unlock()
			if kept > cleanupMost {
				t.Fatalf("%d cleanups are kept", kept)
			}
		}
		j.cancel()
	})
}

func TestAJanitorThatFinishesDoesWhatIsLeftAtOnceAndTakesNoMore(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	answers := func(context.Context, []*Cleanup) bool { return !down.Load() }
	cleaning(t, answers, func(t *testing.T, j *Janitor, s *sent) {
		t.Helper()
		j.Add(named(1))
		time.Sleep(3 * time.Second) // it comes again 5 ms later
		down.Store(false)
		late := named(2)
		late.Late = true
		j.Add(late)
		synctest.Wait()
		_ = j.Close(t.Context())
		j.Add(named(3))
		synctest.Wait()
		if got := s.at(1); !slices.Equal(got, append(soonThen(0, 1, 2), 3*time.Second)) {
			t.Errorf("sent at %v", got)
		}
		if got := s.at(2); !slices.Equal(got, seconds(3, 3)) {
			t.Errorf("late: sent at %v", got)
		}
		if got := s.at(3); len(got) > 0 {
			t.Errorf("too late: sent at %v", got)
		}
	})
}

func TestFinishingIsBoundedThoughAServerHangs(t *testing.T) {
	t.Parallel()
	cleaning(t, hangs, func(t *testing.T, j *Janitor, _ *sent) {
		t.Helper()
		for n := range cleanupBatch {
			j.Add(at("a", n))
			j.Add(at("b", n))
		}
		start := time.Now()
		_ = j.Close(t.Context())
		if d := time.Since(start); d > 3*cleanupLimit {
			t.Errorf("it took %v", d)
		}
	})
	cleaning(t, hangs, func(t *testing.T, j *Janitor, _ *sent) {
		t.Helper()
		for n := range 3 * cleanupMost {
			j.Add(at("a", n))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := j.Close(ctx)
		if d := time.Since(start); d != 50*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it took %v and returned %v, want the end of its ctx at 50 ms", d, err)
		}
	})
}
