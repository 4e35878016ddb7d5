package guard

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// keeping is what one call of Once keeps, and for how long.
type keeping struct {
	recall turns.Recall
	ttl    atomic.Int64 // in milliseconds; below 0 if KeepFor was given a wrong one
	over   atomic.Bool  // its function has returned
}

// set is KeepFor.
func (k *keeping) set(d time.Duration) error {
	if d < 0 || d > locker.MaxRecordTTL {
		k.ttl.Store(-1)
		return errKeepFor
	}
	k.ttl.Store(d.Milliseconds())
	return nil
}

var errKeepFor = invalid("KeepFor of a negative time, or of more than %v", locker.MaxRecordTTL)

// record returns m as the store keeps it for ttl. ctx is that of the hold.
func (c *config) record(ctx context.Context, m output, mark []byte, ttl time.Duration) locker.Record {
	value := encodeRecord(m, mark, originOf(c.observers.traceparent(ctx)), c.resultLimit)
	return locker.Record{Value: value, TTL: ttl.Truncate(time.Millisecond)}
}

// FinalError is an error that [Once] keeps like a result, see [Final].
type FinalError struct {
	Code string // for programs
	Text string // for people
	Err  error  // what it was made of; nil if the error is that of an earlier call
}

// Final makes an error of fn a result. [Once] keeps it, and later calls get a
// [FinalError] with the same code and text. err must not be nil.
func Final(code string, err error) error {
	if err == nil {
		panic("guard: Final of a nil error")
	}
	return &FinalError{Code: code, Text: err.Error(), Err: err}
}

func (e *FinalError) Error() string { return e.Text }

// Unwrap returns Err.
func (e *FinalError) Unwrap() error { return e.Err }

// Is reports whether target is a FinalError of the same Code without a Text.
func (e *FinalError) Is(target error) bool {
	t, ok := target.(*FinalError)
	return ok && t.Code == e.Code && t.Text == ""
}

// output is what a function has left to be kept. The zero output is nothing.
type output struct {
	kind    byte
	payload []byte
}

// A record is the version, the kind, the length of the fingerprint with a bit
// for an origin, then the fingerprint, the origin and the payload.
const (
	recordVersion  = 1
	recordHead     = 3
	maxFingerprint = 32

	recordResult = 'r'
	recordFinal  = 'f' // the payload is a finalRecord
	recordGone   = 'g' // the result cannot be kept; there is no payload

	recordInterrupted = 'i' // a function began, and left no result; there is no payload
)

type finalRecord struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// encodeRecord returns m as a record. If that is longer than limit, it leaves
// out the origin, or else the payload.
func encodeRecord(m output, mark []byte, from origin, limit int) string {
	length := recordHead + len(mark) + len(m.payload)
	if length > limit {
		m, length = output{kind: recordGone}, recordHead+len(mark)
	}
	flags := byte(0)
	if from != "" && length+originSize <= limit {
		flags, length = hasOrigin, length+originSize
	}
	var b strings.Builder
	b.Grow(length)
	b.Write([]byte{recordVersion, m.kind, byte(len(mark)) | flags})
	b.Write(mark)
	if flags != 0 {
		b.WriteString(string(from))
	}
	b.Write(m.payload)
	return b.String()
}

// isInterrupted reports whether a record that begins with head is the mark of a
// call under WithAtMostOnce that left no result.
func isInterrupted(head string) bool {
	return len(head) == recordHead && head[0] == recordVersion && head[1] == recordInterrupted
}

// decodeRecord returns what a record has kept for calls with this fingerprint.
// Its errors are ErrOtherPayload and ErrResultGone.
func decodeRecord(record string, mark []byte) (output, error) {
	kind, its, _, payload := splitRecord(record)
	switch {
	case kind == 0:
	case its != string(mark):
		return output{}, ErrOtherPayload
	case kind == recordInterrupted:
		return output{}, fmt.Errorf("%w: what it has done is unknown, see Guard.Forget", ErrInterrupted)
	case kind == recordGone:
		return output{}, fmt.Errorf("%w: it was too long to keep, or could not be written", ErrResultGone)
	case kind == recordResult, kind == recordFinal:
		return output{kind, []byte(payload)}, nil
	}
	return output{}, fmt.Errorf("%w: another version has kept it", ErrResultGone)
}

// splitRecord returns the parts of a record. kind is 0 if another version has
// kept it.
func splitRecord(record string) (kind byte, mark string, from origin, payload string) {
	if len(record) < recordHead || record[0] != recordVersion {
		return 0, "", "", ""
	}
	rest, n, size := record[recordHead:], int(record[2]&^hasOrigin), 0
	if record[2]&hasOrigin != 0 {
		size = originSize
	}
	if len(rest) < n+size {
		return 0, "", "", ""
	}
	return record[1], rest[:n], origin(rest[n : n+size]), rest[n+size:]
}

// An origin is the span of the call that made a result, for the links of later
// calls. A record has it if an observer of that call had a traceparent. It
// makes the record originSize longer.
type origin string

const (
	originSize = 25 // trace id, span id, flags
	hasOrigin  = 0x80
)

// originOf returns the origin of a traceparent. It is "" for one of another
// version.
func originOf(traceparent string) origin {
	const prefix, traceEnd, spanEnd, end = 3, 35, 52, 55
	t := traceparent
	if len(t) != end || t[:prefix] != "00-" || t[traceEnd] != '-' || t[spanEnd] != '-' {
		return ""
	}
	b, err := hex.DecodeString(t[prefix:traceEnd] + t[traceEnd+1:spanEnd] + t[spanEnd+1:])
	if err != nil {
		return ""
	}
	return origin(b)
}

// traceparent is the reverse of originOf.
func (o origin) traceparent() string {
	if len(o) != originSize {
		return ""
	}
	h := hex.EncodeToString([]byte(o))
	return "00-" + h[:32] + "-" + h[32:48] + "-" + h[48:]
}
