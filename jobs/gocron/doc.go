// Package gocronlock has the Locker and the Elector of gocron v2, for instances
// that all have the same schedule.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(gocronlock.NewLocker(g)))
//	nightly := gocron.CronJob("0 3 * * *", false)
//	job, err := s.NewJob(nightly, gocron.NewTask(report), gocron.WithName("report"))
//
// With a [Locker] each run of a job happens on the instance that gets the job's
// key first. The others skip it. An instance whose last run is not over yet
// skips it too. With an [Elector] all jobs run on one instance as long as it
// lives. gocron ignores a Locker beside an Elector.
//
// # Names and ticks
//
// The key is made of the job's name, so give each job a gocron.WithName. The
// name of a job without one is that of its Go function. That is the same for
// all closures of one line, and another after the code has changed.
//
// The ticks of a gocron.DurationJob count from the start of its instance, so
// they are other moments on each instance, and each runs. Use a CronJob or a
// DailyJob, or give it a gocron.WithStartDateTime that is the same everywhere.
//
// With a Locker a tick runs again on an instance that comes late, and a tick
// that no instance could run is lost. [AddTick] claims the tick itself: each
// runs at most once, whatever the clocks and the lengths of runs, and
// [WithCatchUp] makes up for missed ones. Its job has the context of its lease.
//
//	job, err := gocronlock.AddTick(s, "0 3 * * *", g, "report", report, gocronlock.WithCatchUp(1))
//
// The guard's [guard.WithLinger] has no effect on jobs.
//
// # What is told
//
// A skipped run is logged by the guard at level Info. If the store gave no
// answer the level is Warn, because perhaps no instance runs that tick. The
// metric guard.waits of package tracing counts the skipped runs under the
// outcome timeout, by the name of the guard. gocron tells its own
// AfterLockError listeners.
//
// # Contexts
//
// gocron does not hand the context of the lease to a job. So a job cannot be
// told that its lease is lost. It keeps its key until it returns, without
// MaxHold. A job that must stop calls g.TryDo itself, under the context that it
// gets there. Such a job needs gocron.WithDisabledDistributedJobLocker.
//
// A job of a leader goes on when this instance does not lead any more. What
// must not overlap with the next leader's job calls g.TryDo too.
package gocronlock
