// Package locker is for authors of a store: it says what a [Locker] must do for
// package guard to keep its promises. Users pick a store (redislocker,
// memlocker) and hand it to guard.New; they need nothing of this package.
//
// # The life of a claim
//
// A [Claim] is one process's wish for one key, under an owner id that nobody
// has ever used. There is at most one live claim per process and key, however
// many callers wait there: the guard lets them take turns on it.
//
//	event                              from              to        who is told
//	Acquire, nobody owns the key       new, or in queue  owner
//	Acquire with Wait, somebody does   new               in queue  the owner's process: Wanted
//	Acquire again, from time to time   in queue          in queue
//	Release by the owner               first in queue    owner     its process: Granted
//	Release with this claim as next    new               in queue
//	Renew, Fence                       owner             owner
//	Release, Abandon                   any               over
//	the TTL, or the offer, ends        owner             over
//	nobody saw it for its Life         in queue          over
//
// A claim is over, too, when the store answers that another owns its key though
// it was in the queue before (law 2). After that its owner id never comes back;
// a store need not guard against that.
//
// # What a store keeps
//
//   - For each key that is owned: the owner id, what the claim says about its [Holder], and when that ends.
//   - For each key that is waited for: a queue of claims in the order of their
//     places, and when each is to be seen again. A claim that was not seen for
//     [QueueLife] is never granted; one that rests has longer, see [Life]. Its
//     memory may stay while others look at the same queue, and for some seconds
//     more.
//   - The last fencing token, of each key or of all: it outlives owner and queue. Tokens begin above 0, and a block that was
//     reserved counts as given, all of it, whether anybody used it or not.
//
// What has ended must not stay for good, also if nobody ever comes back; to
// drop it when somebody calls next is enough. Claims are told apart by their
// owner ids alone, never by process and key. The store may keep the pointer to
// a Claim until it is over.
//
// An entry that does not vanish by itself is treated as if it were not there
// once its time is over, in every method, and for its own owner too. A store
// that ends leases late remembers by itself when a claim last had an answer:
// after its TTL the claim owns nothing, whatever the store still says. How late
// a key comes to others is told by [Limiter].
//
// A store without a clock lets each process that looks measure a lease. It
// counts the TTL from when it first saw the owner's revision, and takes the key
// by a comparison of that revision.
//
// What was answered about ownership survives a crash of a store on a disk:
// Acquire, Renew, Fence and a hand-over. A place in a queue may be lost, and so
// may a release that handed the key to nobody. A store that forgets leases in a
// crash says so in its documentation.
//
// # How exact a store must be
//
//   - A look that costs a write need not be recorded if the last one was
//     recorded less than 400 ms ago. A claim then leaves the queue that much
//     earlier.
//   - A locker may take its own claims out of the queue when they go unseen, by a
//     timer. For those of a process that died, law 5 is enough.
//   - A store without messages finds out by itself, within 100 ms, that a claim
//     waits for a key which this process owns, or was granted one.
//   - Calls for many claims come at once, and may travel in one request.
//   - Acquire may begin before messages can be heard. Once they can,
//     [Waker.WakeAll] is called.
//
// # The laws
//
// Whoever's owner id is in the key holds it. That is all of exclusion; the
// queue only decides whose id is put there next, and who learns of it. A lost
// message, a wrong entry or a crash may cost time, never exclusion. Laws 1, 10
// and 12 are the guard's to keep as well as the store's; the others are the
// store's.
//
//  1. Trust begins before the request. So a TTL starts when the store gets the Acquire or Renew, or later; an offer starts
//     at the hand-over, and lasts for the [Offer].Length that the message tells; and no claim is granted that is not in
//     the queue. The guard counts a TTL from before it sent that request, and an offer from before it sent the last
//     answered request that saw the claim queued. It relies on no offer whose length it was not told, and it renews one
//     soon. A claim that rested was often seen too long ago for that: then the
//     guard calls Acquire before it relies on the key.
//  2. An owner id is queued once. A claim leaves the queue for good before, or in the same step as, the key becomes its
//     own; an Acquire with Try.Queued whose claim is not there any more must not put it back.
//  3. A grant for nobody is given back. If [Waker.Granted] reports false, the locker releases the key by its owner id, and
//     that hands it on.
//  4. The message is a hint. A claim whose message got lost learns of its grant by
//     its next Acquire. That comes within [LookEvery], or within the rest that it
//     was granted, and in any case when the lease ends that its last Answer told
//     of.
//  5. A process that died while it waited costs the others at most the offer and a look. That is long only where the store knows that
//     the process has heard of it; a store that cannot know that makes short offers, see [Claim.LongOffer] and
//     [Claim.ShortOffer]. Nor does it grant a rest, because it would take a dead
//     claim for a live one for as long.
//  6. Who leaves is taken out of the queue, by Abandon.
//  7. A claim whose process may be there must not be passed over. A store that
//     passes over the processes that are gone, say because a message reached
//     nobody, may do that only to claims that were queued, or granted a rest,
//     when their process was sure to hear, and to those that nobody has seen for
//     longer than [LookEvery] or their rest; the others find the key by their
//     next Acquire. A claim that was passed over though its process lives begins
//     anew in its old place. A store grants a rest only to a claim whose process
//     is sure to hear, and only while another that hands over owns its key. When
//     the process may not hear any more, its locker calls [Waker.WakeAll] at
//     once, and grants no rest until it does again.
//  8. Only the end of a lease lets a claim barge. Acquire takes a key that nobody owns, whoever is in the queue; that happens
//     only when a lease has ended by its TTL. A Release does not leave the key free while somebody is in the queue.
//  9. The releaser goes to the back: the next claim that Release is given is queued behind those who wait.
//  10. Who leaves as the key comes passes it on: within the process, which is the guard's to keep, or by law 3.
//  11. The instance is the locker's: two lockers are two instances, also within one process. Keys and claims that a
//     failover brings back end by their TTL.
//  12. Unclear is not refused. Whoever cannot tell whether a request was carried out answers [ErrUnavailable]. The guard
//     then abandons the claim with late, or repeats an Acquire of a claim that is not in the queue.
//
// A store that can change two entries in one step hands over, also if it has
// watches: a watch is then only the message. etcd, ZooKeeper, Consul and SQL
// can.
//
// A store that cannot wakes instead: its Release frees the key, and its watch
// calls [Waker.Wake] in the process that is next. Laws 3, 6 and 8 are then its
// own to keep. It frees the key for the first in the queue, for as long as an
// offer, say by a value that only the first may replace. Others find such a key
// held by a zero Holder. If anybody waits, Release queues next, and answers
// Handed false and Queued true. Nobody gives back what a Wake was for: it must
// end by itself.
//
// Package lockertest checks this, but for what its documentation lists; run it
// from your tests before you run anything else.
package locker
