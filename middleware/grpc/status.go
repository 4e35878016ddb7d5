package lockmw

import (
	"context"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-lockguard/guard/outcome"
)

// Domain is that of the ErrorInfo in a status from here.
const Domain = "guard"

// Error returns the status for an error of guard or keyfunc that a handler got, as the interceptors would answer it, and every
// other error, or nil, unchanged. ctx is the call's. The interceptors do that for the methods that they lock.
//
// If part of the work may be done, because ctx carries a lease or [guard.Ran] is true of err, the status is none that
// clients repeat by themselves: INTERNAL with the same reason.
func Error(ctx context.Context, err error) error {
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	s := status.New(code(o), o.Detail)
	if o.Code == "" {
		return status.FromContextError(context.Canceled).Err() // nobody is there to read it
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: strings.ToUpper(o.Code), Domain: Domain}}
	if o.RetryAfter > 0 {
		after := time.Duration(o.RetryAfter) * time.Second
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return s.Err()
}

func code(o outcome.Outcome) codes.Code {
	if refused := o.Code == outcome.Held || o.Code == outcome.QueueFull || o.Code == outcome.Unavailable; refused && o.RetryAfter == 0 {
		return codes.Internal // part of the work may be done
	}
	switch o.Code {
	case outcome.Held:
		return codes.Aborted
	case outcome.QueueFull:
		return codes.ResourceExhausted
	case outcome.Unavailable:
		return codes.Unavailable
	case outcome.WaitAborted:
		return codes.DeadlineExceeded
	case outcome.KeyInvalid, outcome.BodyTooLarge, outcome.MediaType:
		return codes.InvalidArgument
	}
	return codes.Internal // lost, misconfigured
}
