package httpguard

import (
	"fmt"
	"time"
)

// What [PanicIf] says of arguments that several functions take.
const (
	NilKeyFunc    = "the key function is nil"
	NilReplayHook = "the replay hook is nil"
	NilScope      = "Idempotent without a scope, so one client would get the answers of another"
)

// PanicIf panics if an argument of an adapter's function is wrong.
func PanicIf(wrong bool, format string, args ...any) {
	if wrong {
		panic("lockmw: " + fmt.Sprintf(format, args...))
	}
}

// must returns v. must panics with err if that is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// CheckMaxWait panics if d is no limit for waits.
func CheckMaxWait(d time.Duration) {
	PanicIf(d < 0 || d > 0 && d < time.Millisecond,
		"the limit of waits is negative, or below 1 ms: is a unit missing?")
}

// CheckTTL panics if answers cannot be kept for ttl.
func CheckTTL(ttl time.Duration) {
	PanicIf(ttl < time.Millisecond, "Idempotent keeps answers for %v, want at least 1ms", ttl)
}
