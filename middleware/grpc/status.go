package lockmw

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/internal/rpcrule"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is that of the ErrorInfo in a status from here.
const Domain = rpcrule.Domain

// Error returns the status for an error of guard or keyfunc that a handler got,
// as the interceptors would answer it, and every other error, or nil,
// unchanged. ctx is the call's. The interceptors do that for the methods that
// they lock.
//
// The status never has a RetryInfo, because the handler may have done part of
// its work. If it surely has, because ctx carries a lease or [guard.Ran] is
// true of err, the status is none that clients repeat by themselves either:
// INTERNAL with the same reason. For other handlers the status stays, and a
// client whose policy repeats it runs the handler again: one that must not run
// twice takes its keys before it does anything, or returns a status of its own
// after that.
func Error(ctx context.Context, err error) error {
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	told, _ := outcome.Of(ctx, ran.Mark(err))
	return newStatus(codes.Code(rpcrule.Code(o)), told)
}

// answer is the status for err, which the wait for the rule's own key or the
// handler has returned.
func answer(ctx context.Context, r *rpcrule.Rule, err error) error {
	r.Log(ctx, err)
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	return newStatus(codes.Code(rpcrule.Code(o)), o)
}

func newStatus(c codes.Code, o outcome.Outcome) error {
	if o.Code == "" {
		return status.FromContextError(context.Canceled).Err() // nobody is there to read it
	}
	s := status.New(c, o.Detail)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: rpcrule.Reason(o), Domain: Domain}}
	if o.RetryAfter > 0 {
		after := time.Duration(o.RetryAfter) * time.Second
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return s.Err()
}
