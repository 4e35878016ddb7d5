package locker

import (
	"context"
	"time"
)

// MaxRecord is the length in bytes of the longest Record.Value.
const MaxRecord = 1 << 20

// Record is what a claim leaves beside its key for later claims.
type Record struct {
	Value string        // 1 to MaxRecord bytes
	TTL   time.Duration // whole milliseconds, from when the store keeps it
}

// Recorder is a [Locker] that keeps records. It heeds [Claim.Recall], and laws
// 16 to 19. A locker that does not implement it gets no claim that recalls.
type Recorder interface {
	// Keep is [Locker.Release] of c, which recalls. In the same step it keeps r
	// beside the key, if c owns the key. It takes all claims that recall out of
	// the queue, and tells their processes by [Joiner.Kept]. next does not
	// recall.
	//
	// Keep returns ErrLeaseLost if c does not own the key. Then no record
	// changes. It returns nil if the record is there by an earlier Keep of c.
	// After ErrUnavailable it may be called again with the same record and
	// without next. If it is not, Abandon keeps r before it frees the key.
	Keep(ctx context.Context, c, next *Claim, r Record) (Released, error)

	// Forget deletes the record of key and reports whether there was one. Its
	// error is ErrUnavailable if that is not known, or ErrClosed.
	Forget(ctx context.Context, key string) (bool, error)
}

// Joiner is a [Waker] that can be told of a record.
type Joiner interface {
	// Kept tells that the claim of owner has left the queue of key, because
	// there is a record now. value is the record, or "" if the message does not
	// have it. The next Acquire of the claim then finds it. Kept is a hint like
	// all messages.
	Kept(key, owner, value string)
}
