package httpguard

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence/sqlresult"
	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/keyfunc"
)

// HeldExchange is an [Exchange] whose Next holds the answer back. Its Keys give
// the scope of the request, after all that Value has to find. Only
// [Idempotent.Serve] calls its methods, one at a time.
//
// An answer is final when the store or the database has said so, whatever the
// framework's writer believes. Begun must report what the client may have,
// which a [Capture] knows, and not what the framework has noted.
type HeldExchange interface {
	Exchange

	Value(f keyfunc.Func) (string, error) // of the request, with its path parameters
	Held() Answer                         // what Next has held back
	Whole() bool                          // whether Held is all of an answer that has begun
	Send()                                // sends what Next has held back
	Replay(Answer)                        // sends the answer of an earlier request
}

// Idempotent is the state that all requests of one idempotent middleware share.
// Idempotent is safe for concurrent use.
type Idempotent struct {
	*Lock

	identity Identity[HeldExchange]
	ttl      time.Duration
	headers  []string           // as in Settings
	once     sqlresult.OnceFunc // as in Settings
	replayed func(HeldExchange) // as in Config
}

// WholeBody reports whether the whole body makes the fingerprint. Otherwise a
// body is read as for a lock.
func (i *Idempotent) WholeBody() bool { return i.identity.Values == nil }

// Serve runs x.Next once for each scope, key and ttl, and replays its answer to
// the other requests. Serve returns the error that the adapter must answer, as
// [Lock.Serve] does, or [ErrPasses] if the adapter must serve the request
// without a lease. Serve blocks for the arrival of the body too.
//
// Nothing that x.Next holds back is sent before its record is confirmed. A
// panic and a Goexit pass through after the release, and nothing is kept.
func (i *Idempotent) Serve(x HeldExchange) error {
	i.begin(x)
	key, mark, err := i.identity.Of(x)
	if err == nil && !i.WholeBody() {
		err = i.readAhead(x.Request())
	}
	if errors.Is(err, ErrPasses) {
		return err
	}
	if err != nil {
		err = overLimit(err)
		i.logKeyFunc(x, err)
		return Refused(err)
	}
	ran, inner := false, new(ctxkey.Refusal)
	ctx := ctxkey.WithRefusal(x.Request().Context(), inner)
	o := guard.OnceOptions{TTL: i.ttl, Fingerprint: mark}
	result, err := i.keep(ctx, key, o, func(ctx context.Context) ([]byte, error) {
		ran = true
		l, _ := ctx.Value(ctxkey.Key).(*guard.Lease)
		x.Next(l)
		return i.record(x, inner)
	})
	switch {
	case ran && i.once == nil:
		return i.finish(x, key, err)
	case i.once != nil && (err != nil || ran):
		if done, err := i.committed(x, key, ran, result, err); done && err != nil && !ran {
			return Refused(err)
		} else if done {
			return err
		}
	}
	var kept Answer
	if err == nil {
		kept, err = decodeAnswer(result.Record)
	}
	switch {
	case err == nil:
		if i.replayed != nil {
			i.replayed(x)
		}
		x.Replay(kept)
		return nil
	case errors.Is(err, guard.ErrInterrupted):
		i.logInterrupted(x, key)
		return BlameKey(err)
	case errors.Is(err, guard.ErrOtherPayload), errors.Is(err, guard.ErrResultGone):
		return BlameKey(err)
	}
	return Refused(err)
}

// errNotForKeeping ends a turn whose answer is not kept. Callers never see it.
var errNotForKeeping = errors.New("the answer is not one to keep")

// record returns what is kept of the answer that x.Next has given. Its error
// tells the guard that nothing is, and perhaps that nothing was done.
func (i *Idempotent) record(x HeldExchange, inner *ctxkey.Refusal) ([]byte, error) {
	ended, clientLeft := endOf(x.Request().Context())
	switch begun := x.Begun() && (!x.Whole() || ended); {
	case begun && i.once != nil && x.Failed():
		return nil, errNotForKeeping // and the work is rolled back, of which a timeout may have seen a half
	case begun:
		return goneAnswer(), nil
	}
	a := x.Held()
	if a.Status == 0 {
		i.noteLeft(x)
	}
	noted, ran := inner.Noted(a.Status)
	switch {
	case noted && ran:
		return nil, errNotForKeeping
	case noted, a.refused(), a.Unrouted:
		return nil, guard.NothingDone(errNotForKeeping)
	case a.failed(), a.Silent && ended && !clientLeft:
		return nil, errNotForKeeping
	case a.cut(), a.Silent && clientLeft:
		return i.ending(a, goneAnswer()) // nobody may take it for the whole, or knows what the handler has done
	}
	return i.ending(a, a.encode(i.headers))
}

// endOf reports whether nobody waits for the answer any longer, and whether
// that is because the client has left. All other ends are deadlines, or of a
// middleware.
func endOf(ctx context.Context) (ended, clientLeft bool) {
	end := context.Cause(ctx)
	return end != nil, errors.Is(end, context.Canceled)
}

// finish sends what x.Next has held back. If the lease was lost, it returns the
// loss instead, because another request may have got another answer.
func (i *Idempotent) finish(x HeldExchange, key string, err error) error {
	lost, unclear := errors.Is(err, guard.ErrLeaseLost), errors.Is(err, guard.ErrNotRecorded)
	switch {
	case lost && !x.Begun():
		return err
	case lost:
		i.logLost(x, Keys{one: key}, err)
	case unclear:
		i.logNotKept(x, key, err)
	}
	if !x.Begun() {
		x.Send()
	}
	return nil
}
