package lockmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// Idempotent carries out each call of procedure once, by its header
// Idempotency-Key or [rpcopt.WithIdempotencyKey]. The answer is kept for ttl. A
// call that comes again gets it, with the header Idempotency-Replayed. One that
// comes while the first runs waits for it, for at most MaxWait. Response is the
// response message of the procedure:
//
//	lockmw.Idempotent[pb.BuyResponse](g, pbconnect.StockBuyProcedure, tenant, 24*time.Hour)
//
// scope says who calls, such as the user or the tenant. Equal keys of two
// scopes have nothing to do with each other. Idempotent panics without a scope,
// if ttl is less than 1 ms, if procedure is no full name, and if Response is no
// message. A nil g is the default guard. Its store must keep results, see
// [guard.Once].
//
// The handler runs under a lease, as in [Key]. Kept are responses, and errors
// with InvalidArgument, NotFound, AlreadyExists, FailedPrecondition,
// OutOfRange, PermissionDenied and Unimplemented, unless they have a RetryInfo
// or are errors of guard. After the others the next call runs the handler. With
// [guard.WithAtMostOnce] it does so only after Unauthenticated, a RetryInfo and
// [guard.NothingDone]. Headers and trailers are not kept.
//
// A key that comes with another message gets InvalidArgument and
// IDEMPOTENCY_KEY_REUSED. Messages are compared as this program writes them.
// Protobuf promises the same bytes for the same message only within one binary.
// While a release with other fields is rolled out, a call that comes again may
// be refused so. The call never runs twice for that reason.
//
// A key whose answer was longer than [guard.WithResultLimit] gets
// FailedPrecondition and IDEMPOTENCY_ANSWER_GONE.
//
// The procedure must be unary. A stream with such a rule ends with Internal,
// and its handler does not run. [Verify] finds it before. To lock the procedure
// too, put the rule of the lock into a second interceptor inside.
func Idempotent[Response any](
	g *guard.Guard, procedure string, scope func(context.Context) (string, error), ttl time.Duration,
	opts ...rpcopt.IdempotentOption,
) Rule {
	none, ok := any(new(Response)).(proto.Message)
	httpguard.PanicIf(!ok, "Idempotent with %T, which is no response message", *new(Response))
	r := rpcguard.NewIdempotent(g, procedure, scope, ttl, rpcguard.Answers{
		Names: func(_ context.Context, req any) []string {
			return req.(connect.AnyRequest).Header().Values("Idempotency-Key")
		},
		Message: func(req any) any { return req.(connect.AnyRequest).Any() },
		Text:    text, Record: record[Response], Replay: replay[Response], Error: answer,
	}, rpcguard.SettingsOf(rpcguard.Settings{}, opts))
	return Rule{r, none}
}

// text writes messages as this binary does.
var text = rpcguard.TextOf(proto.MarshalOptions{Deterministic: true}.Marshal)

// record returns what is kept of an answer: a status, and in place of an error
// the response as its only detail. An empty record says that there was an
// answer.
func record[Response any](_ context.Context, resp any, own error) ([]byte, error) {
	kept := new(spb.Status)
	if own != nil {
		var err error
		if kept, err = statusOf(own); err != nil {
			return nil, err
		}
	} else if m, ok := resp.(connect.AnyResponse).Any().(*Response); ok {
		detail := new(anypb.Any)
		if detail.MarshalFrom(any(m).(proto.Message)) == nil {
			kept.Details = []*anypb.Any{detail}
		}
	}
	b, _ := proto.Marshal(kept) // what cannot be written is gone: it has run, and must not run again
	return append([]byte{}, b...), nil
}

// statusOf returns what is kept of an error.
func statusOf(own error) (*spb.Status, error) {
	e := (*connect.Error)(nil)
	if !errors.As(own, &e) {
		return nil, rpcguard.ErrNotForKeeping
	}
	kept := &spb.Status{Code: int32(e.Code()), Message: e.Message()}
	again, ours := false, false
	for _, d := range e.Details() {
		switch v, _ := d.Value(); v := v.(type) {
		case *errdetails.RetryInfo:
			again = true
		case *errdetails.ErrorInfo:
			ours = ours || v.GetDomain() == Domain
		}
		kept.Details = append(kept.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	if err := rpcguard.Kept(uint32(e.Code()), again, ours); err != nil {
		return nil, err
	}
	return kept, nil
}

// replay returns the answer of a record.
func replay[Response any](_ context.Context, b []byte) (any, error) {
	kept := new(spb.Status)
	err := proto.Unmarshal(b, kept)
	switch {
	case err == nil && kept.GetCode() != 0:
		e := connect.NewError(connect.Code(kept.GetCode()), errors.New(kept.GetMessage()))
		for _, detail := range kept.GetDetails() {
			add(e, detail)
		}
		e.Meta().Set("Idempotency-Replayed", "true")
		return nil, e
	case err == nil && len(kept.GetDetails()) == 1:
		m := new(Response)
		if err = kept.GetDetails()[0].UnmarshalTo(any(m).(proto.Message)); err == nil {
			resp := connect.NewResponse(m)
			resp.Header().Set("Idempotency-Replayed", "true")
			return resp, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%w: it cannot be read", guard.ErrResultGone), err)
}
