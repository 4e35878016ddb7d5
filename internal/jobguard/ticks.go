package jobguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

// Ticks runs the ticks of one job, each on one of the instances that have its
// schedule. The result of [guard.Once] under the tick's time says that the tick
// has run, and the key of the job keeps its runs apart. Its methods are safe
// for concurrent use.
type Ticks struct {
	Guard   *guard.Guard
	Name    string                          // of the job, the same on all instances
	Spec    string                          // of its schedule, not empty
	Next    func(time.Time) time.Time       // the first tick after a time, or zero if there is none
	Work    func(ctx context.Context) error // the job
	CatchUp int                             // how many missed ticks a run makes up for

	mu    sync.Mutex // guards what follows, and is never held across a request
	first time.Time  // the first tick that any instance has run; zero if not known yet
	over  time.Time  // all ticks up to here are over
}

const (
	// mostCatchUp is the largest CatchUp. Each tick is recorded for as long as
	// an instance with it may look back, so that CatchUp may change at any
	// time.
	mostCatchUp = 100
	// recordedFor is the shortest time for which a tick is recorded. An
	// instance whose clock is late, or that was paused, finds the record.
	recordedFor = 10 * time.Minute
	// ever is how long the first tick of a job is recorded.
	ever = 100 * 365 * 24 * time.Hour
)

// NewTicks checks t and returns it ready to run. The error Is
// guard.ErrInvalidOption.
func NewTicks(t *Ticks) (*Ticks, error) {
	switch {
	case t.Name == "":
		return nil, fmt.Errorf("%w: a tick needs the name of its job", guard.ErrInvalidOption)
	case t.CatchUp < 0 || t.CatchUp > mostCatchUp:
		return nil, fmt.Errorf("%w: CatchUp is %d, want 0 to %d", guard.ErrInvalidOption, t.CatchUp, mostCatchUp)
	case t.Work == nil:
		return nil, fmt.Errorf("%w: the job is nil", guard.ErrInvalidOption)
	case t.Guard.MinHold() > 0: // also of a guard that has no store yet
		return nil, fmt.Errorf("%w: a tick is recorded, so it needs no MinHold", guard.ErrInvalidOption)
	}
	// A call whose ctx has ended sends nothing, and is refused what Once
	// refuses.
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends at once
	cancel()
	_, err := guard.Once(ctx, t.Guard, t.key("first"), ever, func(context.Context) (time.Time, error) {
		return time.Time{}, nil
	})
	if errors.Is(err, guard.ErrInvalidOption) {
		return nil, fmt.Errorf("a tick is recorded by guard.Once: %w", err)
	}
	t.Guard = t.Guard.With(guard.WithLinger(0)) // a run must be told of each loss
	return t, nil
}

type tickKey struct{}

// TickOf returns the scheduled time of the tick that ctx belongs to.
func TickOf(ctx context.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(tickKey{}).(time.Time)
	return at, ok
}

// early is how much too early a timer may seem to fire, because the clock was
// set back meanwhile.
const early = 100 * time.Millisecond

// earlyShare bounds early to a part of the time between two ticks.
const earlyShare = 10

// RunLatest is Run for the last tick before now, and logs what came of it. Next
// must read times in the location of now.
func (t *Ticks) RunLatest(ctx context.Context, now time.Time) {
	due := Latest(t.Next, now)
	if due.IsZero() {
		due = now
	}
	if next := t.Next(due); !next.IsZero() && next.Sub(now) <= min(early, next.Sub(due)/earlyShare) {
		due = next
	}
	t.tell(ctx, due, t.Run(ctx, due))
}

// RunMissed is for an instance that starts. It runs the last CatchUp ticks up
// to now that may not have run, and logs what came of it. There are none if the
// job has never run.
func (t *Ticks) RunMissed(ctx context.Context, now time.Time) {
	if due := Latest(t.Next, now); !due.IsZero() {
		t.tell(ctx, due, t.runTicks(ctx, due, true))
	}
}

// tell logs what came of a run.
func (t *Ticks) tell(ctx context.Context, due time.Time, err error) {
	key := guard.Key("job", t.Name)
	switch {
	case err == nil:
	case !guard.Ran(err):
		LogSkipped(ctx, t.Guard, key, err, slog.Time("tick", due))
	default:
		t.Guard.Logger().LogAttrs(ctx, slog.LevelError, "guard: the job has failed",
			append(About(t.Guard, key, err), slog.Time("tick", due))...)
	}
}

// Every is the schedule of the multiples of interval since the Unix epoch.
func Every(interval time.Duration) (next func(time.Time) time.Time) {
	return func(t time.Time) time.Time { return t.Add(interval - time.Duration(t.UnixNano()%int64(interval))) }
}

// Run runs the tick due, unless an instance has run it, and before it the
// missed ones. It waits until the next tick at most for a run that goes on
// elsewhere. Its error is that of the guard, and of the job if it ran here.
func (t *Ticks) Run(ctx context.Context, due time.Time) error { return t.runTicks(ctx, due, false) }

// runTicks is Run, or that of an instance that starts.
func (t *Ticks) runTicks(ctx context.Context, due time.Time, starts bool) error {
	if _, over := t.seen(); !due.After(over) {
		return nil
	}
	wait := time.Duration(0)
	if next := t.Next(due); !next.IsZero() {
		wait = time.Until(next)
	}
	if wait < time.Millisecond { // the shortest wait that there is
		wait = 0
	}
	all := t.Guard.With(guard.WithMaxWait(wait), guard.WithMaxHold(0))
	return all.Do(ctx, guard.Key("job", t.Name), func(ctx context.Context) error {
		ticks, err := t.missed(ctx, due, starts)
		if err != nil {
			return err
		}
		if !starts {
			ticks = append(ticks, due)
		}
		for _, at := range ticks {
			if time.Since(at) > t.lifetime(at) { // this process was paused, or has caught up for long
				t.warn(ctx, at, errTooLate)
				continue
			}
			failed, wrong := t.once(ctx, at)
			err = errors.Join(err, failed, wrong)
			if wrong != nil { // the later ticks wait for this one
				return err
			}
		}
		return err
	})
}

// once runs the tick at, unless it has run. A job that has failed or panicked,
// or that MaxHold has ended, has run. err says that nobody knows whether the
// tick has run.
func (t *Ticks) once(ctx context.Context, at time.Time) (failed, err error) {
	inside := false // the job, also while its panic or Goexit passes
	defer func() {
		if inside {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), panicTime)
			defer cancel()
			_ = t.recordRun(ctx, at) // without it the tick runs again, as after a crash
			t.see(time.Time{}, at)
		}
	}()
	err = t.record(ctx, at, func(ctx context.Context) {
		inside = true
		failed = t.Work(context.WithValue(ctx, tickKey{}, at))
		inside = false
	})
	long := errors.Is(err, guard.ErrMaxHold)
	if long {
		failed = errors.Join(err, failed)
		err = t.recordRun(context.WithoutCancel(ctx), at)
	}
	if errors.Is(err, guard.ErrInterrupted) {
		if !long {
			t.warn(ctx, at, fmt.Errorf("an instance died inside it: %w", err))
		}
		err = nil
	}
	if err == nil {
		t.see(time.Time{}, at)
	}
	return failed, err
}

// recordRun records that the tick at has run, where [guard.Once] has kept
// nothing. No other run begins meanwhile, because this one has the key of the
// job.
func (t *Ticks) recordRun(ctx context.Context, at time.Time) error {
	return t.record(ctx, at, func(context.Context) {})
}

// panicTime is how long a panic may wait for the store.
const panicTime = 3 * time.Second

// record calls run and records that the tick at has run, unless there is a
// record of it.
func (t *Ticks) record(ctx context.Context, at time.Time, run func(ctx context.Context)) error {
	// The key of the tick may be left of a process that died inside it.
	one := t.Guard.With(guard.WithMaxWait(time.Minute))
	_, err := guard.Once(ctx, one, t.key(at.UTC().Format(time.RFC3339Nano)), t.lifetime(at),
		func(ctx context.Context) (struct{}, error) {
			run(ctx)
			return struct{}{}, nil
		})
	return err
}

var errTooLate = errors.New("it may have run, and its record be over")

// warn logs why nobody runs the tick at.
func (t *Ticks) warn(ctx context.Context, at time.Time, err error) {
	t.Guard.Logger().LogAttrs(ctx, slog.LevelWarn, "guard: tick skipped",
		append(About(t.Guard, guard.Key("job", t.Name), err), slog.Time("tick", at))...)
}

// seen returns what this instance knows of the ticks.
func (t *Ticks) seen() (first, over time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first, t.over
}

// see adds to what this instance knows. A zero time adds nothing.
func (t *Ticks) see(first, over time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first.IsZero() {
		t.first = first
	}
	if over.After(t.over) {
		t.over = over
	}
}

var errNever = errors.New("the job has never run")

// missed returns the last CatchUp ticks before due that may not have run, and
// with due itself for an instance that starts. There are none before the first
// tick that any instance has run.
func (t *Ticks) missed(ctx context.Context, due time.Time, starts bool) ([]time.Time, error) {
	if t.CatchUp == 0 {
		return nil, nil
	}
	first, over := t.seen()
	if first.IsZero() {
		var err error
		if first, err = t.firstTick(ctx, due, starts); err != nil || first.IsZero() {
			return nil, err
		}
		t.see(first, over)
	}
	after := first.Add(-1) // the first one may have been interrupted
	if over.After(after) {
		after = over
	}
	if starts {
		due = due.Add(1)
	}
	return before(t.Next, due, after, t.CatchUp), nil
}

// A beginning is the first tick that an instance has run by a schedule. There
// is one record of it for each job: after a change of the schedule the job
// begins anew, also where the schedule was in use before.
type beginning struct {
	Spec string
	Tick time.Time
}

// firstTick returns the first tick that any instance has run since the job has
// its schedule. That is due if none has. It is zero for an instance that starts
// then, and if nobody knows.
func (t *Ticks) firstTick(ctx context.Context, due time.Time, starts bool) (time.Time, error) {
	for {
		b, err := guard.Once(ctx, t.Guard, t.key("first"), ever, func(context.Context) (beginning, error) {
			if starts {
				return beginning{}, guard.NothingDone(errNever)
			}
			return beginning{t.Spec, due}, nil
		})
		lost := errors.Is(err, guard.ErrInterrupted) // under WithAtMostOnce: nothing was done, so the next run may
		switch {
		case err == nil && b.Spec == t.Spec:
			return b.Tick, nil
		case errors.Is(err, errNever), err == nil && starts:
			return time.Time{}, nil
		case err != nil && !lost:
			return time.Time{}, err
		}
		if _, err := t.Guard.Forget(ctx, t.key("first")); err != nil || lost {
			return time.Time{}, err
		}
	}
}

func (t *Ticks) key(parts ...any) string {
	return guard.Key(append([]any{"tick", t.Name}, parts...)...)
}

// lifetime is how long the tick at is recorded: for as long as an instance may
// look for it.
func (t *Ticks) lifetime(at time.Time) time.Duration {
	end := at
	for range mostCatchUp + 2 {
		next := t.Next(end)
		if next.IsZero() {
			break
		}
		end = next
	}
	return max(recordedFor, min(ever, end.Sub(at)))
}

// Latest returns the last tick of a schedule that is not after now, or zero if
// there was none in four years.
func Latest(next func(time.Time) time.Time, now time.Time) time.Time {
	if ticks := before(next, now.Add(1), time.Time{}, 1); len(ticks) == 1 {
		return ticks[0]
	}
	return time.Time{}
}

// before returns the last n ticks between after and due, oldest first. It looks
// back farther and farther, because a schedule only knows what comes next.
func before(next func(time.Time) time.Time, due, after time.Time, n int) []time.Time {
	const farthest = 4*366*24*time.Hour + 1
	due, after = due.Round(0), after.In(due.Location()) // without the monotonic clock, and in the schedule's location
	for back := time.Second; ; back *= 2 {
		from := due.Add(-min(back, farthest))
		last := back >= farthest || !from.After(after)
		if from.Before(after) {
			from = after
		}
		var ticks []time.Time
		for at := next(from); at.Before(due) && !at.IsZero(); at = next(at) {
			ticks = append(ticks, at)
		}
		if last || len(ticks) >= n {
			return slices.Clone(ticks[max(0, len(ticks)-n):])
		}
	}
}
