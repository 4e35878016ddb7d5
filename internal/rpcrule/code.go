package rpcrule

import (
	"strings"

	"github.com/go-lockguard/guard/outcome"
)

// The gRPC codes of answers. The codes of Connect are the same.
const (
	Canceled          = 1
	InvalidArgument   = 3
	DeadlineExceeded  = 4
	ResourceExhausted = 8
	Aborted           = 10
	Internal          = 13
	Unavailable       = 14
)

// Code returns the code for an outcome. If part of the work may be done, it is
// not a code that clients repeat by themselves.
func Code(o outcome.Outcome) uint32 {
	if refused := o.Code == outcome.Held || o.Code == outcome.QueueFull ||
		o.Code == outcome.Unavailable; refused && o.RetryAfter == 0 {
		return Internal
	}
	switch o.Code {
	case outcome.Held:
		return Aborted
	case outcome.QueueFull:
		return ResourceExhausted
	case outcome.Unavailable:
		return Unavailable
	case outcome.WaitAborted:
		return DeadlineExceeded
	case outcome.KeyInvalid, outcome.BodyTooLarge, outcome.MediaType:
		return InvalidArgument
	case "":
		return Canceled
	}
	return Internal // lost, misconfigured
}

// Reason returns the reason for an outcome: its code in capitals.
func Reason(o outcome.Outcome) string { return strings.ToUpper(o.Code) }
