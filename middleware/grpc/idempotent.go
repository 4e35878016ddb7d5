package lockmw

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/ran"
	"github.com/go-lockguard/guard/internal/rpcrule"
	"github.com/go-lockguard/guard/outcome"
)

// Idempotent carries out each call of method once, by its metadata
// idempotency-key. The answer is kept for ttl. A call that comes again gets it,
// with the header idempotency-replayed. One that comes while the first runs
// waits for it, for at most MaxWait.
//
// scope says who calls, such as the user or the tenant. Equal keys of two scopes
// have nothing to do with each other. Idempotent panics without a scope, if ttl
// is less than 1 ms, and if method is no full name. A nil g is the default
// guard. Its store must keep results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Kept are answers with OK,
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION,
// OUT_OF_RANGE, PERMISSION_DENIED and UNIMPLEMENTED, unless they have a
// RetryInfo or are errors of guard. After the others the next call runs the
// handler. With [guard.WithAtMostOnce] it does so only after a RetryInfo. Headers
// and trailers are not kept.
//
// A key that comes with another message gets INVALID_ARGUMENT and
// IDEMPOTENCY_KEY_REUSED. Messages are compared as this program writes them.
// Protobuf promises the same bytes for the same message only within one binary,
// and fields that a binary does not know stand last in what it writes. So while
// a release with other fields, or another version of protobuf, is rolled out, a
// call that comes again may be refused so. It never runs twice for that reason.
//
// A key whose answer was longer than [guard.WithResultLimit] gets
// FAILED_PRECONDITION and IDEMPOTENCY_ANSWER_GONE.
//
// The method must be unary: [Stream] panics for such a rule. To lock the method
// too, put the rule of the lock into a second interceptor inside.
func Idempotent(
	g *guard.Guard, method string, scope func(context.Context) (string, error), ttl time.Duration,
) Rule {
	if scope == nil {
		panic("lockmw: Idempotent without a scope, so one client would get the answers of another")
	}
	if ttl < time.Millisecond {
		panic(fmt.Sprintf("lockmw: Idempotent keeps answers for %v, want at least 1ms", ttl))
	}
	i := &idempotent{rpcrule.NewServing(g, method), scope, ttl}
	i.rule.Serve = i.serve
	return Rule{i.rule}
}

// idempotent is a rule that keeps answers. It is safe for concurrent use.
type idempotent struct {
	rule  *rpcrule.Rule
	scope func(context.Context) (string, error)
	ttl   time.Duration
}

// errNotForKeeping ends a turn whose answer is not kept. Callers never see it.
var errNotForKeeping = errors.New("the answer is not one to keep")

// serve runs handler once for a key, and returns its answer for the other calls.
func (i *idempotent) serve(
	ctx context.Context, message any, handler func(context.Context) (any, error),
) (resp any, err error) {
	key, mark, err := i.identify(ctx, message)
	if err != nil {
		return nil, answer(ctx, i.rule, err)
	}
	called, o := false, guard.OnceOptions{TTL: i.ttl, Fingerprint: mark}
	var own error
	result, err := i.rule.Guard.OnceBytes(ctx, key, o, func(ctx context.Context) ([]byte, error) {
		called = true
		if resp, own = handler(ctx); own != nil {
			own = i.told(ctx, own)
		}
		return record(resp, own)
	})
	switch {
	case called && errors.Is(err, guard.ErrLeaseLost):
		return nil, answer(ctx, i.rule, err)
	case called && errors.Is(err, guard.ErrNotKept):
		i.rule.Guard.Logger().WarnContext(ctx, "guard: the store did not confirm that an answer was kept",
			"guard", i.rule.Guard.Name(), "method", i.rule.Method, "key_hash", guard.KeyHash(key), "error", err)
		return resp, own
	case called:
		return resp, own
	case errors.Is(err, guard.ErrOtherPayload), errors.Is(err, guard.ErrResultGone),
		errors.Is(err, guard.ErrInterrupted):
		err = httpguard.BlameKey(err)
	}
	if err != nil {
		return nil, answer(ctx, i.rule, err)
	}
	return i.replay(ctx, result.Record)
}

// told returns the error of a handler as clients see it.
func (i *idempotent) told(ctx context.Context, own error) error {
	if _, ours := outcome.Of(ctx, own); ours {
		return answer(ctx, i.rule, ran.Mark(own))
	}
	return own
}

// identify returns the guard's key for a call, and the fingerprint of the call.
func (i *idempotent) identify(ctx context.Context, message any) (key string, fingerprint []byte, err error) {
	name, err := httpguard.IdempotencyKey(metadata.ValueFromIncomingContext(ctx, "idempotency-key"))
	if err != nil {
		return "", nil, err
	}
	scope, err := i.scope(ctx)
	if err != nil {
		return "", nil, err
	}
	if scope == "" {
		return "", nil, fmt.Errorf("%w: the scope is empty", guard.ErrInvalidKey)
	}
	m, ok := message.(proto.Message)
	if !ok {
		return "", nil, rpcrule.WrongType(message)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(append([]byte(i.rule.Method+"\n"), text...))
	return httpguard.IdempotentKey(scope, name), sum[:16], nil
}

// keptCodes are the codes of results. With the others the same call may go
// through the next time.
var keptCodes = []codes.Code{
	codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange,
	codes.PermissionDenied, codes.Unimplemented,
}

// record returns what is kept of an answer: a status, and with code OK the
// response as its only detail. An empty record says that there was an answer.
func record(resp any, own error) ([]byte, error) {
	s := status.Convert(own)
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			return nil, guard.NothingDone(errNotForKeeping)
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				return nil, errNotForKeeping
			}
		}
	}
	if !slices.Contains(keptCodes, s.Code()) {
		return nil, errNotForKeeping
	}
	kept := s.Proto()
	if own == nil {
		kept = &spb.Status{}
		if m, ok := resp.(proto.Message); ok {
			detail := new(anypb.Any)
			if detail.MarshalFrom(m) == nil {
				kept.Details = []*anypb.Any{detail}
			}
		}
	}
	b, _ := proto.Marshal(kept) // what cannot be written is gone: it has run, and must not run again
	return append([]byte{}, b...), nil
}

// replay returns the answer of a record.
func (i *idempotent) replay(ctx context.Context, b []byte) (any, error) {
	kept := new(spb.Status)
	err := proto.Unmarshal(b, kept)
	_ = grpc.SetHeader(ctx, metadata.Pairs("idempotency-replayed", "true")) // fails outside of a server
	if err == nil && kept.GetCode() != int32(codes.OK) {
		return nil, status.FromProto(kept).Err()
	}
	if err == nil && len(kept.GetDetails()) == 1 {
		var m proto.Message
		if m, err = kept.GetDetails()[0].UnmarshalNew(); err == nil {
			return m, nil
		}
	}
	err = errors.Join(fmt.Errorf("%w: it cannot be read", guard.ErrResultGone), err)
	return nil, answer(ctx, i.rule, httpguard.BlameKey(err))
}
