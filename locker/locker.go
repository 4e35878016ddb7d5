package locker

import (
	"context"
	"time"
)

// Locker is a store of leases, as the guard uses it.
//
// All methods but Open are safe for concurrent use. The guard never has two
// calls for one [Claim] in flight, with three exceptions. Fence may run beside
// Renew, Begin or Release. Begin may run beside Renew. Renew may run beside a
// Release with [End].Queued. Two such calls have the effect and the answers of
// one after the other, in either order. Neither of them writes to the claim,
// which an earlier call has acquired or queued.
//
// Every call ends when its ctx does, give or take the time that its own I/O
// needs to notice. A call whose ctx has already ended may still do its work and
// report success.
//
// A call that gets no clear answer from the store returns ErrUnavailable, never
// ctx's error alone. An error that this package does not name ends the caller's
// wait, because trying again cannot help. Examples are a missing right and an
// unknown table. Other results are ignored if the error is not nil, except
// Answer.Queued.
//
// The guard's requests have deadlines that follow from the TTL. An Acquire has
// a quarter of it, but at most 500 ms. A Release has half of it, but at most
// 1 s. A Renew has a sixth. Other calls may have no deadline.
//
// A call that waits for its turn within the locker may be dropped unsent when
// too little of its time is left. That is ErrUnavailable too. An Acquire adds
// ErrUnsent if nothing was sent that could make its claim the owner or queue
// it.
//
// Before Open every method but Close and Capabilities does nothing, and returns
// an error if it can.
//
// A Locker has all of these methods, so that another Locker can stand in front
// of it by embedding it. [Capabilities] say which of them the guard calls.
type Locker interface {
	// Capabilities return what the store can do. They send nothing and are the
	// same at all times, even before Open. They are safe for concurrent use.
	Capabilities() Capabilities

	// Open readies the locker for one guard and keeps w to tell it things.
	// guard.New calls it once, before any other method.
	//
	// Open checks settings and sends nothing. A wrong setting is an
	// ErrInvalidOption. So is a second Open, even after Close.
	Open(w Waker) error

	// Acquire makes c the owner of its key for [Claim.First] if nobody owns the
	// key, or if c does already. A store may give the TTL instead. A claim that
	// becomes the owner leaves the queue in the same step or before.
	//
	// Otherwise Acquire returns the owner. If t.Wait, it puts c into the queue.
	// A claim that is there already stays there, with all that is kept for
	// waiting claims. If c is new in the queue, the owner's process is told by
	// [Waker.Wanted]. If the owner changed meanwhile, nobody need be told.
	//
	// A claim with a limit above 1 also becomes an owner beside others, if
	// laws 9 and 10 allow it. The processes of all owners are told when such a
	// claim or another one is new in the queue. If others wait there already,
	// they need not be told again.
	//
	// With c.Fencing an Acquire that succeeds also reserves a block of fencing
	// tokens, a new one each time.
	//
	// Acquire returns ErrUnavailable if c may or may not be the owner now. It
	// adds Answer.Queued if c may or may not be in the queue.
	Acquire(ctx context.Context, c *Claim, t Try) (Answer, error)

	// Renew gives each claim its full TTL again, in as few round trips as the
	// store allows. It never creates a key.
	//
	// Renew calls answered once for each claim, as soon as that claim's answer
	// is there and before Renew returns. It may do so from any goroutine, from
	// several at once, and in any order. The error is nil, ErrLeaseLost if the
	// claim does not own its key, or ErrUnavailable if that is not known. After
	// Close it is ErrClosed.
	//
	// The fate of one claim does not keep another's renewal from being sent, or
	// its answer from being told. answered does not block and calls nothing of
	// the locker.
	Renew(ctx context.Context, cs []*Claim, answered func(i int, err error))

	// Fence reserves a block of FenceBlock fencing tokens for c and returns the
	// first. It is greater than every token that was ever given for the key.
	// Fence returns ErrLeaseLost if c does not own the key, and otherwise
	// ErrUnavailable if it fails.
	Fence(ctx context.Context, c *Claim) (token uint64, err error)

	// Release ends c's hold as e says. In the same step it gives the key to the
	// first in the queue for the time of an [Offer], and to those behind it by
	// law 10. It reserves a block of tokens for each that wants one, and tells
	// its process by [Waker.Granted]. A claim is passed over if its process is
	// known to be gone (law 6), or if its locker was closed.
	//
	// Release returns ErrLeaseLost if c did not own the key. A key that nobody
	// owns then still goes to the first in the queue, and e.Next is not queued.
	// Release returns ErrUnavailable if the outcome is not known. e.Next may
	// then be queued, and a Release with a Record may be called again.
	//
	// With e.Queued, Release leaves nothing of c behind, neither in the queue
	// nor in the key, but what e says. The claims that stood behind c and may
	// own the key now get it. Such a Release may come for any owner id, again
	// and again, and beside others for the same key. c may be without all but
	// its Key and Owner.
	Release(ctx context.Context, c *Claim, e End) (Released, error)

	// Check reports whether the store can serve leases of the given TTL now. It
	// must be reachable well within the TTL. All rights must be there, no
	// policy may drop keys, and the client's settings must keep the time
	// limits.
	//
	// The error joins one [Finding] for each fault, which says what to change.
	// It is an ErrUnavailable if the store does not answer.
	Check(ctx context.Context, ttl time.Duration) error

	// Close ends the locker's own goroutines and connections, never the
	// caller's client. It leaves keys that are owned to their TTL. After Close
	// every other method but Open returns ErrClosed.
	//
	// Close first refuses new calls. Then it does at once what the locker has
	// left to do. It returns nil when all is done, even if it was called
	// before. If ctx ends first, it returns ctx's error.
	//
	// Claims that wait have left their queues by then, or are passed over.
	// Close does not end a session that keys depend on, because that would free
	// them. The Waker may be told things meanwhile.
	Close(ctx context.Context) error

	// Listens reports whether the messages of other processes are sure to
	// arrive here now. If they are not, Listens sees to it that they will. When
	// that changes, either way, the locker calls [Waker.WakeAll].
	//
	// Listens does not block, and calls nothing of the Waker. Before Open and
	// after Close it reports false, and so it does without
	// [Capabilities].Lingers.
	Listens() bool

	// Node names the node that has key, of a store whose nodes fail one by one.
	// While a node gives no answer, the guard goes on with the keys of the
	// others. Node asks nobody and does not block: it is what the locker knows.
	// With the same name for all keys, what one key meets counts for all.
	Node(key string) string

	Several
	Recorder
	Inspector
}

// Waker is what guard.New passes to [Locker.Open]. By it a locker tells the
// guard what other processes do. Its calls are hints: one that is lost, late or
// wrong costs time, never exclusion. Only Offer.Length has to be true.
//
// Its methods return at once, call no method of the locker but Node, and are
// safe for concurrent use. While the guard calls the locker, it holds no lock
// that they take. So a locker may call them from within its own methods, and
// under a mutex of its own.
type Waker interface {
	// Granted tells that a Release has made owner the owner of key, and on what
	// terms. It may come before the Acquire or Release that queued the claim
	// has answered. If nobody here knows owner, the guard gives the key back.
	Granted(key, owner string, o Offer)

	// Orphaned tells that owner may own key, or be in its queue, although its
	// claim is over. The guard releases the key by this owner id.
	Orphaned(key, owner string)

	// Wanted tells that another process has begun to wait for key, which this
	// one owns, alone or beside others. It does no harm if that is this process
	// itself. A process that comes to own a key for which others wait already
	// is not told. The others are served after 100 ms.
	Wanted(key string)

	// Wake tells that key may be free. Calls that wait for it here try now.
	Wake(key string)

	// WakeAll tells that messages may have been missed. All calls that wait
	// here, for any key, try now. If they wait for 300 keys or more, they try
	// within a second for each 4,000 keys.
	WakeAll()

	// Revoked tells that owner may have been made to lose key, by a
	// ForceRelease. The Waker renews to find out.
	Revoked(key, owner string)

	// Recorded tells that the claim of owner has left the queue of key, because
	// there is a record now. value is the record, or "" if the message does not
	// have it. The next Acquire of the claim then finds it.
	Recorded(key, owner, value string)
}
