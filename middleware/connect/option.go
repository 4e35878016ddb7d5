package lockmw

import (
	"context"

	"github.com/go-lockguard/guard/internal/rpcrule"
)

// Option changes a rule of [Idempotent].
type Option interface{ option }

type option = rpcrule.Option

// WithIdempotencyKey names the call by the key that the given function makes of
// its message, in place of the header Idempotency-Key. An empty key means that
// the client has left it out. A call without a key, or with one of more than
// 255 bytes, gets InvalidArgument. WithIdempotencyKey panics if key is nil.
func WithIdempotencyKey[M any](key func(ctx context.Context, message M) (string, error)) Option {
	return rpcrule.WithKey(key)
}

// WithFingerprint lets the method and these values alone decide whether a call
// with a key that was used before is the same call. WithFingerprint panics
// without a function, or if one is nil.
func WithFingerprint[M any](values ...func(ctx context.Context, message M) (string, error)) Option {
	return rpcrule.WithFingerprint(values)
}

// WithoutFingerprint makes calls of a method with the same scope and key the
// same one, whatever else they have.
func WithoutFingerprint() Option { return rpcrule.WithoutFingerprint() }

// WithOptionalKey lets calls without a key pass. Their handler has no lease.
func WithOptionalKey() Option { return rpcrule.WithOptionalKey() }

// WithReplayHook calls f before the answer of an earlier call is sent, for logs
// and metrics. f blocks the answer. WithReplayHook panics if f is nil.
func WithReplayHook(f func(ctx context.Context)) Option { return rpcrule.WithReplayHook(f) }
