package rpcguard

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
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
	Names func(ctx context.Context, request any) []string

	// Message returns the message of a request; nil if they are the same.
	Message func(request any) any

	// Text returns a message as bytes, the same for equal messages.
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

// TextOf makes the Text of [Answers] of a function for messages of type M.
func TextOf[M any](marshal func(M) ([]byte, error)) func(message any) ([]byte, error) {
	return func(message any) ([]byte, error) {
		m, ok := message.(M)
		if !ok {
			return nil, WrongType(message)
		}
		return marshal(m)
	}
}

// ErrNotForKeeping ends a turn whose answer is not kept. Callers never see it.
var ErrNotForKeeping = errors.New("the answer is not one to keep")

// NewIdempotent returns a rule that carries out each call of method once for
// scope and the client's key, and keeps the answer for ttl. NewIdempotent
// panics if there is no scope, ttl is less than 1 ms, or method is no full
// name.
func NewIdempotent(
	g *guard.Guard, method string, scope func(context.Context) (string, error), ttl time.Duration, a Answers,
	s Settings,
) *Rule {
	httpguard.PanicIf(scope == nil, httpguard.NilScope)
	httpguard.CheckTTL(ttl)
	check(method, false)
	i := &idempotent{rule: &Rule{Guard: g, Method: method}, ttl: ttl, answers: a, replayed: s.Replayed}
	i.identity = httpguard.Identity[Call]{
		IdentityOptions: s.Identity, Whole: i.wholeCall,
		Scope:  func(c Call) (string, error) { return scope(c.ctx) },
		Header: func(c Call) []string { return a.Names(c.ctx, c.request) },
	}
	if chosen := i.identity.Values; chosen != nil { // methods have answers of different types
		i.identity.Values = append(slices.Clip(chosen), func(Call) (string, error) { return method, nil })
	}
	i.rule.Serve = i.serve
	return i.rule
}

// idempotent is a rule that keeps answers. idempotent is safe for concurrent
// use.
type idempotent struct {
	rule     *Rule
	identity httpguard.Identity[Call]
	ttl      time.Duration
	answers  Answers
	replayed func(context.Context) // called before each replay; nil: nobody is

	interrupted sync.Map // the keys that were logged so
}

// serve runs handler once for a key, and returns its answer for the other
// calls.
func (i *idempotent) serve(
	ctx context.Context, g *guard.Guard, request any, handler func(context.Context) (any, error),
) (resp any, err error) {
	c := Call{ctx, request, request}
	if i.answers.Message != nil {
		c.message = i.answers.Message(request)
	}
	key, mark, err := i.identity.Of(c)
	if errors.Is(err, httpguard.ErrPasses) {
		return handler(ctx)
	}
	if err != nil {
		return nil, i.answers.Error(ctx, i.rule, refused(ctx, err))
	}
	called, inside, o := false, new(refusal), guard.OnceOptions{TTL: i.ttl, Fingerprint: mark}
	var own error
	result, err := g.OnceBytes(ctx, key, o, func(ctx context.Context) ([]byte, error) {
		called = true
		noteRefusal(ctx, false)
		resp, own = handler(context.WithValue(ctx, refusalKey{}, inside))
		if own != nil && (inside.noted || errnote.Is(own, errnote.NothingDone(true))) {
			own = errnote.Bare(own)
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
			if i.replayed != nil {
				i.replayed(ctx)
			}
			return resp, err
		}
	}
	if errors.Is(err, guard.ErrInterrupted) {
		i.logInterrupted(ctx, g, key)
	}
	if errors.Is(err, guard.ErrOtherPayload) || errors.Is(err, guard.ErrResultGone) ||
		errors.Is(err, guard.ErrInterrupted) {
		err = httpguard.BlameKey(err)
	}
	return nil, i.answers.Error(ctx, i.rule, refused(ctx, err))
}

// logInterrupted logs once for a key that its calls are refused until somebody
// forgets the mark of the first one.
func (i *idempotent) logInterrupted(ctx context.Context, g *guard.Guard, key string) {
	if _, told := i.interrupted.LoadOrStore(key, nil); !told {
		const message = httpguard.Interrupted
		g.Logger().WarnContext(ctx, message, "guard", g.Name(), "method", i.rule.Method, "key", key)
	}
}

// told returns the error of a handler as clients see it.
func (i *idempotent) told(ctx context.Context, own error) error {
	if _, ours := outcome.Of(ctx, own); own != nil && ours {
		return i.answers.Error(ctx, i.rule, errnote.With(own, errnote.Ran(true)))
	}
	return own
}

// wholeCall returns a hash of the method and the message of a call.
func (i *idempotent) wholeCall(c Call) ([]byte, error) {
	text, err := i.answers.Text(c.message)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(i.rule.Method+"\n"), text...))
	return sum[:16], nil
}
