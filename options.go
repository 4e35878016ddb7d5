package guard

import (
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

const (
	minTTL = 100 * time.Millisecond // below it, round trips and drift leave nothing to trust
	maxTTL = 24 * 24 * time.Hour    // above it, milliseconds overflow the 31 bits of some stores
)

// WithTTL sets how long a key outlives a holder that crashed. A live holder
// renews it every third of the TTL. The range is 100 ms to 24 days, in whole
// milliseconds, unless the store keeps less, see locker.Limits. Default 10 s:
// after kill -9 a hot key answers "held" for up to that long.
func WithTTL(d time.Duration) Option {
	return checked(d >= minTTL && d <= maxTTL && d%time.Millisecond == 0, func(c *config) { c.set.TTL = d },
		"TTL is %v, want %v to %v in whole milliseconds", d, minTTL, maxTTL)
}

// WithMaxWait bounds how long a verb waits for its key. It is at least 1 ms. 0
// makes one attempt. Default 3 s.
func WithMaxWait(d time.Duration) Option {
	return duration("MaxWait", d, func(c *config) { c.set.MaxWait = d })
}

// WithMaxWaiters bounds how many calls of this process stand in line for one
// key. The call that asks the store for the key stands in front of the line and
// is not counted. A call that finds the line full is refused with
// [ErrQueueFull]. 0 means no limit. Default 1,000.
func WithMaxWaiters(n int) Option {
	return checked(n >= 0, func(c *config) { c.set.MaxWaiters = n }, "MaxWaiters is %d, want 0 or more", n)
}

// WithMaxHold bounds one turn. Past it the function's context ends with
// [ErrMaxHold] and the lease is renewed no more. It is meant for a handler that
// hangs, not for a slow one. It is at least 1 ms. 0 means no limit. Default
// 60 s. At half of it a warning is logged.
//
// Give a batch that runs for minutes the longest time that it may take.
//
// A route that streams is one turn as long as it is open. At MaxHold the
// context of an SSE or WebSocket handler ends. Data already sent stays sent,
// and it is too late to answer with an error. The client sees the stream end
// when the handler returns. It is better to lock around each message, by
// [Guard.Do]. Otherwise set the limit to the longest connection that may keep
// other calls from the key.
func WithMaxHold(d time.Duration) Option {
	return duration("MaxHold", d, func(c *config) { c.set.MaxHold = d })
}

// WithLinger keeps a key with its process for up to d after a call, so that the
// next call there begins and ends without a request. Another process that wants
// the key, even by TryDo, gets it as soon as no function runs under it. The
// price: if somebody deletes the key (DEL, FLUSHALL) while a short function
// runs, the function is not told. Calls here may then use the key for up to
// half of the hand-over time, beside another holder. The hand-over time is a
// third of the TTL, but 1 s at least and 5 s at most, and never more than the
// TTL. If the process pauses inside a short function for longer than half of
// the hand-over time, by default 1.6 s, another holder may begin.
//
// It is for partitioned work, where one process calls for the same key again
// and again. A key lingers once its process has found it free several times in
// a row. Lingering is suspended, for longer each time, when others want the
// key or functions under it take longer than 50 ms. More of the price:
//
//   - The key stays in the store after the call, for EXISTS and for programs that
//     do not use this package. A busy process may keep such a program from it.
//   - After a crash the others wait for the hand-over time, not for the TTL. By
//     default that is 3.3 s, and MaxWait is 3 s: a call may be refused once. A
//     process that cannot reach the store loses its lease earlier by as much.
//   - TryDo of another process waits while a function runs under a key that
//     lingers: for up to 50 ms, or three times as long as its try took. Then it
//     is refused.
//   - DoAll uses keys that linger. Keys that it takes in one step do not start
//     to linger.
//
// d is at least 1 ms and at most half of the hand-over time. Default 0: no key
// lingers. In one list with [WithShared], [WithPermits], [WithMinHold] or
// [WithoutRenewal] it is ErrInvalidOption. A guard that [Guard.With] gives one
// of these ignores it, and so do [Once] and [Guard.Lead].
//
// A store whose processes do not hear at once that others want their keys is
// refused with an ErrInvalidOption that Is [errors.ErrUnsupported]. New returns
// it, and [Guard.With] panics with it.
func WithLinger(d time.Duration) Option {
	return duration("Linger", d, func(c *config) { c.linger, c.given.linger = d, d > 0 })
}

// KeepOn says after which results of the function [WithMinHold] keeps the key.
type KeepOn uint8

// OnSuccess keeps the key only after a function that returned nil. On a route
// it keeps the key after a response with a status below 400. After an error, a
// panic or the loss of the lease the key is free at once. So the same work can
// be tried again. A lease from Acquire or TryAcquire has no result. Its release
// counts as success.
const OnSuccess KeepOn = 1

// WithMinHold keeps the key taken until d after it was acquired, even if the
// function returns sooner. It does so after any result, or with [OnSuccess]
// only after success. It is for jobs that instances start by clocks that
// differ, and for double clicks.
//
// Verbs return without waiting for that, and the function's context ends as
// always. Meanwhile every other call has to wait, even in this process. The
// lease is renewed as needed, so d may be longer than the TTL. A call that runs
// inside a lease on the same key goes by the setting of the outer one. d is at
// least 1 ms. 0 is none, the default.
//
// [Guard.Close] does not wait for it either. The key is then left to its TTL,
// as after a crash or while the store cannot be reached. The TTL may end sooner
// or later than d. So choose a TTL of at least d for a process that ends with
// its job.
func WithMinHold(d time.Duration, on ...KeepOn) Option {
	for _, o := range on {
		if o != OnSuccess {
			return setting{wrong: invalid("MinHold with KeepOn %d, want OnSuccess", o)}
		}
	}
	return duration("MinHold", d, func(c *config) { c.minHold, c.keepIfDone, c.given.minHold = d, len(on) > 0, true })
}

// WithBackoff sets the pauses between tries while the locker is unavailable or
// cannot queue. The n-th pause is random between 0 and initial*2^n (full
// jitter), where initial*2^n is capped at max. initial is at least 1 ms.
// Default 5 ms and 250 ms.
//
// A call that is queued in the store is handed the key there. It looks
// on its own only in case a message is lost, after max/2 to max, but at least
// twice a second. A guard that waits for n keys, 300 or more, looks less often:
// max is then n/1000 s if that is longer, up to 10 s.
// If messages cannot arrive, each call looks at the usual pace.
func WithBackoff(initial, max time.Duration) Option { //nolint:predeclared,revive // the word that users read
	return checked(initial >= time.Millisecond && max >= initial,
		func(c *config) { c.set.Backoff = turns.Backoff{Initial: initial, Max: max} },
		"backoff is %v to %v, want 1ms <= initial <= max", initial, max)
}

// WithName sets the name of this guard, or of one route of it. Spans, metrics,
// logs and the holder's description show it. Use a few fixed words, never a
// key. The name does not separate keys; use redislocker.WithPrefix for that.
// Default "guard".
func WithName(name string) Option {
	return checked(name != "", func(c *config) { c.set.Name = name }, "name is empty")
}

// WithoutRenewal lets a lease end at its TTL. The function's context ends with
// [ErrLeaseLost] shortly before it.
func WithoutRenewal() Option {
	return setting{set: func(c *config) { c.set.NoRenewal, c.given.noRenewal = true, true }}
}

// WithFencing fetches fencing tokens with the key, in the same round trip.
// Without it the first call of [Lease.FencingToken] fetches them. Only with
// this option do tokens keep rising across a failover that lost the lock, if
// the server's clock does not step back by more than the outage.
func WithFencing() Option {
	return setting{set: func(c *config) { c.fencing, c.given.fencing = true, true }}
}

// WithFailOpen lets functions run unguarded while the store is silent. It is
// for a lock that only saves work, where two at a time do no harm and an outage
// of the store must not stop the work. It is never for money, stock or anything
// else that two at a time would damage.
//
// It replaces an ErrUnavailable of Do, DoAll, Call, Wrap, TryDo and the
// middleware, if the store gave no answer at all within a full try, or nothing
// listens at its address. Then the function runs with the verb's own context.
// [LeaseFrom] finds no lease there, and [FencingToken] returns ErrNoLease. The
// wait has the outcome "unguarded", and the log has one warning for each
// outage. Of the keys of a DoAll, those that could be acquired are held.
//
// Everything else is refused as always: a key that is held, a full queue, a
// closed guard. So is a call if its connection breaks, or if the store answers
// with an error, for lack of rights or while it loads its data.
// Acquire, TryAcquire, Lead and streams of gRPC and Connect ignore the option,
// because they have a lease or nothing. So does [Once], unless the option is
// given [OnceToo].
func WithFailOpen(also ...FailOpenFor) Option {
	for _, a := range also {
		if a != OnceToo {
			return setting{wrong: invalid("WithFailOpen with FailOpenFor %d, want OnceToo", a)}
		}
	}
	return setting{set: func(c *config) { c.failOpen, c.onceToo = true, len(also) > 0 }}
}

// FailOpenFor names a verb that [WithFailOpen] applies to only on demand.
type FailOpenFor uint8

// OnceToo lets the functions of [Once] and [Guard.OnceBytes] run while the
// store is silent, in each call that comes, without a record. So does
// everything that is made of Once, such as the Idempotent of the middleware. It
// is for a result that may be made twice without harm, such as a token or a
// cached page.
const OnceToo FailOpenFor = 1

// WithObserver adds an observer to the guard's observers. An observer that is
// already among them is not added twice. So a route that [Guard.With] makes may
// name an observer of its guard again.
func WithObserver(o Observer) Option {
	return checked(!lockerkit.IsNil(o), func(c *config) {
		if !slices.ContainsFunc(c.observers, func(there Observer) bool { return same(there, o) }) {
			c.observers = append(c.observers, o)
		}
	}, "observer is nil")
}

// WithLogger sets the logger for lost leases, outages, failed releases and
// functions that run on. Keys are not logged. Default [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return checked(l != nil, func(c *config) { c.logger = l }, "logger is nil")
}

// same reports whether a and b are the same observer. Some have types that ==
// cannot compare.
func same(a, b Observer) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// WithCodec sets how [Once] writes results and final errors. The default is
// JSON. All processes that share a key need the same one. A codec may encrypt.
func WithCodec(codec Codec) Option {
	return checked(!lockerkit.IsNil(codec), func(c *config) { c.codec = codec }, "the codec is nil")
}

// WithResultLimit bounds what [Once] keeps for a key, in bytes. A longer result
// is returned, and later calls get [ErrResultGone]. 64 bytes to
// locker.MaxRecord, which is 1 MiB. Default 64 KiB. Up to 35 of the bytes are
// the guard's.
func WithResultLimit(bytes int) Option {
	return checked(bytes >= minResultLimit && bytes <= locker.MaxRecord, func(c *config) { c.resultLimit = bytes },
		"ResultLimit is %d, want %d to %d", bytes, minResultLimit, locker.MaxRecord)
}
