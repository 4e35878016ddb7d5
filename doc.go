// Package guard puts a distributed lock around a function: only one call at a time works on a key, across every instance
// of a service.
//
//	g, err := guard.New(redislocker.New(rdb))
//	...
//	err = g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
//		return deduct(ctx, sku) // alone, as long as ctx has not ended
//	})
//
// In front of an HTTP handler it is one line, see the packages under middleware:
//
//	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
//
// # What it promises
//
// This is an advisory, lease-based lock. It prevents almost all concurrent execution, and tells you, before the fact, when
// it no longer can. If two executions would corrupt data, pass the fencing token to the resource and reject lower tokens.
//
//   - A crashed holder blocks others for at most the TTL.
//   - Only the owner of a key renews or releases it.
//   - A lease is renewed while its function runs, up to MaxHold.
//   - The function's context ends, with cause [ErrLeaseLost], before the key can expire, even if the store is unreachable.
//   - A wait ends within the longer of MaxWait and the try limit (a quarter of the TTL, at most 500 ms), plus 50 ms.
//   - Fencing tokens strictly increase per key, in the order of the turns.
//   - Nothing stays behind: no key without a TTL, no goroutine after [Guard.Close].
//
// It does not promise exclusion across a pause of the process that is longer than the TTL, or across a failover of the
// store that loses the write: no lock service can, and the fencing token is for that. It is no idempotency: a second
// click that waits runs when its turn comes. WithMaxWait(0) refuses it, an idempotency key answers it.
//
// # Which verb
//
//   - [Guard.Do] for nearly everything; [Call] for a function with a result, [Wrap] to guard it for good.
//   - [Guard.DoAll] for several keys.
//   - [Guard.Acquire] where the critical section does not fit a function, [Guard.TryAcquire] to skip instead of wait.
//   - [Guard.With] for the settings of one route.
//
// # The life of a call
//
//	           nobody here wants the key            it is free
//	Do ────► gate ───────────────────────► contend ───────────► grant ───► turn: fn runs under its lease
//	          │                             ▲   │ held            ▲          │        │
//	          │ somebody does               │   ▼                 │          │        │ fn returns
//	          ▼                             │  pause, look again  │          │        ▼
//	         line ──────────────────────────┴─────────────────────┘          │   next in line? ──► hand-off:
//	          │       first in line: goes next, with the grant               │        │ no         the next turn,
//	          ▼                      or to contend                           │        ▼            no round trip
//	      MaxWait, ctx, Close                                                │     release
//	                                                                         ▼
//	                                       deadline, not the owner, MaxHold: the lease is lost,
//	                                       ctx ends, and nobody gets another turn on the grant
//
// The calls of one process that want a key meet at its gate and stand in line. Only the first of them talks to the store,
// so 10,000 waiting calls cost it what one does, and each call that is done hands its grant to the next without a round
// trip. To be fair to other processes a tenure ends with a real release after 64 turns or 100 ms, or if another process is
// known to wait, after one pass over those who stood in line then. The release wakes the next process and queues this one
// behind it.
//
// # Until when a lease is trusted
//
//	deadline = time before the request was sent + TTL - max(1 % of TTL, 2 ms) - max(5 % of TTL, 5 ms)
//
// The first subtrahend is for clocks that do not run alike, the second is time to stop work in. The deadline is kept on the
// monotonic clock and on the wall clock, which goes on while the machine sleeps, and a timer of its own enforces it whatever
// the network does. A renewal, sent every third of the TTL and repeated until the deadline, moves it. A turn starts only with
// a quarter of the TTL left.
//
// # Re-entry
//
// A verb that finds a live lease on its key in its ctx runs inside that lease; several such calls run one at a time, and the
// outer call releases only after they have ended. So a route and the service behind it may both guard the same key. The
// settings of the inner call for TTL, MaxHold and fencing do not count.
//
// # Transactions
//
// Commit inside fn. A transaction that commits after Do has returned commits after the next holder has read.
package guard
