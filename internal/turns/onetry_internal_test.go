package turns

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// A distant is a store whose answers take time. Without that, no two calls of a
// process ask at once.
type distant struct {
	locker.Locker

	trip time.Duration
	// fails, if set, returns the error of a claim, which has no other answer.
	fails    func(c *locker.Claim) error
	acquires atomic.Int64
}

func (d *distant) Acquire(ctx context.Context, c *locker.Claim, try locker.Try) (locker.Answer, error) {
	d.acquires.Add(1)
	select {
	case <-time.After(d.trip):
	case <-ctx.Done():
		return locker.Answer{Queued: try.Wait}, errSilence
	}
	if d.fails != nil {
		if err := d.fails(c); err != nil {
			return locker.Answer{}, err
		}
	}
	return d.Locker.Acquire(ctx, c, try)
}

// An attempt is what became of one call.
type attempt struct {
	turn *Turn
	err  error
	took time.Duration
}

// atOnce makes calls with these settings at the same time, and returns what
// became of each.
func atOnce(t *testing.T, e *Engine, calls ...Settings) []attempt {
	t.Helper()
	all := make([]attempt, len(calls))
	var done sync.WaitGroup
	for i, s := range calls {
		done.Go(func() {
			began := time.Now()
			turn, err := new(party).take(t.Context(), e, stageKey, s)
			all[i] = attempt{turn, err, time.Since(began)}
		})
		synctest.Wait() // they come in this order
	}
	done.Wait()
	return all
}

func times(n int, s Settings) (all []Settings) {
	for range n {
		all = append(all, s)
	}
	return all
}

// once returns the settings of a call with one attempt.
func once(limit int) Settings {
	s := limited(limit)
	s.MaxWait = 0
	return s
}

// got returns the turns of those that got one, and checks the errors of the
// others.
func got(t *testing.T, all []attempt, refusal error) (turns []*Turn) {
	t.Helper()
	for i, a := range all {
		switch {
		case a.err == nil:
			turns = append(turns, a.turn)
		case !errors.Is(a.err, refusal):
			t.Errorf("call %d after %v: %v, want %v", i, a.took, a.err, refusal)
		}
	}
	return turns
}

// One attempt is one answer about the key. While a request of the process is
// under way, calls with one attempt that have room beside it wait for the
// outcome.
func TestOneAttemptIsOneAnswer(t *testing.T) {
	const trip = 2 * time.Millisecond
	for name, c := range map[string]struct {
		calls    []Settings
		in       int
		acquires int64
		slowest  time.Duration
	}{
		"permits for all":         {times(5, once(5)), 5, 5, 5 * trip},
		"more calls than permits": {times(8, once(5)), 5, 5, 5 * trip},
		"readers":                 {times(100, once(locker.NoLimit)), 100, 1, trip},
		"a permit and readers":    {append(times(1, once(3)), times(2, once(locker.NoLimit))...), 3, 2, 2 * trip},
		"one alone":               {times(3, once(0)), 1, 1, trip},
		"one alone, readers":      {append(times(1, once(0)), times(2, once(locker.NoLimit))...), 1, 1, trip},
		"readers, one alone":      {append(times(2, once(locker.NoLimit)), once(0)), 2, 1, trip},
		"behind one without room": {append(times(3, limited(2)), once(5)), 2, 2, 2 * trip},
		"behind calls that wait":  {append(times(2, limited(4)), times(5, once(4))...), 4, 4, 4 * trip},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &distant{Locker: memlocker.New(), trip: trip}
				e := open(t, l)
				all := atOnce(t, e, c.calls...)
				in := got(t, all, ErrHeld)
				if len(in) != c.in || l.acquires.Load() != c.acquires {
					t.Errorf("%d calls got in, by %d requests", len(in), l.acquires.Load())
				}
				for i, a := range all {
					if c.calls[i].MaxWait == 0 && a.took > c.slowest {
						t.Errorf("call %d took %v", i, a.took)
					}
				}
				mustEnd(t, in...)
				closed(t, e)
			})
		})
	}
}

// A call that need not wait is told at once: one that must be alone, one without
// room beside the calls before it, and one behind a call that waits.
func TestOneAttemptDoesNotWaitForATurn(t *testing.T) {
	for name, c := range map[string]struct {
		before []Settings
		call   Settings
	}{
		"alone":             {times(1, once(0)), once(0)},
		"alone, of readers": {times(1, once(locker.NoLimit)), once(0)},
		"no room":           {times(2, once(2)), once(2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, &distant{Locker: memlocker.New(), trip: time.Millisecond})
				all := atOnce(t, e, append(c.before, c.call)...)
				if last := all[len(all)-1]; !errors.Is(last.err, ErrHeld) || last.took != 0 {
					t.Errorf("%v after %v", last.err, last.took)
				}
				mustEnd(t, got(t, all, ErrHeld)...)
				closed(t, e)
			})
		})
	}
}

// An answer that the key has no room is one for all that had asked before the
// request was sent, and for all that may not overtake the call that waits on.
func TestNoRoomIsAnAnswerForAll(t *testing.T) {
	for name, c := range map[string]struct {
		calls    []Settings
		acquires int64
		slowest  time.Duration
	}{
		"one attempt each": {times(20, once(locker.NoLimit)), 2, 2 * time.Millisecond},
		"behind one that waits": {
			append(times(1, limited(locker.NoLimit)), times(9, once(locker.NoLimit))...), 1, time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlocker.New()
				other := open(t, store.Peer())
				writer := mustTake(t, other, limited(0))
				l := &distant{Locker: store.Peer(), trip: time.Millisecond}
				e := open(t, l)
				go func() {
					time.Sleep(100 * time.Millisecond)
					mustEnd(t, writer)
				}()
				var one []attempt
				var requests int64
				waits := c.calls[0].MaxWait > 0
				var done sync.WaitGroup
				done.Go(func() { one = atOnce(t, e, c.calls...) })
				time.Sleep(50 * time.Millisecond)
				requests = l.acquires.Load()
				done.Wait()
				if in := got(t, one, ErrHeld); len(in) > 1 || len(in) == 1 && !waits {
					t.Errorf("%d calls got in beside a writer", len(in))
				} else {
					mustEnd(t, in...)
				}
				if requests > c.acquires+1 || !waits && requests != c.acquires {
					t.Errorf("%d requests", requests)
				}
				for i, a := range one {
					if a.took > c.slowest && a.err != nil {
						t.Errorf("call %d was refused after %v", i, a.took)
					}
				}
				closed(t, e)
				closed(t, other)
			})
		})
	}
}

// Nobody says that a key is held when the store has said nothing.
func TestOneAttemptAtASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, &distant{Locker: memlocker.New(), trip: time.Minute})
		all := atOnce(t, e, times(20, once(locker.NoLimit))...)
		if in := got(t, all, locker.ErrUnavailable); len(in) > 0 {
			t.Errorf("%d got in", len(in))
		}
		for i, a := range all {
			if a.took > 550*time.Millisecond {
				t.Errorf("call %d took %v", i, a.took)
			}
		}
		closed(t, e)
	})
}

var errWrongType = errors.New("WRONGTYPE: the key is of another type")

// An error that no other try can mend is for all that wait for the key then.
// Calls on other terms ask for themselves, at once.
func TestAFinalErrorIsForAllThatWait(t *testing.T) {
	const trip = 2 * time.Millisecond
	withTokens := settings()
	withTokens.Fencing = true
	for name, c := range map[string]struct {
		calls    []Settings
		acquires int64
		slowest  time.Duration
		in       int
	}{
		"20 that wait":     {times(20, withTokens), 1, trip, 0},
		"permits":          {times(5, func() Settings { s := limited(5); s.Fencing = true; return s }()), 1, trip, 0},
		"one attempt each": {times(5, func() Settings { s := once(5); s.Fencing = true; return s }()), 1, trip, 0},
		"other terms":      {append(times(3, withTokens), settings()), 2, 2 * trip, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &distant{Locker: memlocker.New(), trip: trip, fails: func(c *locker.Claim) error {
					if c.Fencing {
						return errWrongType // of the counter of the tokens
					}
					return nil
				}}
				e := open(t, l)
				all := atOnce(t, e, c.calls...)
				in := got(t, all, errWrongType)
				if len(in) != c.in || l.acquires.Load() != c.acquires {
					t.Errorf("%d calls got in, by %d requests", len(in), l.acquires.Load())
				}
				for i, a := range all {
					if a.took > c.slowest || a.err != nil && !errors.Is(a.err, locker.ErrUnavailable) {
						t.Errorf("call %d after %v: %v", i, a.took, a.err)
					}
				}
				mustEnd(t, in...)
				closed(t, e)
			})
		})
	}
}
