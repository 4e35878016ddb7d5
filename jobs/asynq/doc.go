// Package asynqlock has one asynq task at a time work on a key, in all worker
// processes.
//
//	srv := asynq.NewServer(redis, asynq.Config{
//		IsFailure:      asynqlock.IsFailure,
//		RetryDelayFunc: asynqlock.RetryDelay,
//	})
//	mux := asynq.NewServeMux()
//	mux.Use(asynqlock.Key(g, func(t *asynq.Task) string { return guard.Key("order", orderOf(t)) }))
//
// A task whose key is held comes back later. It costs no retry and holds no
// worker. All three lines are needed for that: without [IsFailure] each return
// costs a retry, and without [RetryDelay] the task comes back when asynq's
// backoff says so.
//
// # The last attempt
//
// asynq archives what returns an error after its last retry, whatever IsFailure
// says. So a task that has none left, as with asynq.MaxRetry(0), waits for its
// key and holds its worker meanwhile: for half of its remaining time at most.
// If it does not get the key then, it is archived without having run.
//
// # Times
//
// asynq gives a task 30 minutes unless asynq.Timeout says otherwise, and a turn
// ends after MaxHold, 60 s by default: then the context of the task ends and
// the task has failed. A task whose time is longer than MaxHold is told once
// per type, as a warning in the guard's log when such a task begins. Give
// either a value that fits.
//
// # At least once
//
// A lost lease ends the context of the task and counts as a failure: the task
// may have run, and runs again. So may the task of a worker that died. asynq
// finds that after a minute or two, while the key is free after its TTL.
//
// asynq's ErrorHandler sees tasks whose key is held, too. It can tell them by
// [IsFailure].
package asynqlock
