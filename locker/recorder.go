package locker

import (
	"context"
	"time"
)

// MaxRecord is the length in bytes of the longest Record.Value.
const MaxRecord = 1 << 20

// MaxRecordTTL is the longest Record.TTL, but for a mark, which may have its
// caller's longest hold on top.
const MaxRecordTTL = 100 * 365 * 24 * time.Hour

// MaxMark is the length in bytes of the longest Record.Value of a mark, see
// [Recorder].
const MaxMark = 64

// Record is what a claim leaves beside its key for later claims.
type Record struct {
	Value string        // 1 to MaxRecord bytes
	TTL   time.Duration // whole milliseconds to MaxRecordTTL, from when the store keeps it
}

// Recorder has the methods of a [Locker] that keeps records, see
// [Capabilities].Records. Such a Locker can also mark that a function runs
// under a claim (law 20). Each key has one record, and a mark takes its place.
type Recorder interface {
	// Keep is [Locker.Release] of c, which recalls. In the same step it keeps r
	// beside the key, if c owns the key. It takes all claims that recall out of
	// the queue, and tells their processes by [Waker.Recorded]. next does not
	// recall.
	//
	// Keep returns ErrLeaseLost if c does not own the key. Then no record
	// changes. It returns nil if the record is there by an earlier Keep of c.
	// After ErrUnavailable it may be called again with the same record and
	// without next. If it is not, Abandon keeps r before it frees the key.
	Keep(ctx context.Context, c, next *Claim, r Record) (Released, error)

	// Forget deletes the record of key and reports whether there was one. Its
	// error is ErrUnavailable if that is not known, or ErrClosed. A request
	// that arrives late deletes no record that was kept after Forget returned.
	Forget(ctx context.Context, key string) (bool, error)

	// Begin marks the key of c, which owns it and recalls. The mark is r, of at
	// most MaxMark bytes. It counts as the record of the key once c does not
	// own the key any more. Until then no claim finds it. A Keep of c puts its
	// record in place of the mark.
	//
	// If the key has the record or the mark of another claim, Begin changes
	// nothing and returns that record. c owns the key as before.
	//
	// Begin returns ErrLeaseLost if c does not own the key, and ErrUnavailable
	// if the outcome is not known. It may be called again, and means the same.
	Begin(ctx context.Context, c *Claim, r Record) (record string, err error)

	// Unmark notes that no function has done anything under c. The Release or
	// Abandon of c that follows removes the mark of c in the same step. Unmark
	// sends nothing.
	Unmark(c *Claim)
}
