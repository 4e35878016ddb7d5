package lockmw

import (
	"context"
	"net/http"
	"strconv"

	"github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/transport"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is the domain in the metadata of this package's errors.
const Domain = rpcguard.Domain

// Error returns the Kratos error for an error of guard or keyfunc that a
// handler got. Every other error, or nil, is returned unchanged. ctx is the
// context of the call. [Server] calls Error for the operations that it locks.
//
// The error never asks the client to retry, because the handler may have done
// part of its work. Because of this 409, 429 and 503 become 500 with the same
// reason.
func Error(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	o, ours := outcome.Of(ctx, errnote.With(err, errnote.Ran(true)))
	if !ours {
		return err
	}
	return newError(ctx, o, err)
}

// answer returns the Kratos error for err. The wait for the rule's own key or
// the handler has returned err.
func answer(ctx context.Context, r *rpcguard.Rule, err error) error {
	r.Log(ctx, err)
	o, ours := outcome.Of(ctx, err)
	if !ours {
		return err
	}
	return newError(ctx, o, err)
}

func newError(ctx context.Context, o outcome.Outcome, cause error) error {
	metadata := map[string]string{"domain": Domain}
	if o.RetryAfter > 0 {
		after := strconv.Itoa(o.RetryAfter)
		metadata["retry_after"] = after
		if tr, found := transport.FromServerContext(ctx); found {
			tr.ReplyHeader().Set("Retry-After", after)
		}
	}
	return errors.New(status(o), rpcguard.Reason(o), o.Detail).WithMetadata(metadata).WithCause(cause)
}

// status returns the HTTP status from which Kratos makes the right gRPC code.
func status(o outcome.Outcome) int {
	switch o.Code {
	case outcome.CodeIdempotencyReused:
		return http.StatusBadRequest
	case outcome.CodeIdempotencyGone, outcome.CodeIdempotencyInterrupted:
		return http.StatusPreconditionFailed
	}
	switch rpcguard.Code(o) {
	case rpcguard.Internal:
		return http.StatusInternalServerError
	case rpcguard.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return o.Status
}
