// Package cronlock has each tick of a robfig/cron v3 job run on one instance,
// though every instance has the schedule.
//
//	c := cron.New()
//	job := cron.NewChain(cronlock.Key(g, "job:report")).Then(cronlock.Func(report))
//	_, err := c.AddJob("0 3 * * *", job)
//
// The instance that comes first runs the tick. The others skip it, and so does
// an instance whose last run is not over yet: cron.SkipIfStillRunning is not
// needed.
//
// # What is told
//
// A skipped tick is a line in the guard's log, at level Info, or at Warn if the
// store gave no answer. Then perhaps no instance runs that tick. An error that
// the job returns is a line at level Error. The metric guard.waits of package
// tracing counts the skipped ticks under the outcome timeout, by the name of
// the guard.
//
// # Clocks
//
// The key stays taken for 500 ms, also if the job is quicker: an instance whose
// clock is late by less finds it taken. Where clocks differ by more, give the
// guard a longer [guard.WithMinHold], which must be shorter than the time
// between two ticks. A guard that has one keeps it.
//
// # Contexts
//
// A [Func] has a context, which ends when the lease is lost or MaxHold is over.
// So a job that may take longer than a minute needs a [guard.WithMaxHold]. A
// plain cron.Job cannot be told to stop, so it keeps its key until it returns,
// without MaxHold.
//
// Key must be the last wrapper of a chain, next to the job: of a wrapper in
// between it sees a plain job without a context. cron.Recover stands before it.
//
// # At least once, or not at all
//
// A run that dies in the middle is not repeated before the next tick. A run
// whose lease is lost may overlap with the next one, unless it heeds its
// context.
package cronlock
