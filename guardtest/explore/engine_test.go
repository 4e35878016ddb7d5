package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest/explore"
)

// Scenarios that are about the guard itself.

type room struct {
	w      *explore.World
	inside map[string]bool
	err    error
}

func (r *room) stay(ctx context.Context, name string) error {
	if err := r.w.Step(ctx, name+" enters", func() error {
		if len(r.inside) > 0 && r.err == nil {
			r.err = fmt.Errorf("%s enters beside %v", name, r.inside)
		}
		r.inside[name] = true
		return nil
	}); err != nil {
		delete(r.inside, name)
		return err
	}
	defer delete(r.inside, name)
	return r.w.Step(ctx, name+" leaves", func() error { delete(r.inside, name); return nil })
}

func crowd(n int, opts ...guard.Option) func(*explore.World) {
	return func(w *explore.World) {
		r := &room{w: w, inside: make(map[string]bool)}
		for i := range n {
			name := string(rune('A' + i))
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				return g.With(opts...).Do(ctx, "k", func(ctx context.Context) error { return r.stay(ctx, name) })
			})
		}
		w.Check(func() error { return r.err })
	}
}

// A crashed process stays inside in the books of the room, so no crash here.
func TestEngineExcludes(t *testing.T) {
	not := explore.Without("pause", "long-pause", "late", "crash")
	for _, n := range []int{2, 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			judge(t, crowd(n, guard.WithMaxWait(20*time.Second)), false, not)
		})
	}
	t.Run("MinHold", func(t *testing.T) {
		scenario := crowd(2, guard.WithMaxWait(20*time.Second), guard.WithMinHold(time.Second))
		judge(t, scenario, false, not)
	})
}

// In one process, too: four calls of two processes.
func TestEngineTokensRise(t *testing.T) {
	scenario := func(w *explore.World) {
		var last uint64
		var err error
		for _, name := range []string{"A", "B", "C"} {
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				g = g.With(guard.WithFencing(), guard.WithMaxWait(20*time.Second))
				return g.Do(ctx, "k", func(ctx context.Context) error {
					token, e := guard.FencingToken(ctx)
					if e != nil {
						return e
					}
					// The turn has begun: no later turn may have a lower token.
					return w.Step(ctx, "show "+name, func() error {
						switch {
						case token < last:
							return errors.New("late")
						case token == last:
							err = fmt.Errorf("token %d twice", token)
						}
						last = token
						return nil
					})
				})
			})
		}
		w.Check(func() error { return err })
	}
	judge(t, scenario, false, explore.StoreMayForget())
}

// A function under WithAtMostOnce begins at most once, whatever happens but a
// store that forgets. A calm run gets its result.
func TestEngineAtMostOnce(t *testing.T) {
	scenario := func(w *explore.World) {
		began := 0
		results := map[string]bool{}
		for _, name := range []string{"A", "B"} {
			w.Deliver(name, func(ctx context.Context, g *guard.Guard) error {
				g = g.With(guard.WithAtMostOnce())
				r, err := guard.Once(ctx, g, "k", 24*time.Hour, func(ctx context.Context) (int, error) {
					began++
					err := w.Step(ctx, "work", func() error { return nil })
					return began, err
				})
				if errors.Is(err, guard.ErrInterrupted) {
					return nil
				}
				if err == nil {
					results[strconv.Itoa(r)] = true
				}
				return err
			})
		}
		w.Check(func() error {
			if began > 1 || len(results) > 1 || w.Calm() && len(results) != 1 {
				return fmt.Errorf("began %d times, results %v", began, results)
			}
			return nil
		})
	}
	judge(t, scenario, false, explore.Runs(explore.Depth(600, 100)))
}

// After one crash, another process works when the lease has ended, and not
// much later.
func TestEngineGoesOnAfterACrash(t *testing.T) {
	scenario := func(w *explore.World) {
		start := time.Now()
		var done []time.Duration
		for _, name := range []string{"A", "B", "C"} {
			w.Go(name, func(ctx context.Context, g *guard.Guard) error {
				err := g.With(guard.WithMaxWait(time.Minute)).Do(ctx, "k", func(ctx context.Context) error {
					return w.Step(ctx, "work", func() error { return nil })
				})
				if err == nil {
					done = append(done, time.Since(start))
				}
				return nil
			})
		}
		w.Check(func() error {
			if len(done) < 1 {
				return fmt.Errorf("done: %v", done)
			}
			for _, d := range done {
				if d > 30*time.Second {
					return fmt.Errorf("done: %v", done)
				}
			}
			return nil
		})
	}
	judge(t, scenario, false, explore.Without("pause", "long-pause", "late"),
		explore.Level(2))
}
