package ctl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
)

// losses counts the renewals that found their lease lost.
type losses struct {
	guard.NopObserver
	n atomic.Int64
}

func (l *losses) Renewed(_ context.Context, _ guard.WaitInfo, r guard.RenewResult) {
	if errors.Is(r.Err, guard.ErrLeaseLost) {
		l.n.Add(1)
	}
}

func TestAnIdleKeyIsSeenAndReleased(t *testing.T) {
	s := redistest.Start(t)
	told := new(losses)
	g := instance(t, redistest.Client(t, s.Addr), guard.WithName("lingers"), guard.WithObserver(told),
		guard.WithTTL(time.Minute), guard.WithLinger(2500*time.Millisecond))
	hang(t, instance(t, redistest.Client(t, s.Addr)), "stock:43") // does not linger

	var state guard.KeyState
	idle := func() bool { // takes the key first, because it is idle for 2.5 s only
		if err := g.Do(t.Context(), "stock:42", func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		state = guard.KeyState{}
		decode(t, mustRun(t, s, "show", "--json", "stock:42"), &state)
		return state.Lingers
	}
	testguard.Eventually(t, "show --json says that it lingers", idle)
	for _, args := range [][]string{{"show", "stock:42"}, {"ls"}} {
		testguard.Eventually(t, fmt.Sprint(args, " says so"), func() bool {
			idle()
			text := mustRun(t, s, args...)
			return lines(text, `(^held by|lingers) +.*`+regexp.QuoteMeta(process(state.Holder))+`, may be idle`) == 1 &&
				lines(text, "may be idle") == 1
		})
	}

	testguard.Eventually(t, "an idle key is released", func() bool {
		if !idle() {
			return false
		}
		_, err := run(t, s, "", "release", "--yes", "--owner", state.Owner, "stock:42")
		return err == nil
	})
	testguard.Eventually(t, "its owner hears of that", func() bool { return told.n.Load() == 1 })
}
