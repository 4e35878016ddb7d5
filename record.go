package guard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// The errors of [Once] beside those of [Guard.Do].
var (
	// ErrNotRecorded says that fn ran and had its lease to the end, and that the
	// store did not confirm the result. It comes beside the result. It may yet
	// be kept. If not, a later call runs fn again.
	// After a failure of the codec, later calls get ErrResultGone instead.
	ErrNotRecorded = errors.New("guard: the result was not recorded")

	// ErrOtherPayload says that the key has the result of a call with another
	// fingerprint. fn did not run.
	ErrOtherPayload = errors.New("guard: the key was used for another payload")

	// ErrResultGone says that fn ran in an earlier call, and that its result
	// cannot be had: it was too long, or the codec or this version cannot read
	// it. fn did not run again.
	ErrResultGone = errors.New("guard: the result is gone")
)

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

// Codec turns results into bytes and back, see [WithCodec]. It must be safe for
// concurrent use.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// WithCodec sets how [Once] writes results and final errors. The default is
// JSON. All processes that share a key need the same one. A codec may encrypt.
func WithCodec(codec Codec) Option {
	return optionFunc(func(c *config) error {
		if lockerkit.IsNil(codec) {
			return fmt.Errorf("%w: the codec is nil", ErrInvalidOption)
		}
		c.codec = codec
		return nil
	})
}

// WithResultLimit bounds what [Once] keeps for a key, in bytes. A longer result
// is returned, and later calls get [ErrResultGone]. 64 bytes to
// locker.MaxRecord, which is 1 MiB. Default 64 KiB. Up to 35 of the bytes are
// the guard's.
func WithResultLimit(bytes int) Option {
	return optionFunc(func(c *config) error {
		if bytes < minResultLimit || bytes > locker.MaxRecord {
			return fmt.Errorf("%w: ResultLimit is %d, want %d to %d", ErrInvalidOption, bytes, minResultLimit,
				locker.MaxRecord)
		}
		c.resultLimit = bytes
		return nil
	})
}

const (
	minResultLimit     = 64
	defaultResultLimit = 64 << 10
)

func (c *config) limit() int {
	if c.resultLimit == 0 {
		return defaultResultLimit
	}
	return c.resultLimit
}

func (c *config) coder() Codec {
	if c.codec == nil {
		return jsonCodec{}
	}
	return c.codec
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// made is what a function has left to be kept. The zero made is nothing.
type made struct {
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
func encodeRecord(m made, mark []byte, from origin, limit int) string {
	length := recordHead + len(mark) + len(m.payload)
	if length > limit {
		m, length = made{kind: recordGone}, recordHead+len(mark)
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
func decodeRecord(record string, mark []byte) (made, error) {
	b := []byte(record)
	if len(b) < recordHead || b[0] != recordVersion {
		return made{}, fmt.Errorf("%w: another version has kept it", ErrResultGone)
	}
	kind, b, n := b[1], b[recordHead:], int(b[2]&^hasOrigin)
	start := n
	if record[2]&hasOrigin != 0 {
		start += originSize
	}
	if len(b) < start {
		return made{}, fmt.Errorf("%w: another version has kept it", ErrResultGone)
	}
	switch {
	case !bytes.Equal(b[:n], mark):
		return made{}, ErrOtherPayload
	case kind == recordInterrupted:
		return made{}, fmt.Errorf("%w: what it has done is unknown, see Guard.Forget", ErrInterrupted)
	case kind == recordGone:
		return made{}, fmt.Errorf("%w: it was too long to keep, or could not be written", ErrResultGone)
	case kind != recordResult && kind != recordFinal:
		return made{}, fmt.Errorf("%w: another version has kept it", ErrResultGone)
	}
	return made{kind, b[start:]}, nil
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

// originIn returns the origin in a record, or "".
func originIn(record string) origin {
	if len(record) < recordHead || record[0] != recordVersion || record[2]&hasOrigin == 0 {
		return ""
	}
	start := recordHead + int(record[2]&^hasOrigin)
	if len(record) < start+originSize {
		return ""
	}
	return origin(record[start : start+originSize])
}
