package guard_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker/memlocker"
)

const (
	hereLine     = `level=WARN msg="guard: key held by this process: was fn's ctx passed on?" look="for `
	orderLine    = `level=WARN msg="guard: key held by this process while the caller held another: are keys taken in different orders?" look="take `
	deadlineLine = `level=WARN msg="guard: the request's deadline ends the wait before MaxWait `
	neighborLine = `level=WARN msg="guard: a guard of another name holds the same key: do services share a store without prefixes?" holder_name=`
)

func TestDo_ACallThatWaitsForItselfIsToldSoOnce(t *testing.T) {
	for name, inner := range map[string]func(b *bench, outer, fns context.Context) error{
		"the outer ctx inside fn": func(b *bench, outer, _ context.Context) error {
			return b.Do(outer, key, nop)
		},
		"another guard of the process": func(b *bench, outer, _ context.Context) error {
			return b.other.Do(outer, key, nop)
		},
		"another guard, with fn's ctx": func(b *bench, _, fns context.Context) error {
			return b.other.Do(fns, key, nop)
		},
		"a route of it": func(b *bench, outer, _ context.Context) error {
			return b.With(guard.WithMaxWait(time.Second)).Do(outer, key, nop)
		},
		"the outer ctx, by a short grant": func(b *bench, outer, _ context.Context) error {
			return b.With(guard.WithTTL(time.Second)).Do(outer, key, nop)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, book := newLogged(t)
				for range 2 {
					err := b.Do(t.Context(), key, func(ctx context.Context) error { return inner(b, t.Context(), ctx) })
					wantErr(t, err, guard.ErrNotAcquired)
				}
				book.want(t, hereLine)
			})
		})
	}
}

// A slow function does not use up the hint for a call that waits for itself.
func TestDo_ASlowFunctionGetsNoHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		slow := must(b.Acquire(t.Context(), key))
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrNotAcquired)
		book.want(t)
		wantErr(t, b.Do(t.Context(), "b", func(ctx context.Context) error {
			return b.Do(ctx, key, nop)
		}), guard.ErrNotAcquired)
		book.want(t, orderLine) // the hint names that cause too
		wantErr(t, slow.Release(t.Context()), nil)
		wantErr(t, b.Do(t.Context(), key, func(context.Context) error {
			return b.Do(t.Context(), key, nop)
		}), guard.ErrNotAcquired)
		book.want(t, hereLine)
	})
}

// As under an errgroup, where the first error ends the ctx of the others.
func TestDo_AWaitThatAnothersRefusalEndedGetsNoHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		slow := must(b.Acquire(t.Context(), "b"))
		refused := b.Do(t.Context(), "b", nop)
		wantErr(t, refused, guard.ErrNotAcquired)
		ctx, leave := context.WithCancelCause(t.Context())
		wantErr(t, b.Do(t.Context(), "a", func(context.Context) error {
			leave(refused)
			return b.Do(ctx, key, nop)
		}), context.Canceled)
		book.want(t)
		wantErr(t, slow.Release(t.Context()), nil)
	})
}

func TestDo_KeysTakenInDifferentOrdersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		done := make(chan error)
		for _, keys := range [][2]string{{key, "b"}, {"b", key}} {
			go func() {
				done <- b.Do(t.Context(), keys[0], func(ctx context.Context) error {
					time.Sleep(time.Second)
					return b.Do(ctx, keys[1], nop)
				})
			}()
		}
		for range 2 {
			wantErr(t, <-done, guard.ErrNotAcquired)
		}
		synctest.Wait()
		if lines := book.lines(); len(lines) != 1 || !strings.Contains(lines[0], "taken in different orders?") {
			t.Errorf("logged %q", lines)
		}
	})
}

func TestLead_AnElectionThatIsOverIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		const elected = `level=INFO msg="guard: elected: this process leads" after=`
		wantErr(t, b.Lead(t.Context(), key, nop), nil)
		book.want(t, elected+"0s",
			`level=INFO msg="guard: the election is over: fn has returned, and Lead with it" error=<nil> for=0s`)
		ctx, cancel := context.WithCancel(t.Context())
		terms := 0
		_ = b.Lead(ctx, key, func(ctx context.Context) error {
			if terms++; terms == 1 {
				b.mem.Lose(key)
				<-ctx.Done()
				return nil
			}
			time.Sleep(time.Minute)
			cancel()
			return ctx.Err()
		})
		synctest.Wait()
		about := " guard=shop key_hash=" + guard.KeyHash(key)
		lines, losses := book.lines(), 0
		lines = slices.DeleteFunc(lines, func(line string) bool { // the background tells of it, at any time
			lost := strings.HasPrefix(strings.ReplaceAll(line, about, ""), lostLine)
			if lost {
				losses++
			}
			return lost
		})
		if losses != 1 {
			t.Errorf("the loss is logged %d times", losses)
		}
		for i, want := range []string{
			elected, `level=INFO msg="guard: leads no more: the lease is lost; it stands for election again"`, elected,
			`level=INFO msg="guard: leads no more: it was told to end" error="context canceled" for=1m0s`,
		} {
			if len(lines) != 4 || !strings.HasPrefix(strings.ReplaceAll(lines[i], about, ""), want) {
				t.Fatalf("logged %q, want %q as line %d", lines, want, i)
			}
		}
	})
}

// within returns a context that ends after d, as that of a request does.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDo_ADeadlineThatEndsAWaitBeforeMaxWaitIsToldOnce(t *testing.T) {
	for name, verb := range map[string]func(g *guard.Guard, ctx context.Context) error{
		"Do":      func(g *guard.Guard, ctx context.Context) error { return g.Do(ctx, key, nop) },
		"Acquire": func(g *guard.Guard, ctx context.Context) error { _, err := g.Acquire(ctx, key); return err },
		"DoAll":   func(g *guard.Guard, ctx context.Context) error { return g.DoAll(ctx, []string{"a", key}, nop) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, book := newLogged(t)
				held := must(b.other.Acquire(t.Context(), key))
				wantErr(t, verb(b.Guard, within(t, 100*time.Millisecond)), context.DeadlineExceeded)
				book.want(t) // too short for a timeout that somebody has set
				for range 2 {
					wantErr(t, verb(b.Guard, within(t, time.Second)), context.DeadlineExceeded)
				}
				book.want(t, deadlineLine+`(1s < 3s)" look="give `)
				route := b.With(guard.WithName("shop"), guard.WithMaxWait(time.Minute))
				wantErr(t, verb(route, within(t, 1500*time.Millisecond)), context.DeadlineExceeded)
				book.want(t) // the name has had its line
				wantErr(t, held.Release(t.Context()), nil)
			})
		})
	}
}

func TestDo_ADeadlineThatEndsNoWaitBeforeMaxWaitIsNotTold(t *testing.T) {
	in := func(d time.Duration) func(t *testing.T) context.Context {
		return func(t *testing.T) context.Context { t.Helper(); return within(t, d) }
	}
	for name, c := range map[string]struct {
		opts []guard.Option
		ctx  func(t *testing.T) context.Context
		verb func(g *guard.Guard, ctx context.Context) error
	}{
		"a later one":             {ctx: in(4 * time.Second)},
		"one of MaxWait's length": {opts: []guard.Option{guard.WithMaxWait(2 * time.Second)}, ctx: in(2 * time.Second)},
		"a client that leaves": {ctx: func(t *testing.T) context.Context {
			t.Helper()
			ctx, cancel := context.WithCancel(within(t, time.Minute))
			time.AfterFunc(time.Second, cancel)
			return ctx
		}},
		"one attempt": {opts: []guard.Option{guard.WithMaxWait(0)}, ctx: in(time.Millisecond)},
		"one that is over before the call": {
			ctx: func(t *testing.T) context.Context {
				t.Helper()
				ctx := within(t, time.Millisecond)
				time.Sleep(2 * time.Millisecond)
				return ctx
			},
		},
		"the end of a longer work": {
			ctx: func(t *testing.T) context.Context {
				t.Helper()
				ctx := within(t, time.Minute)
				time.Sleep(time.Minute - 100*time.Millisecond)
				return ctx
			},
		},
		"an election": {ctx: in(time.Minute), verb: func(g *guard.Guard, ctx context.Context) error {
			return g.Lead(ctx, key, nop)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, book := newLogged(t, c.opts...)
				held := must(b.other.Acquire(t.Context(), key))
				verb := c.verb
				if verb == nil {
					verb = func(g *guard.Guard, ctx context.Context) error { return g.Do(ctx, key, nop) }
				}
				if err := verb(b.Guard, c.ctx(t)); err == nil {
					t.Error("it ran")
				}
				for _, line := range book.lines() {
					if strings.Contains(line, "deadline ends the wait") {
						t.Errorf("logged %q", line)
					}
				}
				_ = held.Release(t.Context())
			})
		})
	}
}

func TestDo_AMinHoldThatIsIgnoredIsInTheDebugLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := newBench(t, guard.WithLogger(slog.New(slog.NewTextHandler(&out,
			&slog.HandlerOptions{Level: slog.LevelDebug}))))
		job := b.With(guard.WithMinHold(time.Minute))
		wantErr(t, b.Do(t.Context(), key, func(ctx context.Context) error {
			wantErr(t, b.Do(ctx, key, nop), nil)
			return job.Do(ctx, key, nop)
		}), nil)
		const want = `level=DEBUG msg="guard: MinHold ignored inside another call on the same key" guard=guard key_hash=`
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), want) ||
			!strings.Contains(out.String(), "min_hold=1m0s") {
			t.Errorf("logged %q", out.String())
		}
	})
}

func TestSetDefault_ADefaultThatReplacesAnOpenOneIsLogged(t *testing.T) {
	b, book := newLogged(t)
	defer guard.SetDefault(nil)
	guard.SetDefault(b.other)
	guard.SetDefault(nil)
	guard.SetDefault(b.Guard) // nil in between
	guard.SetDefault(b.With(guard.WithMaxWait(0)))
	if lines := book.lines(); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
	guard.SetDefault(b.other)
	guard.SetDefault(b.Guard)
	if lines := book.lines(); len(lines) != 2 ||
		!strings.Contains(lines[0], "SetDefault replaced another default guard") {
		t.Errorf("logged %q", lines)
	}
	closed := newGuard(t, memlocker.New())
	guard.SetDefault(nil)
	guard.SetDefault(closed)
	wantErr(t, closed.Close(t.Context()), nil)
	guard.SetDefault(b.Guard)
	if lines := book.lines(); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

func TestDo_ContentionGetsNoHint(t *testing.T) {
	for name, contend := range map[string]func(t *testing.T, b *bench){
		"turns of other calls": func(t *testing.T, b *bench) {
			t.Helper()
			stop := make(chan struct{})
			over := make(chan struct{})
			for range 2 {
				go func() {
					defer func() { over <- struct{}{} }()
					for {
						select {
						case <-stop:
							return
						default:
						}
						_ = b.Do(t.Context(), key, func(context.Context) error { time.Sleep(time.Second); return nil })
					}
				}()
			}
			synctest.Wait()
			wantErr(t, b.With(guard.WithMaxWait(1500*time.Millisecond)).Do(t.Context(), key, nop), guard.ErrNotAcquired)
			close(stop)
			<-over
			<-over
		},
		"a second click": func(t *testing.T, b *bench) {
			t.Helper()
			click := b.With(guard.WithMaxWait(0))
			_ = click.Do(t.Context(), key, func(context.Context) error { return click.Do(t.Context(), key, nop) })
		},
		"MinHold": func(t *testing.T, b *bench) {
			t.Helper()
			wantErr(t, b.With(guard.WithMinHold(time.Minute)).Do(t.Context(), key, nop), nil)
			wantErr(t, b.Do(t.Context(), key, nop), guard.ErrNotAcquired)
		},
		"calls inside one lease": func(t *testing.T, b *bench) {
			t.Helper()
			_ = b.Do(t.Context(), key, func(ctx context.Context) error {
				l := must(b.Acquire(ctx, key))
				defer func() { _ = l.Release(ctx) }()
				return b.Do(ctx, key, nop)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, book := newLogged(t)
				contend(t, b)
				book.want(t)
			})
		})
	}
}

func TestDo_AGuardOfAnotherNameIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		refund := b.With(guard.WithName("refund")) // a route of the same service, as in its other instances
		hold := func(g *guard.Guard) {
			t.Helper()
			l := must(g.Acquire(t.Context(), key))
			wantErr(t, b.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop), guard.ErrNotAcquired)
			wantErr(t, l.Release(t.Context()), nil)
		}
		hold(b.other)
		hold(refund)
		hold(b.other.With(guard.WithName("refund")))
		book.want(t)
		hold(b.other.With(guard.WithName("billing")))
		hold(b.other.With(guard.WithName("billing")))
		book.want(t, neighborLine+"billing")
	})
}
