package locker

import (
	"context"
	"time"
)

// Locker is a store of leases, as the guard talks to it.
//
// All methods but Open are safe for concurrent use. The guard never has two
// calls for one [Claim] in flight, except that Fence may run beside Renew,
// Release or Abandon, and Renew beside Abandon. Every call ends when its ctx
// does, give or take the time that its own I/O needs to notice; one whose ctx
// is over already may still do its work and say so. Calls that get no clear
// answer from the store return ErrUnavailable, never ctx's error alone; an
// error that is none of those named here ends the caller's wait, because trying
// again cannot help: a missing right, an unknown table. What comes beside an
// error is not looked at, but for Answer.Queued.
//
// The guard's requests have deadlines: an Acquire has a quarter of the TTL, 500
// ms at most, a Release half of it, 1 s at most, and a Renew a sixth. Others
// may have none. A call that waits for its turn within the locker may be
// dropped unsent when its ctx ends: that is ErrUnavailable too. Before Open
// every method but Close does nothing, and returns an error if it can.
type Locker interface {
	// Open readies the locker for one guard and keeps w to tell it things.
	// guard.New calls it once, before any other method. It checks settings and
	// sends nothing; what is wrong, or a second Open, also after Close, is an
	// ErrInvalidOption.
	Open(w Waker) error

	// Acquire makes c the owner of its key for its TTL if nobody owns the key,
	// or if c does already. Otherwise it tells who does and, if t.Wait, puts c
	// into the queue, or leaves it there with all that is kept for those who
	// wait. A claim that becomes the owner leaves the queue in the same step or
	// before. Of one that is new in the queue the owner's process is told by
	// [Waker.Wanted]. If the owner changed meanwhile, nobody need be told.
	//
	// With c.Fencing an Acquire that succeeds also reserves a block of fencing
	// tokens, a new one each time. It returns ErrUnavailable if c may or may
	// not be the owner now; with Answer.Queued if it may or may not be in the
	// queue.
	Acquire(ctx context.Context, c *Claim, t Try) (Answer, error)

	// Renew gives each claim its full TTL again, in as few round trips as the
	// store allows, and calls answered once for each, from any goroutine and in
	// any order, as soon as its answer is there and before Renew returns: with
	// nil, with ErrLeaseLost if the claim does not own its key, or with
	// ErrUnavailable if that is not known. It never creates a key. What becomes
	// of one claim does not keep another's renewal from being sent, or its
	// answer from being told. answered does not block and calls nothing of the
	// locker. After Close it is told ErrClosed.
	Renew(ctx context.Context, cs []*Claim, answered func(i int, err error))

	// Fence reserves a block of FenceBlock fencing tokens for c and returns the
	// first: greater than every token that was ever given for the key. It
	// returns ErrLeaseLost if c does not own the key, else ErrUnavailable.
	Fence(ctx context.Context, c *Claim) (token uint64, err error)

	// Release ends c's hold and, in one step with it, gives the key to the
	// first in the queue for the time of an [Offer], reserves its block of
	// tokens if it wants one, and tells its process by [Waker.Granted]. A claim
	// is passed over if its process is known to be gone (law 7), as that of a
	// closed locker is. If the key went to another, next is queued behind all
	// who wait; next is nil if nobody here wants the key again.
	//
	// It returns ErrLeaseLost if c did not own the key; one that nobody owns
	// then goes to the first in the queue all the same, and next is not queued.
	// It returns ErrUnavailable if that is not known, and next may be queued.
	Release(ctx context.Context, c, next *Claim) (Released, error)

	// Abandon sees to it that nothing of c stays behind: not in the queue, and
	// not in the key, which goes to the first in the queue, as it does if
	// nobody owns it. If that needs I/O it goes on in the background: Abandon
	// does not block. What has no answer is tried again: until the claim must
	// have ended by itself, or for half a minute. A grant that nobody knows is
	// given back in the same way, without late.
	//
	// With late, all of it is done a second time about a second later, also by
	// a store that is never late itself: a request of c that the guard has
	// given up may yet come, and make c the owner again.
	Abandon(c *Claim, late bool)

	// Check reports whether the store can serve leases of the given TTL now:
	// reachable well within it, all rights there, no policy that may drop keys,
	// client settings that keep the time limits. The error joins what is not
	// so, each a [Finding] that says what to change; it is an ErrUnavailable if
	// the store does not answer.
	Check(ctx context.Context, ttl time.Duration) error

	// Close ends the locker's own goroutines and connections, never the
	// caller's client, and leaves keys that are owned to their TTL. It refuses
	// new calls first, does at once what Abandon has left to do, second times
	// included, and returns nil when all is done, also if it was called before;
	// or ctx's error if that ends first. Claims that wait have left their
	// queues then, or are passed over. A session that keys depend on is not
	// ended: that would free them. The Waker may be told things meanwhile.
	// After Close every other method but Open returns ErrClosed, and Abandon
	// does nothing.
	Close(ctx context.Context) error
}

// Waker is what guard.New gives to [Locker.Open]: how a locker tells it what
// other processes do. What it is told are hints: one that is lost, late or
// wrong costs time, never exclusion. Only Offer.Length has to be true. Its
// methods return at once, call no method of the locker, and are safe for
// concurrent use. The guard holds no lock that they take while it calls the
// locker, so a locker may call them from within its own methods, and under a
// mutex of its own.
type Waker interface {
	// Granted tells that a Release has made owner the owner of key, and on what
	// terms. It reports whether owner is known here, as one that waits or one
	// that has the key already; if not, the locker releases the key by this
	// owner id. It may come before the Acquire or Release that queued the claim
	// has answered.
	Granted(key, owner string, o Offer) (known bool)

	// Wanted tells that another process has begun to wait for key, which this
	// one owns. If it is this process itself, no harm is done. One that comes
	// to own a key for which others wait already is not told; they are served
	// after 100 ms.
	Wanted(key string)

	// Wake tells that key may be free: whoever waits for it here tries now.
	Wake(key string)

	// WakeAll tells that messages may have been missed: whoever waits here, for
	// whatever key, tries now.
	WakeAll()
}
