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
// [Capabilities].Records.
//
// A Release of a claim that recalls keeps [End].Record beside the key in the
// same step, if the claim owns the key. It takes all claims that recall out of
// the queue, and tells their processes by [Waker.Recorded]. Its Next does not
// recall. If the claim does not own its key, no record changes. Release returns
// nil if the record is there by an earlier Release of the same claim.
//
// A claim can also mark that a function runs under it (law 12). Each key has
// one record, and a mark takes its place.
type Recorder interface {
	// Begin marks the key of c, which owns it and recalls. The mark is r, of at
	// most MaxMark bytes. It counts as the record of the key once c does not
	// own the key any more. Until then no claim finds it. The record of a
	// Release of c takes its place.
	//
	// If the key has the record or the mark of another claim, Begin changes
	// nothing and returns that record. c owns the key as before.
	//
	// Begin returns ErrLeaseLost if c does not own the key, and ErrUnavailable
	// if the outcome is not known. It may be called again, and means the same.
	Begin(ctx context.Context, c *Claim, r Record) (record string, err error)

	// Forget deletes the record of key and reports whether there was one. Its
	// error is ErrUnavailable if that is not known, or ErrClosed. A request
	// that arrives late deletes no record that was kept after Forget returned.
	Forget(ctx context.Context, key string) (bool, error)
}
