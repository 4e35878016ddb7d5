// Package cronlock runs each tick of a robfig/cron v3 job on one instance,
// though every instance has the schedule.
//
//	c := cron.New()
//	job := cron.NewChain(cronlock.Key(g, "job:report")).Then(cronlock.Func(report))
//	_, err := c.AddJob("0 3 * * *", job)
//
// The instance that gets the key first runs the tick. The others skip it. An
// instance whose last run is not over yet skips it too, so
// cron.SkipIfStillRunning is not needed.
//
// # A window or a tick
//
// The key of [Key] is taken while the job runs, and for a moment after it. An
// instance that comes later than that runs the tick again, and a tick that no
// instance could run is lost. That suits jobs that may run once more or less,
// such as sweeping. With [AddTick] the tick itself is claimed: each runs at
// most once, whatever the clocks and the lengths of runs, and [WithCatchUp]
// makes up for missed ones.
//
//	_, err := cronlock.AddTick(c, "0 3 * * *", g, "report", report, cronlock.WithCatchUp(1))
//
// # What is told
//
// A skipped tick is logged by the guard at level Info. If the store gave no
// answer the level is Warn, because perhaps no instance runs that tick. An
// error that the job returns is logged at level Error. The metric guard.waits
// of package tracing counts the skipped ticks under the outcome timeout, by the
// name of the guard.
//
// # Clocks
//
// The key stays taken for at least 500 ms, even if the job is quicker. So an
// instance whose clock is late by less finds it taken. If clocks differ by
// more, give the guard a longer [guard.WithMinHold]. It must be shorter than
// the time between two ticks. A guard that has one keeps it. The guard's
// [guard.WithLinger] has no effect on jobs.
//
// # Contexts
//
// A [Func] has a context that ends when the lease is lost or MaxHold is over.
// So a job that may take longer than a minute needs a [guard.WithMaxHold]. A
// plain cron.Job cannot be told to stop. So it keeps its key until it returns,
// without MaxHold.
//
// Key must be the last wrapper of a chain, next to the job. A wrapper in
// between would look like a plain job without a context. cron.Recover belongs
// before Key.
//
// # At least once, or not at all
//
// A run that dies in the middle is not repeated before the next tick. A run
// whose lease is lost may overlap with the next run, unless it heeds its
// context.
package cronlock
