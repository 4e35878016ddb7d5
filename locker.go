package guard

import (
	"context"
	"time"
)

// Locker is the store that leases live in, as the gate talks to it. Users pick one (redislocker, memlocker) and hand it
// to [New]; only authors of a Locker call or implement these methods, and package lockertest checks what they promise.
//
// All methods but Open are safe for concurrent use. The gate never has two calls for one [Claim] in flight, except that
// Fence may run beside Renew, Release or Abandon, and Renew beside Abandon. Every call ends when its ctx does, give or take the time that its own I/O needs to notice.
type Locker interface {
	// Open readies the locker for one Guard family and keeps w for its wake-ups. It is called once, by New, before any
	// other method; it checks settings and sends nothing. A bad setting, or a second Open, is an ErrInvalidOption.
	Open(w Waker) error

	// Acquire tries once to make c.Owner the owner of c.Key for c.TTL, counted from when the store answers.
	// With c.Fencing it also returns the first fencing token of a block of FenceBlock, fetched in the same round trip.
	//
	// It returns *HeldError if somebody else owns the key (with Key, and Remaining and Holder as far as the store knows
	// them; Holder.Instance is a name of the other locker's own),
	// ErrUnavailable if the store gave no clear answer, so that the key may or may not be ours and the same claim may be
	// tried again, and any other error where trying again cannot help. Trying again with an Owner that already owns the
	// key succeeds: an unclear try is repeated, not doubled.
	Acquire(ctx context.Context, c *Claim) (token uint64, err error)

	// Renew gives each claim its full TTL again, in as few round trips as the store allows, and returns one error for
	// each: nil, ErrLeaseLost if the owner no longer owns the key, or ErrUnavailable if that is not known. It never
	// creates a key. One claim's failure does not keep another's renewal from being sent.
	Renew(ctx context.Context, cs []*Claim) []error

	// Fence reserves a block of FenceBlock fencing tokens for c and returns the first: greater than every token that
	// was ever given for the key. It returns ErrLeaseLost if c.Owner does not own the key, else ErrUnavailable.
	Fence(ctx context.Context, c *Claim) (token uint64, err error)

	// Release frees the key if c.Owner owns it, wakes the next instance that waits for it, if the locker can, and queues
	// this one behind it if c.Waits. It returns ErrLeaseLost if somebody else owns the key or nobody does, and
	// ErrUnavailable if that is not known.
	Release(ctx context.Context, c *Claim) (Freed, error)

	// PassOn gives a wake-up to the next instance, in the background and without waiting: Wake took it for somebody here
	// who has left without a try. If somebody holds the key by now there is nothing to do.
	PassOn(key string)

	// Abandon sees to it, in the background and without waiting, that nothing of c stays behind: it is called for a
	// claim that is given up after a try without a clear answer, or whose release had none. The locker frees the key
	// now and, because a late request can overtake that, once more about a second later. Close waits for it.
	Abandon(c *Claim)

	// Check reports whether the store can serve leases of the given TTL now: reachable well within it, all rights
	// there, no policy that may drop keys, client settings that keep the time limits. The error says what to change.
	Check(ctx context.Context, ttl time.Duration) error

	// Close ends the locker's own goroutines and connections, never the caller's client, and leaves keys that are held to
	// their TTL. After it every other method returns ErrClosed, and Abandon does nothing. Idempotent.
	Close(ctx context.Context) error
}

// FenceBlock is how many consecutive fencing tokens [Locker.Acquire] and [Locker.Fence] reserve: one for each turn that
// a process may take on one grant.
const FenceBlock = 64

// OwnerLen is the length in bytes of every owner id. It is fixed because owners are compared by prefix in the store.
const OwnerLen = 22

// Claim is one contender's wish for a key, under an owner id of its own. The gate makes it, the locker only reads it,
// except for State, Queued and Holder.Instance, which it sets to its own id.
type Claim struct {
	Key     string
	Owner   string        // OwnerLen random base64url characters
	TTL     time.Duration // whole milliseconds, at least 100 ms
	Fencing bool          // Acquire fetches fencing tokens too
	Tries   int           // tries before this one that found the key held: look first, it is cheaper
	Waits   bool          // somebody here will wait for the key if it is held, or waits when it is released: queue for it
	Yield   bool          // another instance was just woken for the key: queue for it even if it is free
	Wanted  bool          // when it is released: other instances are known to wait
	Holder  Holder        // who we are, stored beside the key for others to read; the same in every try

	// Unclear is set by the gate once a try or a release ended without a clear answer: a request may still be under
	// way to the store, so that Release alone does not end the claim.
	Unclear bool

	// Queued is set by Acquire and Release: this instance is in the store's queue for the key now, and will be woken.
	Queued bool

	// State belongs to the locker, which may keep here between Acquire and Release what it needs. The gate never looks.
	State any
}

// Freed says who else wants a key that was released.
type Freed struct {
	Waiting int  // other instances that wait for it; a locker that cannot know says 1, for somebody might
	Woken   bool // the first of them was told
}

// Waker is what [New] gives to [Locker.Open]: how a locker says that trying again may be worth it. Wake-ups are hints:
// one that is lost, late or wrong costs time, never exclusion. Its methods return at once and are safe for concurrent
// use.
type Waker interface {
	// Wake tells the local contender for key to try now, and that so many other instances wait behind this one. It
	// reports whether anybody here waits for key: if not, the locker passes the wake-up on to the next instance.
	Wake(key string, waiting int) bool

	// Wanted tells the local holder of key that another instance has begun to wait for it.
	Wanted(key string)

	// WakeAll tells every local contender to try now: messages may have been missed.
	WakeAll()
}
