package guardtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
)

// pay is the code under test.
func pay(ctx context.Context, g *guardtest.Guard, charges *int) (string, error) {
	return guard.Once(ctx, g.Guard, "pay:7", time.Hour, func(context.Context) (string, error) {
		*charges++
		return "a new receipt", nil
	})
}

func TestAKeptResultIsReturnedUntilItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, charges := guardtest.New(t), 0
		g.Keep("pay:7", "yesterday's receipt")
		if got, err := pay(t.Context(), g, &charges); got != "yesterday's receipt" || err != nil || charges != 0 {
			t.Errorf("got %q, %v, %d charges", got, err, charges)
		}
		g.LoseResult("pay:7")
		if got, err := pay(t.Context(), g, &charges); got != "a new receipt" || err != nil || charges != 1 {
			t.Errorf("got %q, %v, %d charges", got, err, charges)
		}
	})
}

func TestACrashedCallInterruptsLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, charges := guardtest.New(t, guard.WithAtMostOnce()), 0
		g.Crash("pay:7")
		if _, err := pay(t.Context(), g, &charges); !errors.Is(err, guard.ErrInterrupted) || charges != 0 {
			t.Errorf("got %v, %d charges", err, charges)
		}
		if found, err := g.Forget(t.Context(), "pay:7"); !found || err != nil {
			t.Errorf("Forget: %v, %v", found, err)
		}
		if _, err := pay(t.Context(), g, &charges); err != nil || charges != 1 {
			t.Errorf("after Forget: %v, %d charges", err, charges)
		}
	})
}

func TestResultsThatAreStagedInVainFailTheTest(t *testing.T) {
	for want, stage := range map[string]func(g *guardtest.Guard){
		`nobody asked for ["pay:7"]`:          func(g *guardtest.Guard) { g.Keep("pay:7", 1) },
		`nobody asked for ["pay:8"]`:          func(g *guardtest.Guard) { g.Crash("pay:8") },
		`LoseResult("pay:9"): there is no`:    func(g *guardtest.Guard) { g.LoseResult("pay:9") },
		`Keep("pay:10"): it has a result`:     func(g *guardtest.Guard) { g.Keep("pay:10", 1); g.Keep("pay:10", 2) },
		`Crash("pay:11"): it has a result`:    func(g *guardtest.Guard) { g.Keep("pay:11", 1); g.Crash("pay:11") },
		`Keep("pay:12"): guard: an earlier`:   func(g *guardtest.Guard) { g.Crash("pay:12"); g.Keep("pay:12", 1) },
		`Keep(""): guard: invalid key`:        func(g *guardtest.Guard) { g.Keep("", 1) },
		`Keep("pay:13"): guard: the result w`: func(g *guardtest.Guard) { g.Keep("pay:13", make(chan int)) },
	} {
		r := newRecorder()
		r.run(func() { stage(guardtest.New(r)) })
		r.end()
		if got := strings.Join(r.errors, "\n"); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
