package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
)

// payOnce is a function that pays and then needs another key.
func payOnce(g *guard.Guard, paid *int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		*paid++
		if err := g.Do(ctx, "ledger", nop); err != nil {
			return fmt.Errorf("book: %w", err)
		}
		return nil
	}
}

var errSkipped = errors.New("TryDo says that nothing ran")

// verbs lists the verbs that run a function.
func verbs(g *guard.Guard) map[string]func(ctx context.Context, fn func(ctx context.Context) error) error {
	return map[string]func(ctx context.Context, fn func(ctx context.Context) error) error{
		"Do": func(ctx context.Context, fn func(ctx context.Context) error) error { return g.Do(ctx, key, fn) },
		"Do with one attempt": func(ctx context.Context, fn func(ctx context.Context) error) error {
			return g.With(guard.WithMaxWait(0)).Do(ctx, key, fn)
		},
		"DoAll": func(ctx context.Context, fn func(ctx context.Context) error) error {
			return g.DoAll(ctx, []string{key, "other"}, fn)
		},
		"Call": func(ctx context.Context, fn func(ctx context.Context) error) error {
			_, err := guard.Call(ctx, g, key, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
			return err
		},
		"Wrap": func(ctx context.Context, fn func(ctx context.Context) error) error {
			_, err := guard.Wrap(g, func(int) string { return key },
				func(ctx context.Context, _ int) (int, error) { return 0, fn(ctx) })(ctx, 1)
			return err
		},
		"TryDo": func(ctx context.Context, fn func(ctx context.Context) error) error {
			ran, err := g.TryDo(ctx, key, fn)
			if !ran && err == nil {
				return errSkipped
			}
			return err
		},
		"Lead": func(ctx context.Context, fn func(ctx context.Context) error) error { return g.Lead(ctx, key, fn) },
	}
}

func TestDo_ARefusalInsideAFunctionIsNotTakenForOneOfTheVerb(t *testing.T) {
	for name := range verbs(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, guard.WithMaxWait(time.Second))
				l := must(b.other.Acquire(t.Context(), "ledger"))
				defer func() { _ = l.Release(t.Context()) }()

				paid := 0
				err := verbs(b.Guard)[name](t.Context(), payOnce(b.Guard, &paid))
				var held *guard.HeldError
				wantErr(t, err, guard.ErrNotAcquired)
				if !errors.As(err, &held) || held.Key != "ledger" ||
					err.Error() != "book: guard: not acquired: the key is held by another holder, after waiting 1s" {
					t.Errorf("got %q, %+v", err, held)
				}
				if paid != 1 || !guard.Ran(err) || !guard.Ran(fmt.Errorf("pay: %w", errors.Join(io.EOF, err))) {
					t.Errorf("paid %d times, ran: %v", paid, guard.Ran(err))
				}
			})
		})
	}
}

func TestDo_AVerbThatIsRefusedHasNotRunItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Second))
		l := must(b.other.Acquire(t.Context(), key))
		defer func() { _ = l.Release(t.Context()) }()
		for name, do := range verbs(b.Guard) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := do(ctx, nop); !errors.Is(err, errSkipped) && (err == nil || guard.Ran(err)) {
				t.Errorf("%s: got %v, ran: %v", name, err, guard.Ran(err))
			}
			cancel()
		}
		for _, err := range []error{
			b.Do(t.Context(), "", nop), b.Do(t.Context(), key, nil), b.DoAll(t.Context(), nil, nop),
			guard.Do(t.Context(), key, nop),
		} {
			if err == nil || guard.Ran(err) {
				t.Errorf("got %v, ran: %v", err, guard.Ran(err))
			}
		}
	})
}

func TestDo_AFunctionsOwnErrorComesBackAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, own := range []error{
			nil, io.EOF, context.Canceled, context.DeadlineExceeded, guard.ErrNoLease,
			fmt.Errorf("x: %w", io.EOF),
		} {
			for name, do := range verbs(b.Guard) {
				err := do(t.Context(), func(context.Context) error { return own })
				if err != own || !guard.Ran(err) { //nolint:errorlint // the same one
					t.Errorf("%s: got %v, want %v itself; ran: %v", name, err, own, guard.Ran(err))
				}
			}
		}
	})
}

func TestDo_ALeaseLostWhileItsFunctionRanSaysThatItRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxHold(time.Second))
		var inner error
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			<-ctx.Done()
			inner = b.Do(ctx, key, nop) // inside a lease that is lost
			return io.EOF
		})
		wantErr(t, err, guard.ErrMaxHold, io.EOF)
		wantErr(t, inner, guard.ErrLeaseLost)
		if !guard.Ran(err) || guard.Ran(inner) {
			t.Errorf("ran: %v, %v; want true, false", guard.Ran(err), guard.Ran(inner))
		}
	})
}

// If the first function of a group fails, the waits of the others end. The
// error of the function is the cause.
func TestDo_AWaitThatTheFailureOfAnotherFunctionEndsHasNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, guard.WithMaxWait(time.Second))
		l := must(b.other.Acquire(t.Context(), "ledger"))
		defer func() { _ = l.Release(t.Context()) }()
		paid := 0
		failed := b.Do(t.Context(), "first", payOnce(b.Guard, &paid))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(failed)
		err := b.Do(ctx, "ledger", nop)
		wantErr(t, err, guard.ErrNotAcquired, context.Canceled, failed)
		if guard.Ran(err) {
			t.Errorf("ran, by %v", err)
		}
		if err := b.Do(t.Context(), key, func(context.Context) error { return err }); !guard.Ran(err) {
			t.Errorf("has not run, by %v", err)
		}
	})
}
