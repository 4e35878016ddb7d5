package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// inSilence runs a test in virtual time, with the outages of a locker with two
// nodes, of which a is silent.
func inSilence(t *testing.T, test func(t *testing.T, os *outages)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		os := &outages{node: func(key string) string { return key[:1] }}
		os.note("a1", silent, errSilence)
		if !os.isSilent("a2") || os.isSilent("b1") {
			t.Fatal("a is not silent, or b is")
		}
		test(t, os)
	})
}

var errSilence = fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent)

func TestASilenceEndsWithAnyAnswer(t *testing.T) {
	for name, answer := range map[string]func(os *outages){
		"a clear answer":       func(os *outages) { os.note("a2", clearly, nil) },
		"a refusal":            func(os *outages) { os.note("a2", refusal, locker.ErrUnavailable) },
		"a release":            func(os *outages) { os.answered("a2") },
		"nobody asks any more": func(*outages) { time.Sleep(evidenceLife) },
	} {
		t.Run(name, func(t *testing.T) {
			inSilence(t, func(t *testing.T, os *outages) {
				t.Helper()
				if answer(os); os.isSilent("a1") {
					t.Error("the node counts as silent")
				}
			})
		})
	}
	for name, none := range map[string]func(os *outages){
		"the other node":      func(os *outages) { os.note("b1", clearly, nil) },
		"a release of it":     func(os *outages) { os.answered("b1") },
		"a request cut short": func(os *outages) { os.note("a2", nothing, nil) },
		"no clear answer":     func(os *outages) { os.note("a2", trouble, locker.ErrUnavailable) },
		"a probe under way": func(os *outages) {
			if _, probe := os.admit("a1", 0, backoff); probe == nil {
				panic("the first call is no probe")
			}
			time.Sleep(evidenceLife + probeLife - 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSilence(t, func(t *testing.T, os *outages) {
				t.Helper()
				if none(os); !os.isSilent("a1") || os.on.Load() != 1 {
					t.Errorf("%d outages, silent: %v", os.on.Load(), os.isSilent("a1"))
				}
			})
		})
	}
}

var backoff = Backoff{Initial: 10 * time.Millisecond, Max: time.Second}

// Evidence that is too old is of another silence. A process that was paused
// must not wake up in it.
func TestANewSilenceBeginsWithItsFirstEvidence(t *testing.T) {
	inSilence(t, func(t *testing.T, os *outages) {
		t.Helper()
		time.Sleep(time.Hour)
		os.note("a1", silent, errSilence)
		if err := os.refuses("a1", time.Second); err != nil {
			t.Errorf("refused at once: %v", err)
		}
		for range 3 {
			time.Sleep(evidenceLife / 2)
			os.note("a1", silent, errSilence)
		}
		if err := os.refuses("a1", 2*time.Second); err != nil {
			t.Errorf("refused before its patience ends: %v", err)
		}
		if err := os.refuses("a1", time.Second); err == nil {
			t.Error("not refused after its patience")
		}
		if err := os.refuses("b1", time.Second); err != nil {
			t.Errorf("the other node: %v", err)
		}
	})
}

func TestUnguardedFunctionsAreToldOnceAnOutage(t *testing.T) {
	inSilence(t, func(t *testing.T, os *outages) {
		t.Helper()
		told := func(key string) (n int) {
			for range 3 {
				if os.tellUnguarded(key) {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Millisecond)
		if a, b := told("a1"), told("b1"); a != 1 || b != 0 {
			t.Errorf("told %d and %d times", a, b)
		}
		time.Sleep(outagePause)
		if n := told("a1"); n != 0 {
			t.Errorf("told %d times in the same outage", n)
		}
		for _, after := range []time.Duration{time.Second, outagePause} {
			os.note("a1", clearly, nil)
			os.note("a1", silent, errSilence)
			time.Sleep(after)
			if n := told("a1"); n != 1 {
				t.Errorf("told %d times in an outage that begins later", n)
			}
			if after == time.Second {
				os.note("a1", clearly, nil)
				os.note("a1", silent, errSilence)
				time.Sleep(after)
				if n := told("a1"); n != 0 {
					t.Errorf("told %d times %v after the last one", n, after)
				}
				time.Sleep(outagePause)
			}
		}
	})
}

// Those that have left are not waited for when the others try again.
func TestTheSpreadIsForThoseThatWait(t *testing.T) {
	inSilence(t, func(t *testing.T, os *outages) {
		t.Helper()
		if _, probe := os.admit("a1", time.Minute, backoff); probe == nil {
			t.Fatal("the first call is no probe")
		}
		var s *silence
		for range 100 {
			a, _ := os.admit("a1", time.Minute, backoff)
			if s = a.silence; s == nil {
				t.Fatalf("does not wait: %+v", a)
			}
		}
		for range 90 {
			os.left(s)
		}
		os.note("a1", clearly, nil)
		if s.spread != 10*spreadEach {
			t.Errorf("a spread of %v for 10 that wait", s.spread)
		}
	})
}

// A node whose outage was not logged may never be asked again.
func TestAnOutageThatIsUntoldIsToldByAnyNode(t *testing.T) {
	inSilence(t, func(t *testing.T, os *outages) {
		t.Helper()
		os.note("a1", clearly, nil)
		for range 2 { // too soon for a line
			os.note("a1", silent, errSilence)
			time.Sleep(time.Second)
			if n, is := os.note("a1", clearly, nil); is {
				t.Fatalf("told %+v", n)
			}
		}
		time.Sleep(outagePause)
		n, is := os.note("b1", clearly, nil)
		if !is || !n.Over || n.Err == nil || n.Lasted != 2*time.Second || n.Unlogged != 2 {
			t.Errorf("told %v %+v", is, n)
		}
		if n, is := os.note("b1", clearly, nil); is || os.untold.Load() != 0 {
			t.Errorf("told again: %+v, %d untold", n, os.untold.Load())
		}
	})
}

// Its line comes late, and its end tells how long it was in all.
func TestAnOutageSoonAfterALineIsToldLateAndCountedFully(t *testing.T) {
	inSilence(t, func(t *testing.T, os *outages) {
		t.Helper()
		os.note("a1", clearly, nil)
		time.Sleep(outagePause - 2*time.Millisecond)
		var told []bool
		for range 4 {
			_, is := os.note("a1", silent, errSilence)
			told = append(told, is)
			time.Sleep(time.Millisecond)
		}
		n, is := os.note("a1", clearly, nil)
		late := slices.Equal(told, []bool{false, false, true, false})
		if !late || !n.Over || n.Lasted != 4*time.Millisecond || n.Unlogged != 0 {
			t.Errorf("told at %v, then %v %+v", told, is, n)
		}
	})
}

func TestATimeoutDoesNotHideWhatTheStoreSaid(t *testing.T) {
	said := fmt.Errorf("%w: LOADING", locker.ErrUnavailable)
	slow := fmt.Errorf("%w: %w", locker.ErrUnavailable, os.ErrDeadlineExceeded)
	over := fmt.Errorf("%w: %w", locker.ErrUnavailable, context.DeadlineExceeded)
	for i, c := range []struct{ first, later, want error }{
		{nil, slow, slow},
		{said, slow, said},
		{said, over, said},
		{slow, said, said},
		{slow, over, over},
		{said, errors.ErrUnsupported, errors.ErrUnsupported},
	} {
		if got := moreTelling(c.first, c.later); !errors.Is(got, c.want) || !errors.Is(c.want, got) {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}

// A server that answers opens nothing, nor does a process that slept through the
// answer.
func TestOnlyATryThatTookItsTimeHeardSilence(t *testing.T) {
	const limit = 500 * time.Millisecond
	slow := fmt.Errorf("%w: %w: %w", locker.ErrUnavailable, locker.ErrSilent, context.DeadlineExceeded)
	refused := fmt.Errorf("%w: %w: connection refused", locker.ErrUnavailable, locker.ErrSilent)
	for i, c := range []struct {
		err  error
		took time.Duration
		full bool
		want hearing
	}{
		{slow, limit, true, silent},
		{slow, limit - 5*time.Millisecond, true, silent}, // a limit may be as much shorter
		{slow, limit - 6*time.Millisecond, true, trouble},
		{slow, 0, true, trouble},
		{slow, limit + 99*time.Millisecond, true, silent},
		{slow, limit + 100*time.Millisecond, true, trouble},
		{slow, time.Hour, true, trouble},
		{slow, limit, false, nothing},
		{refused, 0, true, silent},
		{refused, time.Hour, true, trouble},
		{errors.Join(slow, locker.ErrUnsent), limit, true, trouble},
		{locker.ErrUnavailable, limit, true, trouble},
		{errors.New("NOPERM"), limit, true, refusal},
		{nil, limit, true, clearly},
	} {
		if got := heardByTry(c.err, c.took, limit, c.full); got != c.want {
			t.Errorf("case %d: heard %v, want %v", i, got, c.want)
		}
	}
}
