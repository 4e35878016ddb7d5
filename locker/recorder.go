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
// A Release keeps [End].Record by law 11, and tells the processes of the claims
// that leave the queue by [Waker.Recorded]. Its claim recalls, and its Next does
// not. Release returns nil if the record is there by an earlier Release of the
// same claim. Each key has one record, and a mark takes its place (law 12).
type Recorder interface {
	// Begin marks the key of c, which owns it and recalls, by law 12. The mark
	// is r, of at most MaxMark bytes.
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
