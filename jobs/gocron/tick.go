package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
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

// AddTick adds a job to s whose ticks run at most once each over all instances
// that add it under the same name with the same spec. A lease answers whether
// somebody runs the job now; AddTick answers whether the tick of 03:00 has run.
// The clocks of the instances may differ by up to half the time between two
// ticks. What becomes of ticks whose process dies, of errors, panics and long
// runs, and of the hour at which summer time begins is as in AddTick of package
// cronlock, beside jobs/gocron. Where summer time ends, some versions of gocron
// leave out the second tick of a daily job.
//
// spec is a crontab line, with or without seconds, in the location of s, or a
// descriptor such as "@daily". The ticks of "@every 2s" are the multiples of 2
// s since the Unix epoch, because those of a gocron.DurationJob count from each
// instance's start. AddTick refuses an empty name, a nil job, a spec that it
// cannot parse, and a guard with MinHold, readers or permits, with
// [guard.ErrInvalidOption]. Other errors are those of gocron.
//
// A nil g is the default guard, looked up at each tick. The job runs under a
// lease on guard.Key("job", name), with a ctx that ends when the lease is lost,
// MaxHold is over or s is shut down. A Locker of s does not apply; an Elector
// does. A tick costs an instance three requests, and the one that runs it four.
// With [WithCatchUp] s has a second job of that name, which runs at the start.
// AddTick is safe for concurrent use.
func AddTick(s gocron.Scheduler, spec string, g *guard.Guard, name string, job func(ctx context.Context) error,
	opts ...TickOption,
) (gocron.Job, error) {
	sc := &schedule{}
	ticks := &jobguard.Ticks{Guard: g.With(), Name: name, Spec: spec, Next: sc.Next, Work: job}
	for _, o := range opts {
		o(ticks)
	}
	ticks, err := jobguard.NewTicks(ticks)
	if err != nil {
		return nil, err
	}
	task := gocron.NewTask(func(ctx context.Context) { ticks.RunLatest(ctx, time.Now()) })
	named, unlocked := gocron.WithName(name), gocron.WithDisabledDistributedJobLocker(true)
	j, err := s.NewJob(gocron.CronJob(spec, true), task, gocron.WithCronImplementation(sc), named, unlocked)
	switch {
	case errors.Is(err, gocron.ErrCronJobParse):
		return nil, fmt.Errorf("%w: %w", guard.ErrInvalidOption, err)
	case err != nil || ticks.CatchUp == 0:
		return j, err
	}
	task = gocron.NewTask(func(ctx context.Context) { ticks.RunMissed(ctx, time.Now()) })
	if _, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task, named, unlocked); err != nil {
		return nil, errors.Join(err, s.RemoveJob(j.ID()))
	}
	return j, nil
}

// schedule is a [gocron.Cron] whose ticks are the same on all instances.
// gocron calls IsValid once, before all else.
type schedule struct{ next func(time.Time) time.Time }

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor)

// IsValid implements [gocron.Cron].
func (s *schedule) IsValid(spec string, location *time.Location, now time.Time) error {
	parsed, err := parser.Parse(spec)
	if err != nil {
		return errors.Join(gocron.ErrCronJobParse, err)
	}
	s.next = func(t time.Time) time.Time { return parsed.Next(t.In(location)) }
	if every, ok := parsed.(cron.ConstantDelaySchedule); ok {
		s.next = jobguard.Every(every.Delay)
	}
	if s.next(now).IsZero() {
		return gocron.ErrCronJobInvalid
	}
	return nil
}

// Next implements [gocron.Cron].
func (s *schedule) Next(last time.Time) time.Time { return s.next(last) }
