// Package guard puts a distributed lock around a function. Only one call at a
// time works on a key, across every instance of a service.
//
//	g, err := guard.New(redislocker.New(rdb))
//	...
//	err = g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
//		return deduct(ctx, sku) // alone, as long as ctx has not ended
//	})
//
// In front of an HTTP handler it is one line, see the packages in the
// middleware directory:
//
//	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
//
// # What it promises
//
// This is an advisory, lease-based lock. It prevents almost all concurrent
// execution. When it no longer can, it tells you before the fact. If two
// executions would corrupt data, pass the fencing token to the resource and
// reject lower tokens.
//
//   - A crashed holder blocks others for at most the TTL.
//   - Only the owner of a key renews or releases it.
//   - A lease is renewed while its function runs, up to MaxHold.
//   - The function's context ends before the key can expire, with cause
//     [ErrLeaseLost]. That holds even if the store is unreachable, as long as
//     the process is scheduled.
//   - A wait ends within the longer of MaxWait and the try limit
//     (a quarter of the TTL, at most 500 ms), plus 50 ms. [Guard.DoAll] gives
//     each of its keys an attempt beyond that.
//   - Fencing tokens strictly increase per key, in the order of the turns.
//   - Nothing stays behind. No key is without a TTL, and no goroutine lives on
//     after [Guard.Close].
//
// It does not promise exclusion if the process pauses for longer than its lease
// lasts, or if the store fails over and loses the write. No lock service can.
// The fencing token is for such cases. A lease lasts for the TTL. After a
// hand-over it is safe for only a third of that until its second renewal, some
// 1.2 s later; in a Redis Cluster for 1 s, until 0.4 s later. With [WithLinger]
// it is safe for a sixth. docs/choosing.md has the bounds.
//
// It does not make requests idempotent. A second click that waits runs when its
// turn comes. To refuse it use WithMaxWait(0), to answer it an idempotency key.
//
// # Which verb
//
//   - [Guard.Do] for nearly everything.
//   - [Call] for a function with a result, and [Wrap] to lock one function
//     always.
//   - [Once] for a function whose result every other call gets, retries
//     included. [KeepFor] sets for how long.
//   - [Guard.DoAll] for several keys.
//   - [Guard.Acquire] where the critical section does not fit a function.
//   - [Guard.TryDo] and [Guard.TryAcquire] to skip instead of wait.
//   - [Guard.Lead] for work that one instance at a time does. [Guard.AskLeader]
//     has it step down.
//   - [Wanted] in a function that can stop early when another call waits.
//   - [Guard.With] for the settings of one route.
//
// docs/how-it-works.md follows a call of Do through all of it. CONTRIBUTING.md
// says which file is which.
//
// # Until when a lease is trusted
//
//	deadline = time before the request was sent + TTL - max(1 % of TTL, 2 ms) - max(5 % of TTL, 5 ms)
//
// The first term allows for clock drift. The second is time to stop work in.
//
// The deadline is kept on the monotonic clock and on the wall clock, because
// the wall clock goes on while the machine sleeps. A timer of its own enforces
// the deadline whatever the network does. A renewal moves it. Renewals are sent
// every third of the TTL and repeated until the deadline.
//
// A turn starts only with a quarter of the TTL left. For a key that was handed
// over, the same rules hold with the offer instead of the TTL. The offer counts
// from the last look that saw this process in the queue.
//
// A timer of this process ends the context. If the process gets no processor
// for longer than the margin, its function learns of the end late. The key may
// have ended by then. That can happen beside goroutines that compute without
// pause, or on an overloaded machine. No TTL rules it out. [Lease.Err] and
// [Lease.FencingToken] look at the clocks themselves and are right even then.
// For everything else there is the fencing token.
//
// A wall clock that is set forward by more than what is left of a lease ends it
// at once. The guard cannot tell this from a machine that slept.
//
// # Re-entry
//
// A verb that finds a live lease on its key in its ctx runs inside that lease.
// Several such calls run one at a time. The outer call releases only after they
// have ended. So a route and the service behind it may both guard the same key.
// The settings of the inner call for TTL, MaxHold and fencing do not count.
//
// # Transactions
//
// Commit inside fn. A transaction that commits after Do has returned commits
// after the next holder has read.
package guard
