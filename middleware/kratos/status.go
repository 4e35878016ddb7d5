package lockmw

import (
	"context"
	"net/http"
	"strconv"

	"github.com/go-kratos/kratos/v2/errors"
	"github.com/go-kratos/kratos/v2/transport"

	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/internal/rpcrule"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is that of the errors from here, in their metadata.
const Domain = rpcrule.Domain

// Error returns the Kratos error for an error of guard or keyfunc that a
// handler got, and every other error, or nil, unchanged. ctx is the call's.
// [Server] does that for the operations that it locks.
//
// It never asks to come back, because the handler may have done part of its
// work: 409, 429 and 503 are 500, with the same reason.
func Error(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	o, ours := outcome.Of(ctx, ran.Mark(err))
	if !ours {
		return err
	}
	return newError(ctx, o, err)
}

// answer is the error for err, which the wait for the rule's own key or the
// handler has returned.
func answer(ctx context.Context, r *rpcrule.Rule, err error) error {
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
	return errors.New(status(o), rpcrule.Reason(o), o.Detail).WithMetadata(metadata).WithCause(cause)
}

// status is the HTTP status that Kratos makes the right code of gRPC of.
func status(o outcome.Outcome) int {
	switch rpcrule.Code(o) {
	case rpcrule.Internal:
		return http.StatusInternalServerError
	case rpcrule.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return o.Status
}
