package judge

import (
	"sync/atomic"
	"time"
)

// Times in a history are ns on one clock that cannot be set. The workers of a
// history that are processes must share it, see [SetOrigin].
var origin = struct {
	time  time.Time
	stamp int64
}{time.Now(), int64(time.Hour)}

// SetOrigin says that t has the stamp on a clock that several processes share.
// It must be called before any other use of stamps.
func SetOrigin(t time.Time, stamp int64) { origin.time, origin.stamp = t, stamp }

// last is the last time that Now returned.
var last atomic.Int64

// Now returns the time of a history. No two calls in a process return the same,
// so that what happens at one instant of virtual time has an order.
func Now() int64 {
	for {
		before, at := last.Load(), Stamp(time.Now())
		if d := before - at; d >= 0 && d < int64(time.Millisecond) { // otherwise it is another bubble's
			at = before + 1
		}
		if last.CompareAndSwap(before, at) {
			return at
		}
	}
}

// Stamp returns t as a time of a history, or 0 for the zero time. t must have a
// monotonic reading.
func Stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return origin.stamp + int64(t.Sub(origin.time))
}

// Span is a time from one stamp to another.
type Span struct{ From, To int64 }

func (s Span) touches(from, to int64) bool { return s.From < to && s.To > from }

func (s Span) length() time.Duration { return time.Duration(s.To - s.From) }

// within returns the total length of the parts of spans between two stamps.
// spans must not overlap.
func within(spans []Span, from, to int64) (d time.Duration) {
	for _, s := range spans {
		d += time.Duration(max(0, min(s.To, to)-max(s.From, from)))
	}
	return d
}
