// Package riverlock has one River job at a time work on a key, in all worker
// processes.
//
//	orders := func(job *river.Job[PayArgs]) string { return guard.Key("order", job.Args.Order) }
//	river.AddWorker(workers, riverlock.Key(g, orders, &PayWorker{}))
//
// A job whose key is held is snoozed: it comes back later. It costs no attempt
// and holds no worker. That is so, too, while the guard's store gives no
// answer.
//
// # Times
//
// A turn ends after MaxHold, 60 s by default: then the context of the job ends
// and the job has failed. So [Key] panics at start-up if the worker has a
// Timeout which is longer, or none. River's own default is 1 minute, which
// fits. A longer river.Config.JobTimeout is seen when a job begins, and told
// once, as a warning in the guard's log. Give the guard a [guard.WithMaxHold]
// that fits.
//
// # At least once
//
// A lost lease ends the context of the job and counts as a failure: the job may
// have run, and runs again. So may the job of a worker that died. River finds
// that after river.Config.RescueStuckJobsAfter, an hour by default, while the
// key is free after its TTL.
//
// A job's own river.JobSnooze and river.JobCancel pass through.
package riverlock
