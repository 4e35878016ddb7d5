package lockmw

import (
	"context"
	"errors"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is the domain of the ErrorInfo in the errors of this package.
const Domain = rpcguard.Domain

// Error returns the Connect error for an error of guard or keyfunc that a
// handler got, as the interceptor would answer it. Every other error, or nil,
// is returned unchanged. ctx is the context of the call. The interceptor calls
// Error for the procedures that it locks.
//
// The error never has a RetryInfo, because the handler may have done part of
// its work. The handler surely has if ctx carries a lease or [guard.Ran] is
// true of err. Then the code is INTERNAL with the same reason, which clients do
// not repeat by themselves.
//
// For other handlers the code stays, and a client whose policy repeats it runs
// the handler again. A handler that must not run twice takes its keys before it
// does anything, or returns its own error after that.
func Error(ctx context.Context, err error) error { return rpcguard.Told(ctx, err, newError) }

// answer returns the error for err. The wait for the rule's own key or the
// handler has returned err. A handler that made a Connect error of one of
// guard's has chosen its code.
func answer(ctx context.Context, r *rpcguard.Rule, err error) error {
	o, ours := outcome.Of(ctx, err)
	if own := (*connect.Error)(nil); !ours || errors.As(err, &own) && o.Code != outcome.CodeLost {
		return err
	}
	r.Log(ctx, err)
	return newError(ctx, rpcguard.Code(o), o)
}

func newError(_ context.Context, code uint32, o outcome.Outcome) error {
	if o.Code == "" {
		return connect.NewError(connect.CodeCanceled, context.Canceled) // the client has gone
	}
	e := connect.NewError(connect.Code(code), errors.New(o.Detail))
	add(e, &errdetails.ErrorInfo{Reason: rpcguard.Reason(o), Domain: Domain})
	if o.RetryAfter > 0 {
		after := time.Duration(o.RetryAfter) * time.Second
		add(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
		e.Meta().Set("Retry-After", strconv.Itoa(o.RetryAfter))
	}
	return e
}

func add(e *connect.Error, detail proto.Message) {
	if d, err := connect.NewErrorDetail(detail); err == nil {
		e.AddDetail(d)
	}
}
