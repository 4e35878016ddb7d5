package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// Times in the history are ns on the monotonic clock of the machine. All
// processes share this clock, and it cannot be set.

// origin is one moment on both clocks.
var origin = func() (o struct {
	time  time.Time
	stamp int64
},
) {
	for {
		o.time = time.Now()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic(err) // POSIX requires this clock
		}
		o.stamp = ts.Nano()
		if time.Since(o.time) < 50*time.Microsecond { // otherwise there was an interruption
			return o
		}
	}
}()

func now() int64 { return stamp(time.Now()) }

// stamp returns t as a time of the history, or 0 for the zero time. t must have
// a monotonic reading.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return origin.stamp + int64(t.Sub(origin.time))
}

// span is a time from one stamp to another.
type span struct{ From, To int64 }

func (s span) touches(from, to int64) bool { return s.From < to && s.To > from }

func (s span) length() time.Duration { return time.Duration(s.To - s.From) }

// within returns the total length of the parts of spans between two stamps.
// spans must not overlap.
func within(spans []span, from, to int64) (d time.Duration) {
	for _, s := range spans {
		d += time.Duration(max(0, min(s.To, to)-max(s.From, from)))
	}
	return d
}
