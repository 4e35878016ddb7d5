// Package asynqlock lets one asynq task at a time work on a key, across all
// worker processes.
//
//	srv := asynq.NewServer(redis, asynq.Config{
//		IsFailure:      asynqlock.IsFailure,
//		RetryDelayFunc: asynqlock.RetryDelay,
//	})
//	mux := asynq.NewServeMux()
//	mux.Use(asynqlock.Key(g, func(t *asynq.Task) string { return guard.Key("order", orderOf(t)) }))
//
// A task whose key is held waits for a moment on its worker, see [Key]. Then it
// comes back later, and costs no retry. All three lines are needed for that.
// Without [IsFailure] each return costs a retry. Without [RetryDelay] the task
// comes back when asynq's backoff says so.
//
// Coming back costs seconds: 1 s to 90 s, and up to 5 s until asynq looks for
// the task, see asynq.Config.DelayedTaskCheckInterval. If a second task of the
// same type and payload need not run at all, asynq.Unique refuses it when it is
// queued.
//
// # The last attempt
//
// asynq archives a task whose last retry returns an error, whatever IsFailure
// says. So a task without retries left, as with asynq.MaxRetry(0), waits for
// its key and holds its worker meanwhile. It waits for at most half of its
// remaining time. If it does not get the key then, it is archived without
// having run.
//
// # Times
//
// asynq gives a task 30 minutes unless asynq.Timeout says otherwise. A turn
// ends after MaxHold, 60 s by default. Then the context of the task ends and
// the task has failed. If a task's time is longer than MaxHold, the guard logs
// a warning once per type when such a task begins. Change one of the two so
// that they fit.
//
// # At least once
//
// A lost lease ends the context of the task and counts as a failure. The task
// may have run, and runs again. The same is true for the task of a worker that
// died. asynq finds that after a minute or two, while the key is free after its
// TTL.
//
// asynq's ErrorHandler also gets tasks whose key is held. It can recognize them
// by [IsFailure].
package asynqlock
