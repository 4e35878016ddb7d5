package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/locker"
)

// A logbook is a log whose lines a test can look at.
type logbook struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines returns the lines that were logged since the last call.
func (b *logbook) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return strings.FieldsFunc(b.buf.String(), func(r rune) bool { return r == '\n' })
}

func (b *logbook) option() guard.Option {
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return guard.WithLogger(slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: untimed})))
}

// want checks the lines since the last call. Each must name the guard and the
// key's hash, but not the key.
func (b *logbook) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait() // the guard's own goroutines log too
	got := b.lines()
	if len(got) != len(want) {
		t.Fatalf("logged %q, want %q", got, want)
	}
	for i := range want {
		line := strings.Replace(got[i], " guard=shop key_hash="+guard.KeyHash(key), "", 1)
		if line == got[i] || !strings.HasPrefix(line, want[i]) || strings.Contains(line, key) {
			t.Errorf("logged %q, want %q and which key", got[i], want[i])
		}
	}
}

func newLogged(t *testing.T, opts ...guard.Option) (*bench, *logbook) {
	t.Helper()
	book := &logbook{}
	return newBench(t, append([]guard.Option{guard.WithName("shop"), book.option()}, opts...)...), book
}

const (
	lostLine  = `level=ERROR msg="guard: lease lost while its function runs" error="guard: `
	ranOnLine = `level=WARN msg="guard: function ran on after its lease was lost" for=`
	downLine  = `level=WARN msg="guard: locker unavailable" error="`
	halfLine  = `level=WARN msg="guard: function has had its key for half of MaxHold" for=`
	wasLine   = `level=WARN msg="guard: locker was unavailable" error="memlocker: guard: locker unavailable: no answer: broken for a test" for=3s outages=1`
	upLine    = `level=WARN msg="guard: locker available again" after=`
)

func TestDo_ALostLeaseIsLoggedOnceAsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxHold(20*time.Second))
		_ = b.Do(t.Context(), key, func(ctx context.Context) error {
			return b.Do(ctx, key, func(ctx context.Context) error { // inside: the same loss
				b.mem.Lose(key)
				<-ctx.Done()
				return nil
			})
		})
		book.want(t, lostLine+`lease lost: the key is not ours any more"`)
		_ = b.Do(t.Context(), key, func(context.Context) error { b.mem.Lose(key); return nil })
		book.want(t, lostLine+`lease lost: the key is not ours any more"`) // only the release has noticed
		_ = b.Do(t.Context(), key, func(ctx context.Context) error { <-ctx.Done(); return nil })
		book.want(t, halfLine+"10s max_hold=20s", lostLine+`held longer than the limit that WithMaxHold sets: 20s"`)
	})
}

func TestDo_ALineOfAnotherModeSaysWhich(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		for mode, o := range map[string]guard.Option{"shared": guard.WithShared(), "permits": guard.WithPermits(3)} {
			_ = b.With(o).Do(t.Context(), key, func(ctx context.Context) error {
				b.mem.Lose(key)
				<-ctx.Done()
				return nil
			})
			book.want(t, lostLine+`lease lost: the key is not ours any more" mode=`+mode)
		}
	})
}

func TestDo_AFunctionThatRunsPastItsLossIsLoggedWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithoutRenewal())
		late := func(d time.Duration) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(d)
				return nil
			}
		}
		_ = b.Do(t.Context(), key, late(42*time.Second))
		book.want(t, lostLine, ranOnLine+"42s")
		_ = b.Do(t.Context(), key, late(500*time.Millisecond)) // the margin of a TTL of 10 s
		book.want(t, lostLine)
	})
}

func TestDo_ATurnThatIsHalfwayToMaxHoldIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxHold(2*time.Minute))
		sleep := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		_ = b.Do(t.Context(), key, sleep(time.Minute-time.Second))
		book.want(t)
		_ = b.Do(t.Context(), key, func(ctx context.Context) error {
			time.Sleep(time.Second)
			return b.Do(ctx, key, sleep(time.Minute)) // the outer turn counts
		})
		book.want(t, halfLine+"1m0s max_hold=2m0s look=")
		_ = b.With(guard.WithMaxHold(0)).Do(t.Context(), key, sleep(time.Hour))
		book.want(t)
	})
}

// A deadline must be kept even while the log hangs.
func TestDo_AWarningThatHangsDelaysNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(hangingLog)
		b := newBench(t, guard.WithMaxHold(20*time.Second), guard.WithLogger(slog.New(hang)))
		start := time.Now()
		err := b.Do(t.Context(), key, func(ctx context.Context) error {
			<-ctx.Done()
			if d := time.Since(start); d != 20*time.Second {
				t.Errorf("ended after %v", d)
			}
			close(hang)
			return nil
		})
		wantErr(t, err, guard.ErrMaxHold)
	})
}

// A hangingLog blocks until it is closed.
type hangingLog chan struct{}

func (hangingLog) Enabled(context.Context, slog.Level) bool    { return true }
func (h hangingLog) Handle(context.Context, slog.Record) error { <-h; return nil }
func (h hangingLog) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hangingLog) WithGroup(string) slog.Handler             { return h }

func TestDo_AnOutageIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(time.Second))
		mend := b.mem.Break()
		for range 5 {
			wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable)
			wantErr(t, b.With(guard.WithMaxWait(0)).Do(t.Context(), key, nop), guard.ErrUnavailable)
		}
		book.want(t, downLine)
		mend()
		for range 5 {
			wantErr(t, b.Do(t.Context(), key, nop), nil)
		}
		book.want(t, upLine+"1") // after MaxWait the outage is known, and the other calls are refused at once
	})
}

func TestDo_AnOutageIsLoggedWhileTheFirstCallStillWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(time.Minute))
		mend := b.mem.Break()
		done := make(chan error)
		go func() { done <- b.Do(t.Context(), key, nop) }()
		book.want(t, downLine)
		time.Sleep(3 * time.Second)
		book.want(t)
		mend()
		wantErr(t, <-done, nil)
		book.want(t, upLine+"3") // mend wakes the call
	})
}

func TestLead_AStandbyLogsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(time.Minute))
		leader := must(b.other.Acquire(t.Context(), key))
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Lead(ctx, key, nop) }()
		book.want(t)
		mend := b.mem.Break()
		time.Sleep(time.Second) // it looks twice in that time
		book.want(t, downLine)
		time.Sleep(2 * time.Second)
		book.want(t)
		mend()
		time.Sleep(time.Second)
		book.want(t, upLine)
		leave()
		wantErr(t, <-done, context.Canceled)
		_ = leader.Release(t.Context())
	})
}

// The last try of a wait has little time. If that runs out, it says nothing
// about the store.
func TestDo_ATryThatItsWaitCutsShortIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(2*time.Second))
		holder := must(b.other.Acquire(t.Context(), key))
		start := time.Now()
		b.spy.set(func(s *spy) {
			s.acquire = func(ctx context.Context, _ *locker.Claim, next acquires) (locker.Answer, error) {
				if time.Since(start) < 1700*time.Millisecond { // there is a look every 250 ms at least
					return next()
				}
				<-ctx.Done()
				return locker.Answer{}, fmt.Errorf("%w: %w", guard.ErrUnavailable, ctx.Err())
			}
		})
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrNotAcquired) // what was seen before still counts
		book.want(t)
		b.spy.set(func(s *spy) { s.acquire = nil })
		wantErr(t, holder.Release(t.Context()), nil)
	})
}

// A release logs nothing about outages, so the next call logs that one is over.
func TestAnOutageLastsUntilTheFirstAnswerNotUntilTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(0))
		lease := must(b.Acquire(t.Context(), "another"))
		mend := b.mem.Break()
		wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable)
		book.want(t, downLine)
		time.Sleep(2 * time.Second)
		mend()
		wantErr(t, lease.Release(t.Context()), nil)
		time.Sleep(time.Minute)
		wantErr(t, b.Do(t.Context(), key, nop), nil)
		book.want(t, upLine+"2s")

		time.Sleep(time.Minute)
		lease = must(b.Acquire(t.Context(), "another"))
		fails := func() {
			mend = b.mem.Break()
			wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable)
			time.Sleep(time.Second)
			mend()
		}
		fails()
		wantErr(t, lease.Release(t.Context()), nil)
		fails() // the answer to the release was not the end
		wantErr(t, b.Do(t.Context(), key, nop), nil)
		book.want(t, downLine, upLine+"2s")
	})
}

func TestAnOutageThatEndsBeforeItsLineIsLoggedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t, guard.WithMaxWait(0))
		outage := func(lasts time.Duration) {
			mend := b.mem.Break()
			wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable)
			time.Sleep(lasts)
			mend()
			wantErr(t, b.Do(t.Context(), key, nop), nil)
		}
		outage(time.Second)
		book.want(t, downLine, upLine+"1s")
		time.Sleep(time.Second)
		outage(3 * time.Second)
		book.want(t)
		time.Sleep(5 * time.Second) // 10 s after the last line of a begin
		wantErr(t, b.Do(t.Context(), key, nop), nil)
		book.want(t, wasLine)
		wantErr(t, b.Do(t.Context(), key, nop), nil)
		outage(time.Second)
		outage(time.Second)
		book.want(t)
		time.Sleep(time.Minute)
		outage(0) // its line tells of those before it, too
		book.want(t, downLine+`memlocker: guard: locker unavailable: no answer: broken for a test" outages_before=2`, upLine)
	})
}

func TestDo_AnOutageEndsWithAnyClearAnswer(t *testing.T) {
	for name, own := range map[string]bool{"held": false, "renewed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, book := newLogged(t, guard.WithMaxWait(0), guard.WithMaxHold(0), guard.WithTTL(time.Minute))
				holder := b.other
				if own {
					holder = b.Guard
				}
				l := must(holder.Acquire(t.Context(), key))
				mend := b.mem.Break()
				if own {
					time.Sleep(25 * time.Second) // past the first try to renew
				} else {
					wantErr(t, b.Do(t.Context(), key, nop), guard.ErrUnavailable)
				}
				book.want(t, downLine)
				mend()
				if own {
					time.Sleep(10 * time.Second)
				} else {
					wantErr(t, b.Do(t.Context(), key, nop), guard.ErrNotAcquired)
				}
				book.want(t, upLine)
				wantErr(t, l.Release(t.Context()), nil)
			})
		})
	}
}

func TestDo_ACallerThatLeavesIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		b.spy.set(func(s *spy) {
			s.acquire = func(ctx context.Context, _ *locker.Claim, _ acquires) (locker.Answer, error) {
				<-ctx.Done()
				return locker.Answer{}, fmt.Errorf("%w: %w", guard.ErrUnavailable, ctx.Err())
			}
		})
		for _, wait := range []time.Duration{0, time.Second} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			if err := b.With(guard.WithMaxWait(wait)).Do(ctx, key, nop); err == nil || b.spy.acquires.Load() == 0 {
				t.Fatalf("got %v after %d tries", err, b.spy.acquires.Load())
			}
			cancel()
		}
		book.want(t)
		b.spy.set(func(s *spy) { s.acquire = nil })
	})
}

func TestDo_AReleaseThatIsNotConfirmedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, book := newLogged(t)
		_ = b.Do(t.Context(), key, func(context.Context) error { b.mem.Break(); return nil })
		book.want(t, `level=WARN msg="guard: release not confirmed, the key ends with its TTL" error=`, downLine)
	})
}

func TestKeyHash_IsWhatSha256sumPrints(t *testing.T) {
	// printf %s stock:42 | sha256sum
	if got := guard.KeyHash("stock:42"); got != "a6aac0970079" {
		t.Errorf("KeyHash is %q", got)
	}
}
