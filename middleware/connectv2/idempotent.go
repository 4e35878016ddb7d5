package lockmw

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/rpcguard"
	"github.com/go-lockguard/guard/middleware/rpcopt"
)

// Idempotent carries out each call of procedure once, by its header
// Idempotency-Key or [rpcopt.WithIdempotencyKey]. The answer is kept for ttl. A
// call that comes again gets it, with the header Idempotency-Replayed. One that
// comes while the first runs waits for it, for at most MaxWait. Request and
// Response are the messages of the procedure:
//
//	lockmw.Idempotent[*pb.BuyRequest, *pb.BuyResponse](g, pbconnect.StockBuyProcedure, tenant, 24*time.Hour)
//
// scope says who calls, such as the user or the tenant. Equal keys of two
// scopes have nothing to do with each other. Idempotent panics without a scope,
// if ttl is less than 1 ms, and if procedure is no full name. A nil g is the
// default guard. Its store must keep results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Kept are responses, and errors
// with InvalidArgument, NotFound, AlreadyExists, FailedPrecondition,
// OutOfRange, PermissionDenied and Unimplemented, unless they have a RetryInfo,
// are errors of guard or came from another server. After the others the next
// call runs the handler. With [guard.WithAtMostOnce] it does so only after
// Unauthenticated, a RetryInfo and [guard.NothingDone]. Headers and trailers
// are not kept.
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
func Idempotent[Request, Response proto.Message](
	g *guard.Guard, procedure string, scope func(context.Context) (string, error), ttl time.Duration,
	opts ...rpcopt.IdempotentOption,
) Rule {
	var none Response
	r := rpcguard.NewIdempotent(g, procedure, scope, ttl, rpcguard.Answers{
		Names: names, Message: func(req any) any { return req },
		Text: text, Record: record[Response], Replay: replay[Response], Error: answer,
	}, rpcguard.SettingsOf(rpcguard.Settings{}, opts))
	r.Type = reflect.TypeFor[Request]()
	return Rule{r, none.ProtoReflect().New().Interface()}
}

// names returns the idempotency keys of a call.
func names(ctx context.Context, _ any) []string {
	info, _ := connect.CallInfoForServerContext(ctx)
	if info == nil {
		return nil
	}
	return info.RequestHeader().Values("Idempotency-Key")
}

// text writes messages as this binary does.
var text = rpcguard.TextOf(proto.MarshalOptions{Deterministic: true}.Marshal)

// record returns what is kept of an answer: a status, and in place of an error
// the response as its only detail. An empty record says that there was an
// answer.
func record[Response proto.Message](_ context.Context, resp any, own error) ([]byte, error) {
	kept := new(spb.Status)
	if own != nil {
		var err error
		if kept, err = statusOf(own); err != nil {
			return nil, err
		}
	} else if m, ok := resp.(Response); ok {
		detail := new(anypb.Any)
		if detail.MarshalFrom(m) == nil {
			kept.Details = []*anypb.Any{detail}
		}
	}
	b, _ := proto.Marshal(kept) // what cannot be written is gone: it has run, and must not run again
	return append([]byte{}, b...), nil
}

// statusOf returns what is kept of an error. Another server's code is not the
// one that the client gets.
func statusOf(own error) (*spb.Status, error) {
	e := (*connect.Error)(nil)
	if !errors.As(own, &e) || e.IsRemote() {
		return nil, rpcguard.ErrNotForKeeping
	}
	kept := &spb.Status{Code: int32(e.Code()), Message: e.Message()}
	again, ours := false, false
	for _, d := range e.Details() {
		m, _ := connectproto.UnmarshalErrorDetail(d)
		switch m := m.(type) {
		case *errdetails.RetryInfo:
			again = true
		case *errdetails.ErrorInfo:
			ours = ours || m.GetDomain() == Domain
		}
		kept.Details = append(kept.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: d.Value})
	}
	if err := rpcguard.Kept(uint32(e.Code()), again, ours); err != nil {
		return nil, err
	}
	return kept, nil
}

// replay returns the answer of a record.
func replay[Response proto.Message](ctx context.Context, b []byte) (any, error) {
	kept := new(spb.Status)
	err := proto.Unmarshal(b, kept)
	switch {
	case err == nil && kept.GetCode() != 0:
		e := connect.NewError(connect.Code(kept.GetCode()), kept.GetMessage())
		for _, detail := range kept.GetDetails() {
			e = with(e, detail)
		}
		setHeader(ctx, "Idempotency-Replayed", "true")
		return nil, e
	case err == nil && len(kept.GetDetails()) == 1:
		var none Response
		m := none.ProtoReflect().New().Interface()
		if err = kept.GetDetails()[0].UnmarshalTo(m); err == nil {
			setHeader(ctx, "Idempotency-Replayed", "true")
			return m, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%w: it cannot be read", guard.ErrResultGone), err)
}
