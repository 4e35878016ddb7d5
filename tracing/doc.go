// Package tracing shows what a guard does as OpenTelemetry spans and metrics:
// who waited for which lock, for how long, behind whom, and how it ended.
//
//	obs, err := tracing.New()
//	...
//	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"), guard.WithObserver(obs))
//
// Each wait is a span "acquire stock", linked to the holder that was in its
// way, in whatever process that was. Each hold is a span "hold stock", and the
// parent of what the function does. The metrics guard.wait.duration,
// guard.hold.duration, guard.hold.oldest, guard.waits, guard.waiters,
// guard.leases, guard.renewals and guard.leases.lost carry the name and the
// outcome, the last one the reason too, so that their number does not grow with
// the keys. README.md beside this file has every span, attribute and metric,
// and a dashboard.
//
// # Outcomes
//
// The attribute guard.outcome of a wait is one of
//
//	acquired        a turn of its own
//	reentered       the call runs inside a lease that its ctx already carried
//	timeout         MaxWait is over, or the one attempt found the key held
//	queue_full      refused at once: too many waiters, or an expected wait longer than MaxWait
//	canceled        the caller's ctx ended first
//	unavailable     the locker gave no usable answer (an error)
//	closed          the guard is closed
//	lost            the lease that the call was to run inside is lost (an error)
//	outer_released  the lease that the call was to run inside was released; a second wait follows
//	error           anything else (an error)
//
// That of a hold is one of
//
//	released     held to its end
//	lost         the lease ended, or could not be trusted, before the function returned (an error)
//	max_hold     the same, because it lasted longer than MaxHold (an error)
//	closed       the same, because the guard was closed (an error)
//	panicked     the function panicked or called runtime.Goexit (an error)
//	unavailable  the release was not confirmed, and the key ended with its TTL (an error)
//
// and that of a renewal renewed, lost or unavailable. Contention is no error: a
// wait that ends with timeout has no error status. Those marked have, and the
// attribute error.type, which is the outcome too unless the error has a method
// ErrorType() string.
//
// # What does not leave the process
//
// Spans carry [guard.KeyHash] of the key instead of the key, unless
// [WithRawKeys] is given; metrics carry neither. The holder stays in errors,
// and owner ids in the store.
package tracing
