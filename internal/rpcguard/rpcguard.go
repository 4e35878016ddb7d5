// Package rpcguard leads remote calls through guarded methods, whatever the
// framework. Its rules define which methods are locked, and by which key.
package rpcguard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/keyfunc"
	"github.com/go-lockguard/guard/outcome"
)

// Domain is the domain of the ErrorInfo in an answer.
const Domain = "guard"

// Rule defines the key by which the calls of one method are locked. Make it
// with [New]. Rule is safe for concurrent use.
type Rule struct {
	Guard  *guard.Guard // nil means the default guard
	Method string
	Key    func(ctx context.Context, message any) (string, error)
	Keys   func(ctx context.Context, message any) ([]string, error) // instead of Key if not nil
	Type   reflect.Type                                             // of the messages that Key takes

	// Serve serves a unary call itself with g, instead of Key and Keys, if it is
	// not nil. [NewIdempotent] makes such a rule.
	Serve func(ctx context.Context, g *guard.Guard, message any,
		handler func(context.Context) (any, error)) (any, error)

	Unary, Stream atomic.Bool // an interceptor was made with it, for [Rule.Problem]
	told          atomic.Bool // that it is misconfigured
}

// New returns a rule. New panics if method is no full name, or key is nil.
func New[M any](g *guard.Guard, method string, key func(ctx context.Context, message M) (string, error)) *Rule {
	check(method, key == nil)
	return &Rule{
		Guard: g, Method: method, Type: reflect.TypeFor[M](),
		Key: func(ctx context.Context, message any) (string, error) {
			m, ok := message.(M)
			if !ok {
				return "", WrongType(message)
			}
			name, err := key(ctx, m)
			if err == nil && name == "" {
				err = ErrNoKey
			}
			return name, err
		},
	}
}

// NewSeveral is [New] for a function that makes all keys of a call.
func NewSeveral[M any](
	g *guard.Guard, method string, keys func(ctx context.Context, message M) ([]string, error),
) *Rule {
	check(method, keys == nil)
	return &Rule{
		Guard: g, Method: method, Type: reflect.TypeFor[M](),
		Keys: func(ctx context.Context, message any) ([]string, error) {
			m, ok := message.(M)
			if !ok {
				return nil, WrongType(message)
			}
			names, err := keys(ctx, m)
			if err == nil && (len(names) == 0 || slices.Contains(names, "")) {
				err = ErrNoKey
			}
			if err != nil {
				return nil, err
			}
			return keyfunc.Distinct(names)
		},
	}
}

// check panics if method is no full name, or its function is nil.
func check(method string, isNil bool) {
	_, _, full := split(method)
	httpguard.PanicIf(!full, "method %q is no full name like \"/shop.Stock/Buy\"", method)
	httpguard.PanicIf(isNil, httpguard.NilKeyFunc)
}

// ErrNoKey is the error of a call whose client has left the key out.
var ErrNoKey error = &keyfunc.Error{Source: "message", Err: keyfunc.ErrMissing}

// ErrStreams is the error of a stream with a rule of [NewIdempotent].
var ErrStreams = fmt.Errorf("%w: the procedure streams, and Idempotent is for unary ones", guard.ErrInvalidOption)

// WrongType returns the error of a rule for messages of another type.
func WrongType(message any) error {
	return &keyfunc.Error{Source: "message", Name: fmt.Sprintf("%T", message), Err: keyfunc.ErrNoSource}
}

// OfMessage makes a key function for [New] from one that gets only the message.
// OfMessage panics if key is nil.
func OfMessage[M any](key func(message M) string) func(context.Context, M) (string, error) {
	httpguard.PanicIf(key == nil, httpguard.NilKeyFunc)
	return func(_ context.Context, message M) (string, error) { return key(message), nil }
}

// Index returns the rules by their methods. Index panics if a method has two,
// or a rule was not made by New.
func Index[R any](rules []R, inner func(R) *Rule) map[string]*Rule {
	byMethod := make(map[string]*Rule, len(rules))
	for _, rule := range rules {
		r := inner(rule)
		httpguard.PanicIf(r == nil, "a rule was not made by Key, KeyFunc or KeysFunc")
		httpguard.PanicIf(byMethod[r.Method] != nil, "method %q has two rules", r.Method)
		byMethod[r.Method] = r
	}
	return byMethod
}

// Run runs handler under the lease of the message's key, or the leases of its
// keys, as a verb of g does. Run blocks for the wait, at most MaxWait, and for
// handler.
func Run[T any](ctx context.Context, g *guard.Guard, r *Rule, message any,
	handler func(context.Context) (T, error),
) (T, error) {
	if r.Keys != nil {
		return runSeveral(ctx, g, r, message, handler)
	}
	key, err := r.Key(ctx, message)
	if err != nil {
		var none T
		return none, refused(ctx, err)
	}
	called := false
	resp, err := guard.Call(ctx, g, key, func(ctx context.Context) (T, error) {
		called = true
		noteRefusal(ctx, false)
		return handler(ctx)
	})
	if !called {
		err = refused(ctx, tooLong(err, key))
	}
	return resp, err
}

// runSeveral is [Run] for a rule with several keys.
func runSeveral[T any](ctx context.Context, g *guard.Guard, r *Rule, message any,
	handler func(context.Context) (T, error),
) (resp T, err error) {
	keys, err := r.Keys(ctx, message)
	if err != nil {
		return resp, refused(ctx, err)
	}
	called := false
	err = g.DoAll(ctx, keys, func(ctx context.Context) (err error) {
		called = true
		noteRefusal(ctx, false)
		resp, err = handler(ctx)
		return err
	})
	if !called {
		err = refused(ctx, tooLong(err, keys...))
	}
	return resp, err
}

// Acquire acquires the message's key. Acquire blocks for the wait, at most
// MaxWait. The rule must not have several keys.
func (r *Rule) Acquire(ctx context.Context, message any) (*guard.Lease, error) {
	key, err := r.Key(ctx, message)
	if err != nil {
		return nil, refused(ctx, err)
	}
	l, err := r.Guard.Acquire(ctx, key)
	if err != nil {
		return nil, refused(ctx, tooLong(err, key))
	}
	noteRefusal(ctx, false)
	return l, nil
}

// tooLong marks an error for a key that guard refuses as the client's error,
// because its value comes from the client. A key with "%!" comes from a key
// function that misuses fmt instead.
func tooLong(err error, keys ...string) error {
	misused := func(key string) bool { return strings.Contains(key, "%!") }
	if errors.Is(err, guard.ErrInvalidKey) && !slices.ContainsFunc(keys, misused) {
		return fmt.Errorf("%w: %w", keyfunc.ErrInvalid, err)
	}
	return err
}

// Log logs once that the rule is misconfigured, because the client is told no
// details of that.
func (r *Rule) Log(ctx context.Context, err error) {
	if o, _ := outcome.Of(ctx, err); o.Code == outcome.CodeMisconfigured && r.told.CompareAndSwap(false, true) {
		r.Guard.Logger().ErrorContext(ctx, "guard: the lock of a method is misconfigured",
			"guard", r.Guard.Name(), "method", r.Method, "error", err)
	}
}
