package locker

import "context"

// MaxSeveral is the max number of claims of one [Several.AcquireAll].
const MaxSeveral = 64

// Several has the methods of a [Locker] that takes and gives back several keys
// in one round trip, see [Capabilities].Several. Of any other Locker the guard
// takes the keys one after the other.
//
// Its methods are safe for concurrent use, block until their answers or until
// ctx ends, and count as Acquire or Release for each of their claims.
type Several interface {
	// AcquireAll makes each claim the owner of its key, or none of them if
	// somebody else owns one of the keys. With prefix, the claims in front of
	// the first such key become owners all the same, and those behind it do
	// not.
	//
	// cs are 1 to MaxSeveral claims for different keys, with the same TTL and
	// Fencing. None of them has a limit above 1 or was ever in a queue, and
	// AcquireAll queues none. Claims that wait for a free key are no hindrance,
	// as in Acquire.
	//
	// held is the place in cs of the first key that somebody else owns, or
	// len(cs). as has an Answer for each claim. That of a claim that is an
	// owner now says so. That of cs[held] tells the owner, as Acquire does.
	//
	// A claim that is not to be an owner may own its key for the moment, if the
	// store needs several requests. The store gives such a key back by itself.
	//
	// AcquireAll returns ErrUnavailable if any of the claims may or may not own
	// its key now. The guard then gives up all of them, or repeats an Acquire.
	// It adds ErrUnsent if nothing was sent.
	AcquireAll(ctx context.Context, cs []*Claim, prefix bool) (as []Answer, held int, err error)

	// ReleaseAll is Release for each claim, as ends[i] says, which has no
	// Record. It calls answered once for each claim before it returns. The end
	// of one hold does not depend on another. answered does not block and calls
	// nothing of the locker.
	ReleaseAll(ctx context.Context, cs []*Claim, ends []End, answered func(i int, r Released, err error))
}
