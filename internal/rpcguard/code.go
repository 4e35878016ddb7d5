package rpcguard

import (
	"context"
	"slices"
	"strings"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/outcome"
)

// The gRPC codes of answers. The codes of Connect are the same.
const (
	OK                 = 0
	Canceled           = 1
	InvalidArgument    = 3
	DeadlineExceeded   = 4
	NotFound           = 5
	AlreadyExists      = 6
	PermissionDenied   = 7
	ResourceExhausted  = 8
	FailedPrecondition = 9
	Aborted            = 10
	OutOfRange         = 11
	Unimplemented      = 12
	Internal           = 13
	Unavailable        = 14
	Unauthenticated    = 16
)

// results are the codes of results. With the others the same call may go
// through the next time.
var results = []uint32{
	OK, InvalidArgument, NotFound, AlreadyExists, PermissionDenied, FailedPrecondition, OutOfRange, Unimplemented,
}

// Kept returns nil if an answer with code is kept, and otherwise the error for
// [Answers].Record. again says that the answer has a RetryInfo, and ours that
// it is an error of guard.
func Kept(code uint32, again, ours bool) error {
	switch {
	case again, code == Unauthenticated:
		return guard.NothingDone(ErrNotForKeeping)
	case ours, !slices.Contains(results, code):
		return ErrNotForKeeping
	}
	return nil
}

// Code returns the code for an outcome. If part of the work may be done, it is
// not a code that clients repeat by themselves.
func Code(o outcome.Outcome) uint32 {
	if refused := o.Code == outcome.CodeHeld || o.Code == outcome.CodeQueueFull ||
		o.Code == outcome.CodeUnavailable; refused && o.RetryAfter == 0 {
		return Internal
	}
	switch o.Code {
	case outcome.CodeHeld:
		return Aborted
	case outcome.CodeQueueFull:
		return ResourceExhausted
	case outcome.CodeUnavailable:
		return Unavailable
	case outcome.CodeWaitAborted:
		return DeadlineExceeded
	case outcome.CodeKeyInvalid, outcome.CodeBodyTooLarge, outcome.CodeMediaType, outcome.CodeTooManyKeys,
		outcome.CodeIdempotencyInvalid, outcome.CodeIdempotencyReused:
		return InvalidArgument
	case outcome.CodeIdempotencyGone, outcome.CodeIdempotencyInterrupted:
		return FailedPrecondition
	case "":
		return Canceled
	}
	return Internal // lost, misconfigured
}

// Told returns what to makes of an error of guard or keyfunc that a handler
// got, as the Error of an adapter. Every other error, or nil, is returned
// unchanged. The outcome says that part of the work may be done. The code says
// so only if the handler surely has run.
func Told(ctx context.Context, err error, to func(context.Context, uint32, outcome.Outcome) error) error {
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	told, _ := outcome.Of(ctx, errnote.With(err, errnote.Ran(true)))
	return to(ctx, Code(o), told)
}

// Reason returns the reason for an outcome: its code in capitals.
func Reason(o outcome.Outcome) string { return strings.ToUpper(string(o.Code)) }
