package rpcrule

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/httpguard"
	"github.com/go-lockguard/guard/outcome"
)

// Answers are what [NewIdempotent] must know of a framework. The functions are
// called at each call, and must be safe for concurrent use.
type Answers struct {
	// Names returns the values of idempotency-key that the client sent.
	Names func(ctx context.Context, message any) []string

	// Text returns the message of a call as bytes, the same for equal messages.
	Text func(message any) ([]byte, error)

	// Record returns what is kept of an answer. Otherwise its error is
	// [ErrNotForKeeping], or that as [guard.NothingDone]. own is the handler's
	// error as the client gets it.
	Record func(ctx context.Context, resp any, own error) ([]byte, error)

	// Replay returns the answer of a record, for the client to know as one. If
	// it cannot, its error is [guard.ErrResultGone].
	Replay func(ctx context.Context, record []byte) (any, error)

	// Error returns the framework's error for err.
	Error func(ctx context.Context, r *Rule, err error) error
}

// ErrNotForKeeping ends a turn whose answer is not kept. Callers never see it.
var ErrNotForKeeping = errors.New("the answer is not one to keep")

// NewIdempotent returns a rule that carries out each call of method once for
// scope and the client's key, and keeps the answer for ttl. NewIdempotent
// panics if there is no scope, ttl is less than 1 ms, or method is no full
// name.
func NewIdempotent(
	g *guard.Guard, method string, scope func(context.Context) (string, error), ttl time.Duration, a Answers,
) *Rule {
	if scope == nil {
		panic("lockmw: Idempotent without a scope, so one client would get the answers of another")
	}
	if ttl < time.Millisecond {
		panic(fmt.Sprintf("lockmw: Idempotent keeps answers for %v, want at least 1ms", ttl))
	}
	check(method, false)
	i := &idempotent{&Rule{Guard: g, Method: method}, scope, ttl, a}
	i.rule.Serve = i.serve
	return i.rule
}

// idempotent is a rule that keeps answers. idempotent is safe for concurrent
// use.
type idempotent struct {
	rule    *Rule
	scope   func(context.Context) (string, error)
	ttl     time.Duration
	answers Answers
}

// serve runs handler once for a key, and returns its answer for the other calls.
func (i *idempotent) serve(
	ctx context.Context, g *guard.Guard, message any, handler func(context.Context) (any, error),
) (resp any, err error) {
	key, mark, err := i.identify(ctx, message)
	if err != nil {
		return nil, i.answers.Error(ctx, i.rule, err)
	}
	called, inside, o := false, new(refusal), guard.OnceOptions{TTL: i.ttl, Fingerprint: mark}
	var own error
	result, err := g.OnceBytes(ctx, key, o, func(ctx context.Context) ([]byte, error) {
		called = true
		resp, own = handler(context.WithValue(ctx, refusalKey{}, inside))
		if own != nil && inside.noted {
			return nil, guard.NothingDone(ErrNotForKeeping)
		}
		own = i.told(ctx, own)
		return i.answers.Record(ctx, resp, own)
	})
	switch {
	case called && errors.Is(err, guard.ErrLeaseLost):
		return nil, i.answers.Error(ctx, i.rule, err)
	case called && errors.Is(err, guard.ErrNotRecorded):
		g.Logger().WarnContext(ctx, "guard: the store did not confirm that an answer was kept",
			"guard", g.Name(), "method", i.rule.Method, "key_hash", guard.KeyHash(key), "error", err)
		return resp, own
	case called:
		return resp, own
	case err == nil:
		resp, err = i.answers.Replay(ctx, result.Record)
		if !errors.Is(err, guard.ErrResultGone) {
			return resp, err
		}
	}
	if errors.Is(err, guard.ErrOtherPayload) || errors.Is(err, guard.ErrResultGone) ||
		errors.Is(err, guard.ErrInterrupted) {
		err = httpguard.BlameKey(err)
	}
	return nil, i.answers.Error(ctx, i.rule, err)
}

// told returns the error of a handler as clients see it.
func (i *idempotent) told(ctx context.Context, own error) error {
	if _, ours := outcome.Of(ctx, own); own != nil && ours {
		return i.answers.Error(ctx, i.rule, errnote.With(own, errnote.Ran(true)))
	}
	return own
}

// identify returns the guard's key for a call, and the fingerprint of the call.
func (i *idempotent) identify(ctx context.Context, message any) (key string, fingerprint []byte, err error) {
	name, err := httpguard.IdempotencyKey(i.answers.Names(ctx, message))
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
	text, err := i.answers.Text(message)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(append([]byte(i.rule.Method+"\n"), text...))
	return httpguard.IdempotentKey(scope, name), sum[:16], nil
}
