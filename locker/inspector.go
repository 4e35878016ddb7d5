package locker

import (
	"context"
	"iter"
	"time"
)

// MostWaiters is how many of those who wait a [KeyState] names; the others are
// only counted.
const MostWaiters = 1000

// KeyState is what a store knows of one key at one moment. Its parts may be a
// few milliseconds apart.
type KeyState struct {
	Key  string `json:"key"`  // see [Inspector]
	Held bool   `json:"held"` // somebody owns the key

	// owner id of who does, or what of one can be read of a stranger's value
	Owner string `json:"owner,omitempty"`
	// who that is; zero if unknown, as for a plain redislock user
	Holder Holder `json:"holder,omitzero"`
	// until that ends unless it is renewed; 0 if unknown, or never
	Remaining time.Duration `json:"remaining_ns,omitempty"`

	Waiting int `json:"waiting"` // how many claims are in the queue: one for each process that waits
	// the first MostWaiters of them, in the order in which they will be served
	Waiters []Waiter `json:"waiters,omitempty"`
}

// Waiter is a claim in the queue of a key.
type Waiter struct {
	Owner  string `json:"owner"` // the owner id that it would have
	Holder Holder `json:"waiter,omitzero"`
}

// Inspector is a store that can be looked into, for operators. A [Locker] may
// implement it; its methods are safe for concurrent use, end when ctx does, and
// return ErrClosed after Close and ErrUnavailable without an answer. They
// change nothing, queue nobody and wake nobody, ForceRelease apart.
//
// Keys are named as in [Claim.Key]. A store that keeps less than those names
// says what it has.
type Inspector interface {
	// Inspect tells who owns key and who waits for it. Of a key that nobody has
	// asked for it says so, and no error.
	Inspect(ctx context.Context, key string) (KeyState, error)

	// List tells the same of every key that is owned or waited for, in no
	// order, in bounded memory and without keeping others from the store for
	// long. Keys that come or go meanwhile may be there or not, and one may
	// come twice. An error with a Key is about that key, and the list goes on;
	// one without ends it.
	List(ctx context.Context) iter.Seq2[KeyState, error]

	// ForceRelease ends the hold of owner on key, as a Release by owner would,
	// and hands the key to the first in the queue. The owner learns of it by
	// its next Renew, or at once if the store tells its process by
	// [Revoker.Revoked]. It returns ErrLeaseLost, and changes nothing for
	// whoever owns the key, if that is not owner; and ErrInvalidOption for an
	// owner that is no owner id: OwnerLen base64url characters.
	ForceRelease(ctx context.Context, key, owner string) error
}

// Revoker is a [Waker] that can be told of a ForceRelease.
type Revoker interface {
	// Revoked tells that owner may have been made to lose key. Like all that a
	// Waker is told it is a hint: it renews to find out.
	Revoked(key, owner string)
}
