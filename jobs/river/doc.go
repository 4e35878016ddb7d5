// Package riverlock lets one River job at a time work on a key, across all
// worker processes.
//
//	orders := func(job *river.Job[PayArgs]) string { return guard.Key("order", job.Args.Order) }
//	river.AddWorker(workers, riverlock.Key(g, orders, &PayWorker{}))
//
// A job whose key is held is snoozed, so it comes back later. It costs no
// attempt and holds no worker. Jobs are also snoozed while the guard's store
// gives no answer.
//
// # Times
//
// A turn ends after MaxHold, 60 s by default. Then the context of the job ends
// and the job has failed. So [Key] panics at start-up if the worker has a
// longer Timeout, or none. River's own default of 1 minute fits. A longer
// river.Config.JobTimeout is noticed when a job begins. The guard then logs a
// warning once. Give the guard a [guard.WithMaxHold] that fits.
//
// # At least once
//
// A lost lease ends the context of the job and counts as a failure. The job may
// have run, and runs again. The same is true for the job of a worker that died.
// River finds that after river.Config.RescueStuckJobsAfter, an hour by default,
// while the key is free after its TTL.
//
// # Why a worker
//
// [Key] wraps a worker, because a rivertype.WorkerMiddleware gets the job
// without its decoded arguments and cannot see the worker's Timeout. So it
// could neither make a key of typed arguments nor refuse a Timeout at start-up.
//
// A job's own river.JobSnooze and river.JobCancel pass through.
package riverlock
