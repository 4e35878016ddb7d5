package lockmw_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	lockmw "github.com/go-lockguard/guard/middleware/connect"
)

// answers is a handler that returns err.
func answers(err error) handler { return func(context.Context, string) error { return err } }

// queueFull is a handler that makes an answer of a refusal of its own.
func queueFull(ctx context.Context, _ string) error { return lockmw.Error(ctx, guard.ErrQueueFull) }

// A row is a call and what its client sees.
type row struct {
	procedures []string     // those of every if there are none
	sku        string       // "s3cret" if it is empty
	handler    handler      // done if it is nil
	held, down bool         // the key is held by another process, the store is down
	code       connect.Code // 0 is success
	reason     string
	retry      bool
}

func table() map[string]row {
	const internal = connect.CodeInternal
	unary, odd := []string{buy}, []string{confuse, muddle}
	own := connect.NewError(connect.CodeFailedPrecondition, guard.ErrNotAcquired)
	return map[string]row{
		"free": {},
		"held": {held: true, code: connect.CodeAborted, reason: "LOCK_HELD", retry: true},
		"held, two routes": {
			procedures: []string{price}, held: true, code: connect.CodeAborted, reason: "LOCK_HELD", retry: true,
		},
		"no rule":    {procedures: []string{look}, held: true},
		"store down": {down: true, code: connect.CodeUnavailable, reason: "LOCK_UNAVAILABLE", retry: true},
		"no key":     {sku: "-", code: connect.CodeInvalidArgument, reason: "LOCK_KEY_INVALID"},
		"key too long": {
			sku: strings.Repeat("s3cret", 20_000), code: connect.CodeInvalidArgument, reason: "LOCK_KEY_INVALID",
		},
		"another type":    {procedures: odd, code: internal, reason: "LOCK_MISCONFIGURED"},
		"a formatted key": {procedures: []string{botch}, code: internal, reason: "LOCK_MISCONFIGURED"},
		"its own error":   {handler: answers(errors.New("own")), code: connect.CodeUnknown},
		"a refusal of its own": {
			handler: answers(&guard.HeldError{Key: "s3cret"}), code: internal, reason: "LOCK_HELD",
		},
		"a refusal with a code of its own": {handler: answers(own), code: connect.CodeFailedPrecondition},
		"a refusal, by Error":              {handler: queueFull, code: internal, reason: "LOCK_QUEUE_FULL"},
		"a refusal without a rule, by Error": {
			procedures: []string{look}, handler: queueFull,
			code: connect.CodeResourceExhausted, reason: "LOCK_QUEUE_FULL",
		},
		"a loss with a code of its own": {
			handler: answers(connect.NewError(connect.CodeUnavailable, guard.ErrLeaseLost)),
			code:    internal, reason: "LOCK_LOST",
		},
		"a deadline's": {
			handler: answers(errors.Join(guard.ErrNotAcquired, context.DeadlineExceeded)), procedures: unary,
			code: connect.CodeDeadlineExceeded, reason: "LOCK_WAIT_ABORTED",
		},
	}
}

func TestTheTable(t *testing.T) {
	g := guardtest.New(t, guard.WithMaxWait(0), quiet)
	var h handler
	s := serve(t, func(ctx context.Context, sku string) error { return h(ctx, sku) }, rules(g.Guard)...)
	for name, r := range table() {
		if h = r.handler; h == nil {
			h = done
		}
		if len(r.procedures) == 0 {
			r.procedures = every
		}
		undo := func() {}
		switch {
		case r.held:
			undo = g.Hold(guard.Key("stock", "s3cret"))
		case r.down:
			undo = g.Break()
		}
		for _, procedure := range r.procedures {
			for protocol, opts := range protocols {
				what := protocol + procedure + ", " + name
				err := call(t.Context(), s, procedure, cmp.Or(r.sku, "s3cret"), opts...)
				if r.code != 0 {
					want(t, what, err, r.code, r.reason, r.retry)
				} else if err != nil {
					t.Errorf("%s: got %v", what, err)
				}
			}
		}
		undo()
	}
}
