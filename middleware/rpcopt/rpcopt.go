// Package rpcopt has the options of idempotent methods that every framework
// has. Idempotent of packages grpc, connect, connectv2 and kratos takes them:
//
//	lockmw.Idempotent(g, pb.Stock_Buy_FullMethodName, tenant, 24*time.Hour,
//		rpcopt.WithFingerprint(func(_ context.Context, m *pb.BuyRequest) (string, error) { return m.GetSku(), nil }))
package rpcopt

import (
	"context"

	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// IdempotentOption is an option of lockmw.Idempotent, which panics if one is
// nil.
type IdempotentOption interface{ idempotentOption }

type idempotentOption = rpcguard.IdempotentOption

// WithIdempotencyKey names the call by the key that the given function makes of
// its message, in place of the header Idempotency-Key, which is metadata in
// gRPC. An empty key means that the client has left it out. A call without a
// key, or with one of more than 255 bytes, gets INVALID_ARGUMENT, which is 400
// in HTTP. WithIdempotencyKey panics if key is nil.
func WithIdempotencyKey[M any](key func(ctx context.Context, message M) (string, error)) IdempotentOption {
	of := rpcguard.ValueBy(key)
	return rpcguard.ForIdempotent(func(s *rpcguard.Settings) { s.Identity.Key = of })
}

// WithFingerprint lets the method and these values alone decide whether a call
// with a key that was used before is the same call. WithFingerprint panics
// without a function, or if one is nil.
func WithFingerprint[M any](values ...func(ctx context.Context, message M) (string, error)) IdempotentOption {
	of := httpguard.Values(values, rpcguard.ValueBy[M])
	return rpcguard.ForIdempotent(func(s *rpcguard.Settings) { s.Identity.Values = of })
}

// WithoutFingerprint makes calls of a method with the same scope and key the
// same one, whatever else they have.
func WithoutFingerprint() IdempotentOption {
	return rpcguard.ForIdempotent(func(s *rpcguard.Settings) { s.Identity.KeyAlone() })
}

// WithOptionalKey lets calls without a key pass. Their handler has no lease.
func WithOptionalKey() IdempotentOption {
	return rpcguard.ForIdempotent(func(s *rpcguard.Settings) { s.Identity.Optional = true })
}

// WithReplayHook calls f before the answer of an earlier call is sent, for logs
// and metrics. f blocks the answer. WithReplayHook panics if f is nil.
func WithReplayHook(f func(ctx context.Context)) IdempotentOption {
	httpguard.PanicIf(f == nil, httpguard.NilReplayHook)
	return rpcguard.ForIdempotent(func(s *rpcguard.Settings) { s.Replayed = f })
}
