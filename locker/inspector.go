package locker

import (
	"context"
	"iter"
	"strconv"
	"time"
)

// MaxListed is the number of waiting claims that a [KeyState] names. Further
// claims are only counted.
const MaxListed = 1000

// KeyState is the state of one key in the store at one moment. Its parts may be
// a few milliseconds apart.
type KeyState struct {
	Key  string `json:"key"`  // see [Inspector]
	Held bool   `json:"held"` // somebody owns the key

	// Owner is the owner id, or as much of one as can be read of a stranger's
	// value.
	Owner string `json:"owner,omitempty"`
	// Holder describes the owner. It is zero if unknown, as for a plain
	// redislock user.
	Holder Holder `json:"holder,omitzero"`
	// Lingers says that the owner's claim lingers, see [Claim]. The key may
	// then be idle: its process keeps it, and no function runs there.
	Lingers bool `json:"lingers,omitempty"`
	// Remaining is the time until the lease ends unless it is renewed. It is 0
	// if that is unknown, or if the lease never ends.
	Remaining time.Duration `json:"remaining_ns,omitempty"`

	// Limit is the lowest limit of the owners, see [Claim]. It is 0 if nobody
	// owns the key or one claim owns it alone. Otherwise Owner and Holder are
	// zero, Remaining is the time until the last lease ends, and Owners are the
	// first MaxListed of those that own the key.
	Limit  int      `json:"limit,omitempty"`
	Owners []Waiter `json:"owners,omitempty"`

	Waiting int `json:"waiting"` // claims in the queue, one for each process that waits
	// Waiters are the first MaxListed claims of the queue, in the order in
	// which they will be served.
	Waiters []Waiter `json:"waiters,omitempty"`

	// Record describes the record of the key. It is zero without one, and of a
	// store that keeps none.
	Record RecordState `json:"record,omitzero"`
}

// Shared says in words how several leases share the key, for the tools of
// operators: "shared by 3" or "2 of 4 permits". It returns "" for a key that
// nobody owns, or one claim alone.
func (s KeyState) Shared() string {
	if s.Limit == 0 {
		return ""
	}
	n := strconv.Itoa(len(s.Owners))
	if len(s.Owners) >= MaxListed {
		n = "at least " + n
	}
	if s.Limit == NoLimit {
		return "shared by " + n
	}
	return n + " of " + strconv.Itoa(s.Limit) + " permits"
}

// RecordState describes a record that a claim would find, see [Recorder].
type RecordState struct {
	Size      int           `json:"size"`         // bytes of its value
	Remaining time.Duration `json:"remaining_ns"` // until it ends
	// Head is the first RecordHead bytes of its value, by which the guard knows
	// what it is, or "" if the store does not read them.
	Head string `json:"-"`
	// Interrupted says that it is no result: a function began, and left none.
	// The guard sets it.
	Interrupted bool `json:"interrupted,omitempty"`
}

// RecordHead is how long [RecordState.Head] is.
const RecordHead = 3

// Waiter is a claim in the queue of a key, or one of its several owners.
type Waiter struct {
	Owner  string `json:"owner"` // the owner id that it has or would have
	Holder Holder `json:"holder,omitzero"`
}

// Inspector has the methods of a [Locker] whose keys operators can look at, see
// [Capabilities].Inspects.
//
// Its methods are safe for concurrent use and end when ctx does. They return
// ErrClosed after Close, and ErrUnavailable if the store gives no answer. They
// change nothing, queue no claim and wake nobody. Only ForceRelease does.
//
// Keys are named as in [Claim.Key]. A store that keeps less than those names
// returns the names that it has.
type Inspector interface {
	// Inspect returns the owner of key and the claims that wait for it. If
	// nobody has asked for the key, it returns that state and no error.
	Inspect(ctx context.Context, key string) (KeyState, error)

	// List returns the same for every key that is owned or waited for, in no
	// order. It takes bounded memory, and does not keep others from the store
	// for long.
	//
	// Keys that come or go meanwhile may be there or not, and one may come
	// twice.
	//
	// An error with a Key is about that key, and the list goes on. An error
	// without a Key ends the list.
	List(ctx context.Context) iter.Seq2[KeyState, error]

	// ForceRelease ends the hold of owner on key, as a Release by owner would,
	// and hands the key to the first in the queue. The owner learns of it by
	// its next Renew. It learns of it at once if the store tells its process by
	// [Waker.Revoked].
	//
	// If owner does not own the key, ForceRelease returns ErrLeaseLost and
	// changes nothing for the real owner. It returns ErrInvalidOption if owner
	// is no owner id, which is OwnerLen base64url characters.
	ForceRelease(ctx context.Context, key, owner string) error
}
