package lockmw

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// Idempotent carries out each call of method once, by its metadata
// idempotency-key or [rpcopt.WithIdempotencyKey]. The answer is kept for ttl. A
// call that comes again gets it, with the header idempotency-replayed. One that
// comes while the first runs waits for it, for at most MaxWait.
//
// scope says who calls, such as the user or the tenant. Equal keys of two
// scopes have nothing to do with each other. Idempotent panics without a scope,
// if ttl is less than 1 ms, and if method is no full name. A nil g is the
// default guard. Its store must keep results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Kept are answers with OK,
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION,
// OUT_OF_RANGE, PERMISSION_DENIED and UNIMPLEMENTED, unless they have a
// RetryInfo or are errors of guard. After the others the next call runs the
// handler. With [guard.WithAtMostOnce] it does so only after UNAUTHENTICATED, a
// RetryInfo and [guard.NothingDone]. Headers and trailers are not kept.
//
// A key that comes with another message gets INVALID_ARGUMENT and
// IDEMPOTENCY_KEY_REUSED. Messages are compared as this program writes them.
// Protobuf promises the same bytes for the same message only within one binary,
// and fields that a binary does not know stand last in what it writes. While a
// release with other fields, or another version of protobuf, is rolled out, a
// call that comes again may be refused so. The call never runs twice for that
// reason.
//
// A key whose answer was longer than [guard.WithResultLimit] gets
// FAILED_PRECONDITION and IDEMPOTENCY_ANSWER_GONE.
//
// The method must be unary: [Stream] panics for such a rule. To lock the method
// too, put the rule of the lock into a second interceptor inside.
func Idempotent(
	g *guard.Guard, method string, scope func(context.Context) (string, error), ttl time.Duration,
	opts ...rpcopt.IdempotentOption,
) Rule {
	return Rule{rpcguard.NewIdempotent(g, method, scope, ttl, rpcguard.Answers{
		Names: func(ctx context.Context, _ any) []string {
			return metadata.ValueFromIncomingContext(ctx, "idempotency-key")
		},
		Text: text, Record: record, Replay: replay, Error: answer,
	}, rpcguard.SettingsOf(rpcguard.Settings{}, opts))}
}

// text writes messages as this binary does.
var text = rpcguard.TextOf(proto.MarshalOptions{Deterministic: true}.Marshal)

// record returns what is kept of an answer: a status, and with code OK the
// response as its only detail. An empty record says that there was an answer.
func record(_ context.Context, resp any, own error) ([]byte, error) {
	s := status.Convert(own)
	again, ours := false, false
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			again = true
		case *errdetails.ErrorInfo:
			ours = ours || d.GetDomain() == Domain
		}
	}
	if err := rpcguard.Kept(uint32(s.Code()), again, ours); err != nil {
		return nil, err
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
func replay(ctx context.Context, b []byte) (any, error) {
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
	return nil, errors.Join(fmt.Errorf("%w: it cannot be read", guard.ErrResultGone), err)
}
