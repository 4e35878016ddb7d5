// Package guard puts a distributed lock around a function: only one call at a
// time works on a key, across every instance of a service.
//
//	g, err := guard.New(redislocker.New(rdb))
//	...
//	err = g.Do(ctx, guard.Key("stock", sku), func(ctx context.Context) error {
//		return deduct(ctx, sku) // alone, as long as ctx has not ended
//	})
//
// In front of an HTTP handler it is one line, see the packages under
// middleware:
//
//	r.POST("/skus/:sku/deduct", lockmw.Key(g, "stock:{sku}"), deduct)
//
// # What it promises
//
// This is an advisory, lease-based lock. It prevents almost all concurrent
// execution, and tells you, before the fact, when it no longer can. If two
// executions would corrupt data, pass the fencing token to the resource and
// reject lower tokens.
//
//   - A crashed holder blocks others for at most the TTL.
//   - Only the owner of a key renews or releases it.
//   - A lease is renewed while its function runs, up to MaxHold.
//   - The function's context ends, with cause [ErrLeaseLost], before the key can expire, even if the store is unreachable,
//     as far as the process gets a processor.
//   - A wait ends within the longer of MaxWait and the try limit (a quarter of the TTL, at most 500 ms), plus 50 ms.
//     [Guard.DoAll] gives each of its keys an attempt beyond that.
//   - Fencing tokens strictly increase per key, in the order of the turns.
//   - Nothing stays behind: no key without a TTL, no goroutine after [Guard.Close].
//
// It does not promise exclusion across a pause of the process that is longer
// than the TTL, or across a failover of the store that loses the write: no lock
// service can, and the fencing token is for that. Before the first renewal of a
// key that was handed over, 50 ms later, the pause is a third of the TTL, in a
// Redis Cluster 1 s. It is no idempotency: a second click that waits runs when
// its turn comes. WithMaxWait(0) refuses it, an idempotency key answers it.
//
// # Which verb
//
//   - [Guard.Do] for nearly everything; [Call] for a function with a result, [Wrap] to guard it for good.
//   - [Guard.DoAll] for several keys.
//   - [Guard.Acquire] where the critical section does not fit a function.
//   - [Guard.TryDo] and [Guard.TryAcquire] to skip instead of wait, [Guard.Lead] for what one instance at a time does.
//   - [Guard.With] for the settings of one route.
//
// # The life of a call
//
//	           nobody here wants the key             it is free
//	Do ────► gate ────────────────────────► bid ─────────────────► grant ───► turn: fn runs under its lease
//	          │                             │ ▲ held: queue         ▲  ▲         │        │
//	          │ somebody does               ▼ │ in the store,       │  │         │        │ fn returns
//	          ▼                            alarm, look again        │  │         │        ▼
//	         line                           │                       │  │         │   next in line? ──► hand-off:
//	          │                             └───────────────────────┘  │         │        │ no         the next turn,
//	          ├── first in line: goes on with the bid, or the grant ───┘         │        ▼            no round trip
//	          ▼                            handed over by another process        │     release: hand-over
//	      MaxWait, ctx, Close                                                    ▼     to the next process
//	                                         deadline, not the owner, MaxHold: the lease is lost,
//	                                         ctx ends, and nobody gets another turn on the grant
//
// The calls of one process that want a key meet at its gate and stand in line.
// Only the first of them, who has the floor, talks to the store, so 10,000
// waiting calls cost it what one does, and each call that is done hands its
// grant to the next without a round trip. This is lock cohorting (Dice,
// Marathe, Shavit, PPoPP 2012) over a lease (Gray, Cheriton, SOSP 1989). To be
// fair to other processes a tenure ends with a real release after 64 turns or
// 100 ms, or if another process is known to wait, after one pass over those who
// stood in line then.
//
// Processes that wait stand in a queue in the store, each with what it would
// store itself. A release makes the first of them the owner, tells it by a
// message, and queues the releaser behind the others if it wants the key again:
// one request, and the next process has the key without one of its own. It has
// it for an offer of a third of the TTL, but 1 to 5 s, which an early renewal
// makes a full TTL. A waiter looks by itself from time to time, so a lost
// message costs a look, and the waiters that have died cost 1 s at most, all
// together; one that dies in the moment of its hand-over costs its offer.
// Package locker has the laws of this.
//
// Package internal/turns has the stages of the picture from the gate to the
// hand-over, and this package has the verbs and the lease around them.
// CONTRIBUTING.md says which file is which.
//
// # Until when a lease is trusted
//
//	deadline = time before the request was sent + TTL - max(1 % of TTL, 2 ms) - max(5 % of TTL, 5 ms)
//
// The first subtrahend is for clocks that do not run alike, the second is time
// to stop work in. The deadline is kept on the monotonic clock and on the wall
// clock, which goes on while the machine sleeps, and a timer of its own
// enforces it whatever the network does. A renewal, sent every third of the TTL
// and repeated until the deadline, moves it. A turn starts only with a quarter
// of the TTL left. Of a key that was handed over, the same holds with the offer
// instead of the TTL, counted from the last look that saw this process in the
// queue.
//
// The context is ended by a timer of this process. If the process gets no
// processor for longer than the margin, its function learns of it late, perhaps
// after the key has ended: beside goroutines that compute without pause, or on
// an overloaded machine, no TTL makes this certain. [Lease.Err] and
// [Lease.FencingToken] look at the clocks themselves and are right even then;
// for the rest there is the fencing token. A wall clock that is set forward by
// more than what is left of a lease ends it at once: that cannot be told from a
// machine that slept.
//
// # Re-entry
//
// A verb that finds a live lease on its key in its ctx runs inside that lease;
// several such calls run one at a time, and the outer call releases only after
// they have ended. So a route and the service behind it may both guard the same
// key. The settings of the inner call for TTL, MaxHold and fencing do not
// count.
//
// # Transactions
//
// Commit inside fn. A transaction that commits after Do has returned commits
// after the next holder has read.
package guard
