package lockmw

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is the domain of the ErrorInfo in the statuses of this package.
const Domain = rpcguard.Domain

// Error returns the status for an error of guard or keyfunc that a handler got,
// as the interceptors would answer it. Every other error, or nil, is returned
// unchanged. ctx is the context of the call. The interceptors call Error for
// the methods that they lock.
//
// The status never has a RetryInfo, because the handler may have done part of
// its work. The handler surely has if ctx carries a lease or [guard.Ran] is
// true of err. Then the status is INTERNAL with the same reason, which clients
// do not repeat by themselves.
//
// For other handlers the status stays, and a client whose policy repeats it
// runs the handler again. A handler that must not run twice takes its keys
// before it does anything, or returns its own status after that.
func Error(ctx context.Context, err error) error { return rpcguard.Told(ctx, err, newStatus) }

// answer returns the status for err. The wait for the rule's own key or the
// handler has returned err.
func answer(ctx context.Context, r *rpcguard.Rule, err error) error {
	r.Log(ctx, err)
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	return newStatus(ctx, rpcguard.Code(o), o)
}

func newStatus(_ context.Context, code uint32, o outcome.Outcome) error {
	if o.Code == "" {
		return status.FromContextError(context.Canceled).Err() // the client has gone
	}
	s := status.New(codes.Code(code), o.Detail)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: rpcguard.Reason(o), Domain: Domain}}
	if o.RetryAfter > 0 {
		after := time.Duration(o.RetryAfter) * time.Second
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return s.Err()
}
