// Package outcome is the one table from errors of guard and keyfunc to HTTP
// answers. Every adapter answers from it, and so can a handler that no adapter
// fits.
//
//	status  code                         when
//	409     lock_held                    the key was held until MaxWait ended (or lockmw.WithHeldStatus)
//	429     lock_queue_full              too many were waiting already, or the wait would have been too long
//	503     lock_unavailable             the locker gave no answer, or the guard is closed
//	503     lock_wait_aborted            a deadline outside the guard ended the wait
//	500     lock_lost                    the lease was lost while the handler ran: what it did is uncertain
//	400     lock_key_invalid             the request's key value is missing, malformed or repeated
//	413     lock_body_too_large          the body is too large to find the key's value in it
//	415     lock_unsupported_media_type  the body is of a type in which the key's value cannot be found
//	500     lock_misconfigured           our own mistake: no such parameter, no default guard, an empty key
//	499                                  the client has gone: nothing is written
//
// The first three carry Retry-After. They do not where the refused key was one
// inside: if [guard.Ran] is true of the error, or the request's context carries
// a lease, part of the work may be done, and nobody is asked to repeat it. The
// status and the code stay, and the text says so. The bodies are RFC 9457
// problem details with fixed texts, which for 400, 413 and 415 name the
// parameter, header or field: never a key, a value, a holder or anything else
// from the inside.
package outcome

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/heldstatus"
	"github.com/go-lockguard/guard/keyfunc"
)

// Outcome is what to answer. The zero Outcome is none.
type Outcome struct {
	Status     int    // HTTP status
	Code       string // for programs; "" if nothing is to be written
	Detail     string // for people
	RetryAfter int    // in seconds, with jitter; 0 for none: repeating the request may do its work twice
}

// ClientGone is the status of a request whose client left while it waited: for
// the access log only, as there is nobody to write to.
const ClientGone = 499

// Codes of the outcomes that have an answer.
const (
	Held          = "lock_held"
	QueueFull     = "lock_queue_full"
	Unavailable   = "lock_unavailable"
	WaitAborted   = "lock_wait_aborted"
	Lost          = "lock_lost"
	KeyInvalid    = "lock_key_invalid"
	BodyTooLarge  = "lock_body_too_large"
	MediaType     = "lock_unsupported_media_type"
	Misconfigured = "lock_misconfigured"
)

// Of returns the outcome of err for a request whose context is ctx; false if
// err is not an error of guard or keyfunc, or nil. Errors that merely wrap
// context.Canceled or context.DeadlineExceeded are not ours: they are the
// handler's own.
//
// ctx tells a client that has gone from a wait that something else ended. An
// empty key is our own mistake, unless err also Is one of keyfunc's, as
// &keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMissing}: so a
// handler that makes the key of what it has bound says that the client has left
// it out. Of is safe for concurrent use; calling it twice for one error may
// give different Retry-After.
//
// There is none if part of the work may be done: if [guard.Ran] is true of err,
// or ctx carries a lease.
func Of(ctx context.Context, err error) (Outcome, bool) {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(guard.ErrLeaseLost): // first: whatever else went wrong, the work may have been done
		return lost, true
	case is(keyfunc.ErrNoSource), is(guard.ErrNoDefault):
		return misconfigured, true
	case is(keyfunc.ErrTooLarge), is(keyfunc.ErrMissing), is(keyfunc.ErrAmbiguous), is(keyfunc.ErrInvalid):
		return badRequest(err), true
	case is(guard.ErrInvalidKey): // and nobody says that it is the client's doing
		return misconfigured, true
	case !is(guard.ErrNotAcquired) && !is(guard.ErrUnavailable) && !is(guard.ErrClosed):
		return Outcome{}, false
	case is(context.Canceled):
		return cancelled(ctx, err), true
	case is(guard.ErrUnavailable), is(guard.ErrClosed): // before deadlines: it may be that of a single try
		return refused(ctx, unavailable, err), true
	case is(context.DeadlineExceeded):
		return refused(ctx, waitAborted, err), true
	case is(guard.ErrQueueFull):
		return refused(ctx, queueFull, err), true
	}
	return refused(ctx, held, err), true
}

// cancelled is the outcome of a wait that a cancelled context ended; ctx is the
// request's, perhaps under a lease.
func cancelled(ctx context.Context, err error) Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, guard.ErrLeaseLost), errors.Is(cause, guard.ErrClosed): // the lease around the wait
		return lost
	case errors.Is(cause, context.Canceled): // a server cancels a request without a cause of its own
		return Outcome{Status: ClientGone}
	}
	// a cancelled context inside the handler, or a middleware that names its
	// cause
	return refused(ctx, waitAborted, err)
}

// A refusal is the outcome of a wait without its advice, which depends on what
// had run before.
type refusal struct {
	Outcome

	advice string // if nothing had
	retry  bool   // then it gets a Retry-After
}

// refused is the outcome of r, which err says.
func refused(ctx context.Context, r refusal, err error) Outcome {
	o := r.Outcome
	_, inside := guard.LeaseFrom(ctx)
	begun := inside || guard.Ran(err)
	if status := heldstatus.Of(err); status != 0 && o.Code == Held && (!begun || !heldstatus.Repeated(status)) {
		o.Status = status
	}
	if begun {
		o.Detail += " Part of the request may have been carried out; check before trying again."
		return o
	}
	o.Detail += r.advice
	if r.retry {
		o.RetryAfter = retryAfter(err)
	}
	return o
}

const later = " Try again later."

var (
	held = refusal{Outcome{
		Status: http.StatusConflict, Code: Held,
		Detail: "Another request is working on the same resource.",
	}, later, true}
	queueFull = refusal{Outcome{
		Status: http.StatusTooManyRequests, Code: QueueFull,
		Detail: "Too many requests are waiting for the same resource.",
	}, later, true}
	unavailable = refusal{Outcome{
		Status: http.StatusServiceUnavailable, Code: Unavailable,
		Detail: "The lock service cannot answer.",
	}, later, true}
	waitAborted = refusal{Outcome{
		Status: http.StatusServiceUnavailable, Code: WaitAborted,
		Detail: "The request's time ended while it waited for another one.",
	}, " It was not carried out.", false}
	lost = Outcome{
		Status: http.StatusInternalServerError, Code: Lost,
		Detail: "The lock was lost while the request was worked on. It may or may not have been carried out; check " +
			"before trying again.",
	}
	misconfigured = Outcome{
		Status: http.StatusInternalServerError, Code: Misconfigured,
		Detail: "The lock of this route is not set up correctly.",
	}
)
