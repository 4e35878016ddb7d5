package guardtest

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard"
)

// resultLife is how long a staged result is kept.
const resultLife = 24 * time.Hour

// Keep makes result the result of key, as if another process had called
// [guard.Once] for it. A call under test then gets the result instead of
// running its function. It is kept for 24 h. t fails at its end if nobody has
// asked g for key. Options are those of the other process, such as
// [guard.WithCodec]. Keep waits for a call of g that has key. It ends the test
// if key has another result already.
func (g *Guard) Keep(key string, result any, opts ...guard.Option) {
	g.t.Helper()
	fresh := false
	_, err := guard.Once(g.t.Context(), g.other.With(opts...), key, resultLife, func(context.Context) (any, error) {
		fresh = true
		return result, nil
	})
	switch {
	case err != nil:
		g.t.Fatalf("guardtest: Keep(%q): %v", key, err)
	case !fresh:
		g.t.Fatalf("guardtest: Keep(%q): it has a result already", key)
	}
	g.staged.add(key)
}

// LoseResult makes the result of key vanish, as after a failover that lost it
// or a guard.Forget. The next call of [guard.Once] runs its function. t fails
// if there is no result.
func (g *Guard) LoseResult(key string) {
	g.t.Helper()
	if found, err := g.other.Forget(g.t.Context(), key); err != nil || !found {
		g.t.Errorf("guardtest: LoseResult(%q): there is no result (error: %v)", key, err)
	}
}

// errCrash ends the function of Crash.
var errCrash = errors.New("guardtest: a crash")

// Crash leaves key as another process does that dies inside a function of
// [guard.Once] under [guard.WithAtMostOnce], when its lease has ended. A call
// under test gets [guard.ErrInterrupted], for 24 h or until
// [guard.Guard.Forget]. t fails at its end if nobody has asked g for key.
// Without WithAtMostOnce a crash leaves a key that is held until its lease
// ends, which [Guard.Hold] stages. Crash waits for a call of g that has key. It
// ends the test if key has a result.
func (g *Guard) Crash(key string) {
	g.t.Helper()
	process := g.other.With(guard.WithAtMostOnce(), guard.WithMaxHold(time.Minute))
	_, err := guard.Once(g.t.Context(), process, key, resultLife, func(context.Context) (any, error) {
		return nil, errCrash
	})
	if !errors.Is(err, errCrash) {
		g.t.Fatalf("guardtest: Crash(%q): it has a result already (error: %v)", key, err)
	}
	g.staged.add(key)
}
