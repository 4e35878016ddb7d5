package lockmw

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-kratos/kratos/v3/errors"
	"github.com/go-kratos/kratos/v3/transport"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/internal/rpcguard"
)

// Idempotent carries out each call of operation once, by its header
// Idempotency-Key, which is metadata in gRPC, or by rpcopt.WithIdempotencyKey.
// The answer is kept for ttl. A call that comes again gets it, by either
// transport, with the header Idempotency-Replayed. One that comes while the
// first runs waits for it, as for the lock of [Key].
//
// scope says who calls, such as the user or the tenant. Equal keys of two
// scopes have nothing to do with each other. Idempotent panics without a scope,
// if ttl is less than 1 ms, and if operation is no full name. A nil g is the
// default guard. Its store must keep results, see [guard.Once].
//
// The handler runs under a lease, as in [Key]. Kept are replies, and errors
// with a code of 400 to 499. Not kept are errors with 401, 408, 425, 429 or
// 499, with a Retry-After, and of guard. After the others the next call runs
// the handler. With [guard.WithAtMostOnce] it does so only after 401, 408, 425,
// 429, a Retry-After and [guard.NothingDone]. Headers are not kept.
//
// A key that comes with another message gets 400 and IDEMPOTENCY_KEY_REUSED.
// Messages must be those of protobuf, and are compared as this program writes
// them. Protobuf promises the same bytes for the same message only within one
// binary. While a release with other fields is rolled out, a call that comes
// again may be refused so. The call never runs twice for that reason.
//
// A key whose answer was longer than [guard.WithResultLimit] gets 412 and
// IDEMPOTENCY_ANSWER_GONE. To lock the operation too, put the rule of the lock
// into a second [Server] inside.
func Idempotent(
	g *guard.Guard, operation string, scope func(context.Context) (string, error), ttl time.Duration,
	opts ...IdempotentOption,
) Rule {
	s := rpcguard.SettingsOf(defaults, opts)
	return Rule{rpcguard.NewIdempotent(g, operation, scope, ttl, rpcguard.Answers{
		Names: names, Text: text, Record: record, Replay: replay, Error: answer,
	}, s), httpguard.NewWaits(g, s.MaxWait)}
}

// names returns the values of the client's key.
func names(ctx context.Context, _ any) []string {
	tr, _ := transport.FromServerContext(ctx) // Server has found it
	return tr.RequestHeader().Values("Idempotency-Key")
}

// text writes messages as this binary does.
var text = rpcguard.TextOf(proto.MarshalOptions{Deterministic: true}.Marshal)

// The first byte of a record. An empty record says that there was an answer.
const (
	keptReply = 1 // a reply, as an Any
	keptError = 2 // a Status of Kratos
)

// record returns what is kept of an answer.
func record(ctx context.Context, resp any, own error) ([]byte, error) {
	if own != nil {
		return recordError(ctx, errors.FromError(own))
	}
	if m, ok := resp.(proto.Message); ok {
		kept := new(anypb.Any)
		if kept.MarshalFrom(m) == nil {
			return marshal(keptReply, kept), nil
		}
	}
	return []byte{}, nil // it has run, and must not run again
}

func recordError(ctx context.Context, own *errors.Error) ([]byte, error) {
	tr, _ := transport.FromServerContext(ctx)
	switch later := own.GetMetadata()["retry_after"] != "" || tr.ReplyHeader().Get("Retry-After") != ""; {
	case later, own.Code == http.StatusUnauthorized, own.Code == http.StatusRequestTimeout,
		own.Code == http.StatusTooEarly, own.Code == http.StatusTooManyRequests:
		return nil, guard.NothingDone(rpcguard.ErrNotForKeeping)
	case own.GetMetadata()["domain"] == Domain, own.Code < 400, own.Code >= 499:
		return nil, rpcguard.ErrNotForKeeping
	}
	return marshal(keptError, &own.Status), nil
}

// marshal returns the record of m, or the empty one if m cannot be written.
func marshal(kind byte, m proto.Message) []byte {
	if b, err := (proto.MarshalOptions{}).MarshalAppend([]byte{kind}, m); err == nil {
		return b
	}
	return []byte{}
}

// replay returns the answer of a record.
func replay(ctx context.Context, b []byte) (any, error) {
	reply, own, err := read(b)
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be read: %w", guard.ErrResultGone, err)
	}
	tr, _ := transport.FromServerContext(ctx)
	tr.ReplyHeader().Set("Idempotency-Replayed", "true")
	if own != nil {
		return nil, own
	}
	return reply, nil
}

var errUnreadable = errors.New(http.StatusInternalServerError, "", "another version has kept it, or it was no message")

// read returns the reply or the error of a record.
func read(b []byte) (reply proto.Message, own *errors.Error, err error) {
	if len(b) == 0 {
		return nil, nil, errUnreadable
	}
	switch b[0] {
	case keptReply:
		kept := new(anypb.Any)
		if err := proto.Unmarshal(b[1:], kept); err != nil {
			return nil, nil, err
		}
		reply, err = kept.UnmarshalNew()
		return reply, nil, err
	case keptError:
		own = new(errors.Error)
		return nil, own, proto.Unmarshal(b[1:], &own.Status)
	}
	return nil, nil, errUnreadable
}
