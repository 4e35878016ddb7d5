// Package tracing shows the work of a guard as OpenTelemetry spans and metrics.
// Both tell which call waited for which lock, for how long, behind which
// holder, and how it ended.
//
//	obs, err := tracing.New()
//	...
//	g, err := guard.New(redislocker.New(rdb), guard.WithName("stock"), guard.WithObserver(obs))
//
// Each wait is a span "acquire stock". It is linked to the holder that was in
// its way, in any process. Each hold is a span "hold stock". It is the parent
// of the spans of the function.
//
// The metrics are guard.wait.duration, guard.hold.duration, guard.hold.oldest,
// guard.hold.limit, guard.waits, guard.waiters, guard.leases, guard.keys.idle,
// guard.renewals, guard.leases.lost and guard.results. They carry the name, the mode and the
// outcome, and guard.leases.lost carries the reason too. So their number does
// not grow with the keys.
// README.md beside this file lists every span, attribute and metric, and has a
// dashboard.
//
// # Outcomes
//
// The attribute guard.outcome of a wait is one of:
//
//	acquired        a turn of its own
//	reentered       the call runs inside a lease that its ctx already carried
//	replayed        a call of guard.Once found the result of an earlier one; there is no hold
//	joined          a call of guard.Once waited for the result of another one; there is no hold
//	timeout         MaxWait is over, or the one attempt found the key held
//	queue_full      refused at once: too many waiters, or an expected wait longer than MaxWait
//	canceled        the caller's ctx ended first
//	unavailable     the locker gave no usable answer (an error)
//	unguarded       the locker gave no answer, and the function ran without a lease (an error)
//	closed          the guard is closed
//	lost            the lease that the call was to run inside is lost (an error)
//	outer_released  the lease that the call was to run inside was released; a second wait follows
//	error           anything else (an error)
//
// The attribute guard.outcome of a hold is one of:
//
//	released     held to its end
//	recorded     the same, and the release has recorded a result of guard.Once
//	not_recorded the function ran, and the store did not confirm its result (an error)
//	lost         the lease ended, or could not be trusted, before the function returned (an error)
//	max_hold     the same, because it lasted longer than MaxHold (an error)
//	closed       the same, because the guard was closed (an error)
//	panicked     the function panicked or called runtime.Goexit (an error)
//	unavailable  the release was not confirmed, and the key ended with its TTL (an error)
//
// A renewal has renewed, lost or unavailable.
//
// Contention is no error, so a wait that ends with timeout has no error status.
// Outcomes marked as an error have it, and the attribute error.type. error.type
// is the outcome, unless the error has a method ErrorType() string.
//
// # What does not leave the process
//
// Spans carry [guard.KeyHash] of the key instead of the key, unless
// [WithKeys] is given. Metrics carry neither. The holder stays in errors,
// and owner ids in the store.
package tracing
