// Package locker is for authors of a store: it says what a [Locker] must do for package guard to keep its promises.
// Users pick a store (redislocker, memlocker) and hand it to guard.New; they need nothing of this package.
//
// # The life of a claim
//
// A [Claim] is one process's wish for one key, under an owner id that nobody has ever used. There is at most one live
// claim per process and key, however many callers wait there: the guard lets them take turns on it.
//
//	         nobody owns the key
//	Acquire ────────────────────────────────────────► owned ──── Renew, Fence ──┐
//	   │ somebody does                                 ▲  ▲ ▲                   │
//	   ▼                     Release of the owner      │  │ └───────────────────┘
//	 held ──► in the queue ────────────────────────────┘  │            │
//	   ▲          │    │     hands the key over: Granted  │            ▼
//	   │          ▼    └── Acquire finds it granted ──────┘    Release: over, the key goes
//	   └────── Acquire again: a look, from time to time        to the first in the queue
//
// It is over with a Release that was answered, with Abandon, or when the store answers that another owns the key. After
// that its owner id never comes back.
//
// # What a store keeps
//
// For each key that is owned: the owner id, what the claim says about its [Holder], and when that ends. For each key that
// is waited for: a queue of claims in the order of their places. What ends by itself must: an owned key at its TTL, a
// claim in the queue [QueueLife] after the last Acquire that saw it, also if nobody ever comes back; while others look at
// the same queue, a store may keep it. Claims are told apart by their owner ids alone, never by process and key.
//
// # The laws
//
// Whoever's owner id is in the key holds it. That is all of exclusion; the queue only decides whose id is put there next,
// and who learns of it. A lost message, a wrong entry or a crash may cost time, never exclusion.
//
//  1. Trust begins before the request. The guard counts a TTL from before it sent the Acquire or Renew that was answered,
//     and an offer from before it sent the last answered Acquire, or Release, that saw the claim queued. So a store must
//     start the TTL no earlier than it gets the request, and must not grant a claim before it is in the queue.
//  2. An owner id is queued once. A claim leaves the queue for good before, or in the same step as, the key becomes its
//     own; an Acquire with Try.Queued whose claim is not there any more must not put it back.
//  3. A grant for nobody is given back. If [Waker.Granted] reports false, the locker releases the key by its owner id, and
//     that hands it on.
//  4. The message is a hint. A claim whose message got lost learns of its grant by its next Acquire.
//  5. A process that died while it waited costs the others at most the offer, see [Claim.Offer].
//  6. Who leaves is taken out of the queue, by Abandon.
//  7. Messages first, then the queue: a claim may wait to be told only if the store could have told its process when it was
//     queued; before that it must be found by its next Acquire.
//  8. Nobody barges. Acquire may take a key that is free even if others are in the queue, because that happens only when a
//     lease has ended by its TTL. A Release must not leave a key free while somebody is in the queue, if the store can
//     choose.
//  9. The releaser goes to the back: the next claim that Release is given is queued behind those who wait.
//  10. Who leaves as the key comes passes it on: within the process, which is the guard's to keep, or by law 3.
//  11. The instance is the locker's: two lockers are two instances, also within one process. Keys and claims that a
//     failover brings back end by their TTL.
//  12. Unclear is not refused. Whoever cannot tell whether a request was carried out answers [ErrUnavailable]. The guard
//     then abandons the claim, or repeats the same request where that is safe; an Abandon may come to a key that was handed
//     over already, and must do nothing then.
//
// A store that wakes by watching (a znode, a revision) need not hand over: its Release frees the key, and its watch calls
// [Waker.Wake] in the process that is next. Laws 3, 6 and 8 are then its own to keep.
//
// Package lockertest checks all of this; run it from your tests before you run anything else.
package locker
