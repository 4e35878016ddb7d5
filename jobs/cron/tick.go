package cronlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// TickOption changes one setting of [AddTick].
type TickOption func(*jobguard.Ticks)

// WithCatchUp lets an instance that starts, and each run before its own tick,
// make up for at most n ticks that nobody has run, the oldest first. Ticks are
// missed while no instance is up, while the store gives no answer, and while a
// run takes longer than the time between two ticks. A job that has never run
// with its spec catches up on nothing, nor does one whose spec has changed, and
// changed back. A tick that is 100 ticks and 10 minutes late is left out. The
// default is 0. [AddTick] refuses a negative n, and one above 100.
//
// A new instance sends up to n+4 requests more, and the first one after a
// change of the spec three more.
func WithCatchUp(n int) TickOption { return func(t *jobguard.Ticks) { t.CatchUp = n } }

// TickOf returns the scheduled time of the tick that a job added by [AddTick]
// runs for. ok is false in any other ctx. TickOf does not block, and is safe
// for concurrent use.
func TickOf(ctx context.Context) (at time.Time, ok bool) { return jobguard.TickOf(ctx) }

// AddTick adds a job to c whose ticks run at most once each over all instances
// that add it under the same name with the same spec. A lease answers whether
// somebody runs the job now; AddTick answers whether the tick of 03:00 has run.
// The clocks of the instances may differ by up to half the time between two
// ticks.
//
// The tick is the schedule's time, not that of the clock. c reads spec in its
// location. Where that has summer time, c skips a tick between 2:00 and 3:00 in
// spring, and has it twice in autumn, so a nightly job needs another hour, or a
// location such as time.UTC. The ticks of "@every 2s" are the multiples of 2 s since the Unix
// epoch, because c would count them from each instance's start. AddTick refuses
// a schedule of any other kind, since instances could not agree on its ticks,
// with [guard.ErrInvalidOption]. AddTick also refuses an empty name, a nil job,
// a spec that c does not parse, and a guard with MinHold, readers or permits.
//
// An instance waits for a run elsewhere until the next tick, and c.Stop for
// that wait, which Close of the guard ends. If the other process dies inside
// the job, the waiting instance runs the tick when the lease has ended. With a
// TTL longer than the time between two ticks nobody waits so long:
// [WithCatchUp] runs the tick then. A job that must rather be left undone takes
// a guard with [guard.WithAtMostOnce]. A job that returns an error, that
// panics, or that MaxHold ends, has run; the guard logs the error, and a panic
// passes through when the tick is recorded. A run whose lease is lost may run
// again elsewhere, so the job must heed its ctx.
//
// A nil g is the default guard, looked up at each tick. The job runs under a
// lease on guard.Key("job", name), so its runs do not overlap, whichever tick
// they are for, and [Key] with the same key keeps apart from them. A tick costs
// an instance three requests, and the one that runs it four. AddTick does not
// block, and is safe for concurrent use.
func AddTick(c *cron.Cron, spec string, g *guard.Guard, name string, job Func, opts ...TickOption,
) (cron.EntryID, error) {
	parsed, err := c.AddFunc(spec, func() {}) // only c knows its parser
	if err != nil {
		return 0, fmt.Errorf("%w: %w", guard.ErrInvalidOption, err)
	}
	schedule, err := aligned(c.Entry(parsed).Schedule)
	c.Remove(parsed)
	if err != nil {
		return 0, err
	}
	ticks := &jobguard.Ticks{Guard: g.With(), Name: name, Spec: spec, Next: schedule.Next, Work: job}
	for _, o := range opts {
		o(ticks)
	}
	if ticks, err = jobguard.NewTicks(ticks); err != nil {
		return 0, err
	}
	start := &fromStart{Schedule: schedule}
	if ticks.CatchUp > 0 {
		schedule = start
	}
	return c.Schedule(schedule, cron.FuncJob(func() {
		run := ticks.RunLatest
		if ticks.CatchUp > 0 && !start.ran.Swap(true) {
			run = ticks.RunMissed
		}
		run(unbounded(), time.Now().In(c.Location()))
	})), nil
}

// fromStart is a schedule whose first tick is the start of its cron.Cron.
type fromStart struct {
	cron.Schedule

	begun, ran atomic.Bool
}

// Next implements [cron.Schedule].
func (s *fromStart) Next(t time.Time) time.Time {
	if !s.begun.Swap(true) {
		return t
	}
	return s.Schedule.Next(t)
}

var errNotAligned = errors.New("instances cannot agree on the ticks of this kind of schedule")

// aligned returns s with ticks that are the same on all instances.
func aligned(s cron.Schedule) (cron.Schedule, error) {
	switch s := s.(type) {
	case *cron.SpecSchedule:
		return s, nil
	case cron.ConstantDelaySchedule:
		return every(jobguard.Every(s.Delay)), nil
	}
	return nil, fmt.Errorf("%w: %T: %w", guard.ErrInvalidOption, s, errNotAligned)
}

// every is a schedule of ticks at equal distances.
type every func(time.Time) time.Time

// Next implements [cron.Schedule].
func (e every) Next(t time.Time) time.Time { return e(t) }
