// Package outcome maps the errors of guard and keyfunc to HTTP answers. Every
// adapter answers from this one table. A handler that no adapter fits can use
// it too.
//
//	status  code                         when
//	409     lock_held                    the key was held until MaxWait ended (or httpopt.WithHeldStatus)
//	429     lock_queue_full              too many were waiting already, or the wait would have been too long
//	503     lock_unavailable             the locker gave no answer, or the guard is closed
//	503     lock_wait_aborted            a deadline outside the guard ended the wait
//	500     lock_lost                    the lease was lost while the handler ran: what it did is uncertain
//	400     lock_key_invalid             the request's key value is missing, malformed or repeated
//	413     lock_body_too_large          the body is too large to find the key's value in it
//	415     lock_unsupported_media_type  the body is of a type in which the key's value cannot be found
//	413     lock_too_many_keys           the request has more than 64 keys
//	500     lock_misconfigured           a server error: no such parameter, no default guard, an empty key
//	400     idempotency_key_invalid      the Idempotency-Key is missing, malformed or repeated
//	422     idempotency_key_reused       the Idempotency-Key was used for another request
//	409     idempotency_answer_gone      the request was carried out before, and its answer cannot be had
//	409     idempotency_interrupted      the request was begun before, and nobody knows what it did
//	499                                  the client has gone: nothing is written
//
// The first three carry Retry-After. They do not if part of the work may be
// done, because then nobody is asked to repeat the request. That is so if
// [guard.Ran] is true of the error, or if the request's context carries a
// lease. The refused key was then one that a handler wanted. The status and the
// code stay, and the text says that part of the request may have been carried
// out. A middleware that refuses a request inside of another one knows that its
// handler has not run, so its answer carries Retry-After.
//
// The bodies are RFC 9457 problem details with fixed texts. For 400, 413 and
// 415 the text names the parameter, header or field. It never contains a key, a
// value, a holder or any other internal detail.
package outcome

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/keyfunc"
)

// Outcome is an answer to a request. The zero Outcome is no answer.
type Outcome struct {
	Status int    // HTTP status
	Code   Code   // for programs; "" if nothing is to be written
	Detail string // for people
	// RetryAfter is in seconds, with jitter. It is 0 for no Retry-After: then
	// repeating the request may do its work twice.
	RetryAfter int

	inside *ctxkey.Refusal // of the lockmw.Idempotent around the request; it does not keep o as an answer
}

// ClientGone is the status of a request whose client left while the request
// waited. It is for the access log only, because nobody is left to read an
// answer.
const ClientGone = 499

// Code names an outcome for programs. Its text does not change, and further
// codes may be added.
type Code string

// The codes of the outcomes that have a body.
const (
	CodeHeld          Code = "lock_held"
	CodeQueueFull     Code = "lock_queue_full"
	CodeUnavailable   Code = "lock_unavailable"
	CodeWaitAborted   Code = "lock_wait_aborted"
	CodeLost          Code = "lock_lost"
	CodeKeyInvalid    Code = "lock_key_invalid"
	CodeBodyTooLarge  Code = "lock_body_too_large"
	CodeMediaType     Code = "lock_unsupported_media_type"
	CodeTooManyKeys   Code = "lock_too_many_keys"
	CodeMisconfigured Code = "lock_misconfigured"

	CodeIdempotencyInvalid     Code = "idempotency_key_invalid"
	CodeIdempotencyReused      Code = "idempotency_key_reused"
	CodeIdempotencyGone        Code = "idempotency_answer_gone"
	CodeIdempotencyInterrupted Code = "idempotency_interrupted"
)

// Of returns the outcome of err for a request whose context is ctx. It returns
// false if err is nil or not an error of guard or keyfunc. Errors that only
// wrap context.Canceled or context.DeadlineExceeded are the handler's own, and
// so Of returns false for them. It returns false for guard.ErrNotRecorded and
// a guard.FinalError too, because what they mean to a client is the handler's
// to say. It returns false for guard.ErrOtherPayload, guard.ErrResultGone and
// guard.ErrInterrupted unless an Idempotency-Key has caused them.
//
// Of uses ctx to tell a client that has gone from a wait that something else
// ended. A server cancels the context of such a request and names no cause. A
// middleware that cancels requests, or a server's BaseContext that ends at a
// shutdown, is told from it by a deadline or a cause, see
// [context.WithCancelCause].
//
// An empty key is treated as a server error (500), unless err also Is an error
// of keyfunc. So a handler that makes the key of values that it has bound can
// blame the client (400). For example, it returns
//
//	&keyfunc.Error{Source: "json", Name: "sku", Err: keyfunc.ErrMissing}
//
// An answer with the outcome is not kept by a lockmw.Idempotent around the
// request, because the same request may go through later.
//
// The outcome has no Retry-After if part of the work may be done. That is so if
// [guard.Ran] is true of err, or if ctx carries a lease and err is not the one
// that a middleware gives to its error handler.
//
// Of is safe for concurrent use. Two calls for one error may give different
// Retry-After.
func Of(ctx context.Context, err error) (Outcome, bool) {
	o, ours := of(ctx, err)
	if ours {
		o.inside = ctxkey.RefusalIn(ctx)
		o.inside.Asked()
	}
	return o, ours
}

// of is [Of] without a note for an Idempotent outside.
func of(ctx context.Context, err error) (Outcome, bool) {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(guard.ErrLeaseLost): // first, because the work may have been done whatever else went wrong
		return lost, true
	case ofIdempotencyKey(err) && is(guard.ErrOtherPayload):
		return keyReused, true
	case ofIdempotencyKey(err) && is(guard.ErrResultGone):
		return answerGone, true
	case ofIdempotencyKey(err) && is(guard.ErrInterrupted):
		return interrupted, true
	case is(keyfunc.ErrNoSource), is(guard.ErrNoDefault):
		return misconfigured, true
	case is(keyfunc.ErrTooManyKeys):
		return tooManyKeys, true
	case is(keyfunc.ErrTooLarge), is(keyfunc.ErrMissing), is(keyfunc.ErrAmbiguous), is(keyfunc.ErrInvalid):
		return badRequest(err), true
	case is(guard.ErrInvalidKey), is(guard.ErrInvalidOption): // no error of keyfunc blames the client
		return misconfigured, true
	case !is(guard.ErrNotAcquired) && !is(guard.ErrUnavailable) && !is(guard.ErrClosed):
		return Outcome{}, false
	case is(context.Canceled):
		return cancelled(ctx, err), true
	case is(guard.ErrUnavailable), is(guard.ErrClosed): // before deadlines, because a single try has one too
		return refused(ctx, unavailable, err), true
	case is(context.DeadlineExceeded):
		return refused(ctx, waitAborted, err), true
	case is(guard.ErrQueueFull):
		return refused(ctx, queueFull, err), true
	}
	return refused(ctx, held, err), true
}

// cancelled is the outcome of a wait that a cancelled context ended. ctx is the
// request's context, perhaps inside a lease.
func cancelled(ctx context.Context, err error) Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, guard.ErrLeaseLost), errors.Is(cause, guard.ErrClosed): // the lease around the wait is lost
		return lost
	case errors.Is(cause, context.Canceled) && !endedInside(ctx): // a server cancels without a cause of its own
		return Outcome{Status: ClientGone}
	}
	// The handler cancelled a context of its own, or a middleware named its
	// cause.
	return refused(ctx, waitAborted, err)
}

// endedInside reports whether ctx was cancelled inside the lease that it
// carries, by a handler and not by the server.
func endedInside(ctx context.Context) bool {
	l, found := guard.LeaseFrom(ctx)
	return found && l.Context().Err() == nil
}

// A refusal is the outcome of a wait without its advice. The advice depends on
// whether part of the work may be done.
type refusal struct {
	Outcome

	advice string // added to Detail if no part of the work has begun
	retry  bool   // whether it then gets a Retry-After
}

// refused is the outcome of the refusal r, which err reports.
func refused(ctx context.Context, r refusal, err error) Outcome {
	o := r.Outcome
	_, inside := guard.LeaseFrom(ctx)
	inside = inside || ctx.Value(ctxkey.Unguarded) == true
	begun := guard.Ran(err) || inside && !errnote.Is(err, errnote.Refused(true))
	status, noted := errnote.Of[errnote.HeldStatus](err)
	repeated := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable // by clients themselves
	if noted && o.Code == CodeHeld && (!begun || !repeated) {
		o.Status = int(status)
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
		Status: http.StatusConflict, Code: CodeHeld,
		Detail: "Another request is working on the same resource.",
	}, later, true}
	queueFull = refusal{Outcome{
		Status: http.StatusTooManyRequests, Code: CodeQueueFull,
		Detail: "Too many requests are waiting for the same resource.",
	}, later, true}
	unavailable = refusal{Outcome{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable,
		Detail: "The lock service cannot answer.",
	}, later, true}
	waitAborted = refusal{Outcome{
		Status: http.StatusServiceUnavailable, Code: CodeWaitAborted,
		Detail: "The request's time ended while it waited for another one.",
	}, " It was not carried out.", false}
	lost = Outcome{
		Status: http.StatusInternalServerError, Code: CodeLost,
		Detail: "The lock was lost while the request was worked on. It may or may not have been carried out; check " +
			"before trying again.",
	}
	tooManyKeys = Outcome{
		Status: http.StatusRequestEntityTooLarge, Code: CodeTooManyKeys,
		Detail: "The request names more than 64 resources to lock.",
	}
	keyReused = Outcome{
		Status: http.StatusUnprocessableEntity, Code: CodeIdempotencyReused,
		Detail: "The Idempotency-Key was used for another request.",
	}
	answerGone = Outcome{
		Status: http.StatusConflict, Code: CodeIdempotencyGone,
		Detail: "The request was carried out before. Its answer was not kept.",
	}
	interrupted = Outcome{
		Status: http.StatusConflict, Code: CodeIdempotencyInterrupted,
		Detail: "The request was begun before and not finished. It may or may not have been carried out; check " +
			"before trying again.",
	}
	misconfigured = Outcome{
		Status: http.StatusInternalServerError, Code: CodeMisconfigured,
		Detail: "The lock of this route is not set up correctly.",
	}
)
