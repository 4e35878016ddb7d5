package rpcrule

import (
	"strings"

	"github.com/go-lockguard/guard/outcome"
)

// The gRPC codes of answers. The codes of Connect are the same.
const (
	Canceled           = 1
	InvalidArgument    = 3
	DeadlineExceeded   = 4
	ResourceExhausted  = 8
	FailedPrecondition = 9
	Aborted            = 10
	Internal           = 13
	Unavailable        = 14
)

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

// Reason returns the reason for an outcome: its code in capitals.
func Reason(o outcome.Outcome) string { return strings.ToUpper(string(o.Code)) }
