// Package locker is for authors of a store. It says what a [Locker] must do so
// that package guard keeps its promises. Users choose a store, such as
// redislocker or memlocker, and pass it to guard.New. They need nothing of this
// package.
//
// A store that can compare and swap rows needs little of it either: package
// rowlocker keeps the laws below, on three laws of its own. They are written
// for those who keep them in another way, as Redis does by scripts.
//
// # The life of a claim
//
// A [Claim] is a process that wants one key, or owns it. It has an owner id
// that was never used before. Each process has at most one live claim in the
// queue of a key, however many callers wait there. It owns the key by one
// claim, or by several with a limit above 1, such as one for each permit. The
// guard lets the callers take turns on a claim.
//
//	event                              from              to        who is told
//	Acquire, nobody owns the key       new, or in queue  owner
//	Acquire with Wait, somebody does   new               in queue  the owner's process: Wanted
//	Acquire again, from time to time   in queue          in queue
//	Release by the owner               first in queue    owner     its process: Granted
//	Release with this claim as Next    new               in queue
//	Renew, Fence                       owner             owner
//	Release                            owner             over
//	Release with Queued                any               over
//	the TTL, or the offer, ends        owner             over
//	nobody saw it for its Life         in queue          over
//
// A claim is also over when it was in the queue before and the store answers
// that another claim owns its key (law 2). After that its owner id never comes
// back. A store need not guard against that.
//
// # Several owners
//
// A claim says by [Claim].Limit how many claims may own its key at once. One
// rule decides for all of them (law 9): a claim that must be alone, permits,
// and shared claims. In the table above, "nobody owns the key" then reads
// "law 9 has room for it", and a Release, or the end of a lease, ends the
// claim's own share of the key. Such claims need [Capabilities].Shares. All
// other stores can skip laws 9 and 10.
//
// # Records
//
// An owner may leave a record beside its key when it releases the key. A claim
// that recalls finds that record instead of the key, see [Claim].Recall. An
// owner may also leave a mark, which stands for a function that did not end.
// Both need [Capabilities].Records. All other stores can skip laws 11 and 12.
//
// # Keys that stay
//
// A claim may linger: its process keeps the key after the last call there, and
// its next call needs no request. Such claims need [Capabilities].Lingers. All
// other stores can skip the end of law 4.
//
// # What a store keeps
//
//   - For each key that is owned: the owner id, the claim's description of its
//     [Holder], and the time at which the lease ends. A store with shares keeps
//     them for each owner, with its limit.
//   - For each key that is waited for: a queue of claims in the order of their
//     places. Each claim has a time at which it must be seen again. A claim
//     that was not seen for [QueueLife] is never granted. A claim that rests
//     has longer, see [Life]. Its memory may stay while other claims look at
//     the same queue, and for some seconds more.
//   - The last fencing token, of each key or of all keys. It outlives owner and
//     queue. Tokens begin above 0. A block that was reserved counts as given as
//     a whole, whether or not its tokens were used.
//
// What has ended must not stay for good, even if nobody ever comes back. It is
// enough to drop it at the next call of anybody. Keys and claims that a
// failover brings back end by their TTL. The owner id alone tells claims apart,
// never process and key. Two lockers are two instances, even within one
// process. The store may keep the pointer to a Claim until the claim is over.
//
// An entry that does not vanish by itself has no effect once its time is over.
// That is true in every method, and for its own owner too. A store that ends
// leases late remembers by itself when a claim last had an answer. After its
// TTL the claim owns nothing, whatever the store still says. [Limits] tell how
// late a key becomes free for others.
//
// A store without a clock lets each process that looks measure a lease. The
// process counts the TTL from its first sight of the owner's revision. It takes
// the key by a comparison of that revision.
//
// Answers about ownership survive a crash of a store on a disk: those of
// Acquire, Renew and Fence, and a hand-over. A place in a queue may be lost. So
// may a release that handed the key to nobody. A store that forgets leases in a
// crash says so in its documentation.
//
// # How exact a store must be
//
//   - A look that costs a write need not be recorded if the last one was
//     recorded less than 400 ms ago. A claim then leaves the queue that much
//     earlier.
//   - A locker may use a timer to take its own claims out of the queue when
//     they go unseen. For the claims of a process that died, law 5 is enough.
//   - A store without messages finds out by itself, within 100 ms, that a claim
//     waits for a key which this process owns. Within the same time it finds
//     that this process was granted a key.
//   - Calls for many claims come at once. They may travel in one request.
//   - Acquire may begin before messages can be heard. Once they can, the store
//     calls [Waker.WakeAll].
//
// # The laws
//
// The owner ids in the key decide who holds it. That is all of exclusion. The
// queue only decides which id comes next, and which process learns of it. A
// lost message, a wrong entry or a crash may cost time, never exclusion. The
// guard and the store keep laws 1 to 4, 7, 8, 11 and 12 together. The other
// laws are the store's.
//
//  1. Trust begins before the request. A TTL starts when the store gets the
//     Acquire or Renew, or later. An offer starts at the hand-over, and lasts
//     for the [Offer].Length that the message tells. No claim is granted that
//     is not in the queue. No renewal puts back a lease that has ended, because
//     its place may have been given away. The guard counts a TTL from before it
//     sent that request. It counts an offer from before it sent the last
//     answered request that saw the claim queued. It relies on no offer of
//     unknown length, and it renews each offer soon. It relies on more than the
//     offer only after a second renewal, because a failover may lose the first.
//     A claim that rested was often seen too long ago for that. The guard then
//     calls Acquire before it relies on the key.
//  2. An owner id is queued once. The guard makes a new one for each claim. A
//     claim leaves the queue for good before the key becomes its own, or in the
//     same step. An Acquire with Try.Queued must not put back a claim that is
//     not in the queue any more.
//  3. A key that nobody wants goes on. A claim that is given up leaves the
//     queue and the key by a Release with [End].Queued. In the same step the
//     claims behind it get the key if they may own it now. The guard does so
//     for a grant that nobody here knows, too, and for a claim that is
//     [Waker.Orphaned]. It repeats a request without an answer for half a
//     minute. A caller that leaves as the key comes passes it on within the
//     process.
//  4. The message is a hint. A claim whose message got lost learns of its grant
//     by its next Acquire. That comes within [LookEvery], or within the rest
//     that it was granted. It comes in any case when the lease ends that its
//     last Answer told of. A claim that waits for the key of a claim that
//     lingers tells that owner's process again at each Acquire. An Answer says
//     that the owner lingers. A store may say so of an owner that does not
//     linger any more, which costs a message and a short wait.
//  5. A process that died while it waited costs the others at most the offer
//     and a look. The offer is long only if the store knows that the process
//     hears of it. A store that cannot know that makes short offers, see
//     [Claim.LongOffer] and [Claim.ShortOffer]. It grants no rest either,
//     because it would take a dead claim for a live one for as long. An offer
//     is final. The store must not take back or shorten what a message tells
//     of, even if it learns that the message has reached nobody. A process may
//     hear what the store does not count, such as a message that a replica
//     repeats.
//  6. A claim whose process may be there must not be passed over. A store may
//     pass over the processes that are gone, say because nobody would hear
//     the message. It may do that only to two kinds of claims. The first were
//     queued, or granted a rest, when their process was sure to hear. The
//     second were not seen for longer than [LookEvery] or their rest. Other
//     claims find the key by their next Acquire. A claim that was passed over
//     though its process lives begins anew in its old place. A store grants a
//     rest only to a claim whose process is sure to hear, and only while
//     another claim that hands over owns the key. When the process may not hear
//     any more, its locker calls [Waker.WakeAll] at once. It grants no rest
//     until the process hears again.
//  7. Only the end of a lease lets a claim barge. Acquire takes a key that
//     nobody owns, whichever claims are in the queue. A key is in that state
//     only when a lease has ended by its TTL. A Release does not leave the key
//     free while a claim is in the queue, and its Next goes to the back, behind
//     the claims that wait. While others still own the key, room that the end
//     of a lease has left goes to those who wait, from the front. The next
//     Acquire of anybody sees to it. After [Waker.Wanted] the guard makes one
//     pass over its line at most: it begins no more turns than callers stand
//     there at that moment. It then releases the key.
//  8. Unclear is not refused. A store that cannot tell whether a request was
//     carried out answers [ErrUnavailable]. The guard then gives up the claim,
//     or repeats an Acquire of a claim that is not in the queue. The request
//     that it has given up may yet arrive and make the claim the owner again,
//     so it gives up the claim once more about a second later. A store that
//     knows that it sent nothing adds [ErrUnsent]. The guard then goes on with
//     the claim.
//  9. A claim becomes an owner only if fewer claims own the key than its own
//     limit, and fewer than the limit of each owner. A lease that has ended does
//     not count. Each lease ends by itself, whatever the other owners renew.
//     When the last one ends, the key is free. A claim with NoLimit reserves no
//     tokens. Permits do, a block for each grant. Two permits that are held at
//     once have their tokens in the order of the grants, not of the turns.
//  10. A claim that may own the key beside its owners stays behind a claim in
//     front of it that may not, for as long as that one is seen. It need not
//     stay behind a claim that was not seen for twice LookEvery, or for
//     LookEvery after its rest. When a claim gets the key, those right behind it
//     that may own the key too get it in the same step. Each is told how many
//     wait behind all of them.
//  11. A record is kept only by the owner of its key, in the step that ends its
//     hold, and ends by its TTL, which begins then. While there is a record, no
//     claim that recalls is in the queue or becomes the owner. The store looks
//     for the record in the same step. Another claim may own the key beside it.
//     The claims that a record takes out of the queue are told under their own
//     owner ids, so that a late message cannot bring an old record to a new
//     claim. The other claims are served as by a Release. A Release with a
//     record that had no answer may be repeated, and means the same. One that
//     gives up the claim keeps the record first, and frees the key in the same
//     step. A late one of a claim that lost the key changes nothing.
//  12. Only the owner of a key leaves a mark, and only where there is no record
//     and no other mark. A mark counts as a record while its claim does not own
//     the key, whether that claim released the key, lost it or died. Law 11
//     does not keep others from the queue for its sake. Claims that recall may
//     wait while it comes to count, and find it by their next Acquire, which
//     takes them out of the queue. A Release may hand them the key beside it,
//     so the guard calls Begin before it relies on that key. A mark goes by its
//     TTL, by the record or the Unmark of an End of its claim, or by Forget.
//     Forget takes it away only while it counts.
//
// A store that can change two entries in one step hands over, even if it has
// watches. A watch is then only the message. etcd, ZooKeeper, Consul and SQL
// can do that.
//
// A store that cannot do that wakes instead. Its Release frees the key, and its
// watch calls [Waker.Wake] in the process that is next. It must then keep
// laws 3 and 7 itself:
//
//   - It frees the key for the first in the queue, for as long as an offer, say
//     by a value that only the first may replace. Others find such a key held
//     by a zero Holder.
//   - If any claim waits, Release queues Next, and answers Handed false and
//     Queued true.
//   - Nobody gives back a key that a Wake was for. It must end by itself.
//
// Package lockertest checks all this, except what its documentation lists. Run
// it from your tests before you run anything else.
package locker
