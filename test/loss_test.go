package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/locker"
)

// causeOf calls act while a function runs. It returns the cause with which the
// function's context ended.
func causeOf(t *testing.T, act func(ctx context.Context, b *bench), opts ...guard.Option) (cause error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, opts...)
		_ = b.Do(t.Context(), key, func(ctx context.Context) error {
			act(ctx, b)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
	})
	return cause
}

func TestDo_ALostLeaseSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		act    func(ctx context.Context, b *bench)
		opts   []guard.Option
		reason errnote.Loss
		says   string
	}{
		"no answer": {
			act:    func(_ context.Context, b *bench) { time.Sleep(4 * time.Second); t.Cleanup(b.mem.Break()) },
			reason: errnote.Deadline, says: "guard: locker unavailable: no answer: broken for a test",
		},
		"not renewed": {
			act: func(context.Context, *bench) {}, opts: []guard.Option{guard.WithoutRenewal()},
			reason: errnote.Deadline, says: "not renewed before its deadline: WithoutRenewal, it ends with its TTL",
		},
		"taken": {
			act:    func(_ context.Context, b *bench) { b.mem.Lose(key) },
			reason: errnote.Taken, says: "the key is not ours any more",
		},
		"forced": {
			act: func(ctx context.Context, b *bench) {
				s, err := b.mem.Inspect(ctx, key)
				if err == nil {
					err = b.mem.ForceRelease(ctx, key, s.Owner)
				}
				if err != nil {
					t.Error(err)
				}
			},
			reason: errnote.Forced, says: "the key was released by force",
		},
		"closed": {
			act: func(ctx context.Context, b *bench) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				_ = b.Close(ctx)
			},
			reason: errnote.Closed, says: "closed",
		},
		"max hold": {
			act: func(context.Context, *bench) {}, opts: []guard.Option{guard.WithMaxHold(time.Second)},
			reason: errnote.MaxHold, says: "held longer than the limit that WithMaxHold sets: 1s",
		},
	} {
		err := causeOf(t, c.act, c.opts...)
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("%s: %v is not ErrLeaseLost", name, err)
			continue
		}
		if got := errnote.LossOf(err); got != c.reason || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: lost for %q with %q, want %q with %q", name, got, err, c.reason, c.says)
		}
	}
}

// The tries before the deadline are short, so they may find out nothing.
func TestDo_ALostLeaseTellsARefusalBeforeSilence(t *testing.T) {
	refusal := fmt.Errorf("%w: read-only", locker.ErrUnavailable)
	for name, last := range map[string]error{
		"timeout": fmt.Errorf("%w: %w", locker.ErrUnavailable, context.DeadlineExceeded),
		"silent":  fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrSilent),
		"unsent":  fmt.Errorf("%w: %w", locker.ErrUnavailable, locker.ErrUnsent),
	} {
		err := causeOf(t, func(_ context.Context, b *bench) {
			answer := refusal
			b.spy.mu.Lock()
			defer b.spy.mu.Unlock()
			b.spy.renew = func(context.Context, func() []error) []error {
				defer func() { answer = last }()
				return []error{answer}
			}
		})
		if !errors.Is(err, guard.ErrLeaseLost) || !strings.Contains(err.Error(), "read-only") ||
			strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: lost with %q, want the refusal", name, err)
		}
	}
}
