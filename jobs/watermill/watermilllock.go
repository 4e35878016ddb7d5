package watermilllock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/jobguard"
)

// Option changes one setting of [Key].
type Option func(*jobguard.Settings)

// WithWait lets a message wait for its key for at most d before it is nacked or
// dropped. Its subscriber waits with it. The default is 0. [Key] panics if d is
// below 1 ms, but not 0.
func WithWait(d time.Duration) Option { return func(s *jobguard.Settings) { s.Wait = d } }

// WithDrop acks a message whose key is held, so it never comes back. The guard
// logs that at level Info. It is for messages that ask for work which the holder
// does anyway, and for duplicates. A message is not dropped because the store
// gives no answer.
//
// The key of a worker that died is held until its TTL is over. Its message is
// lost if the broker gives it back before. So MaxIdleTime of Redis Streams must
// be longer than MaxHold and the TTL together.
func WithDrop() Option { return func(s *jobguard.Settings) { s.Drop = true } }

// Key returns a middleware that runs the handler while it holds the key that
// the given function makes of the message. The function must make the key with
// guard.Key, never by concatenation. Meanwhile the message's context is that of
// the lease. The middleware makes one attempt, and does not wait unless
// [WithWait] says so.
//
// A nil g is the default guard, looked up at each message. For other settings
// pass g.With(...). Key panics if key is nil.
//
// For a message that does not get its key the middleware returns an error that
// [IsFailure] does not count, and the router nacks it. The error Is
// [guard.ErrNotAcquired], [guard.ErrUnavailable] or [guard.ErrClosed], and the
// handler has not run. The message's metadata then has a delay. If such a
// message is back too soon, the middleware blocks until its time has come.
//
// An empty key is [guard.ErrInvalidKey], and a lost lease is
// [guard.ErrLeaseLost]. The handler's messages are not published then. The
// middleware is safe for concurrent use.
func Key(g *guard.Guard, key func(*message.Message) string, opts ...Option) message.HandlerMiddleware {
	if key == nil {
		panic("watermilllock: the key function is nil")
	}
	s := jobguard.Apply(opts)
	k := &keyed{guard: s.Guard(g), key: key, drop: s.Drop}
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) { return k.handle(msg, next) }
	}
}

type keyed struct {
	guard *guard.Guard
	key   func(*message.Message) string
	drop  bool
	times jobguard.LongTimes
}

func (k *keyed) handle(msg *message.Message, next message.HandlerFunc) ([]*message.Message, error) {
	if err := untilDue(msg); err != nil {
		return nil, err
	}
	outer := msg.Context()
	k.times.Warn(outer, k.guard, message.HandlerNameFromCtx(outer), "shorten middleware.Timeout, or give the "+
		"guard WithMaxHold")
	var made []*message.Message
	var own error // the handler's
	key := k.key(msg)
	err := jobguard.Do(outer, k.guard, key, func(ctx context.Context) error {
		msg.SetContext(ctx)
		defer msg.SetContext(outer) // a middleware before this one may call it again
		made, own = next(msg)
		return own
	})
	switch refused := (*jobguard.RefusedError)(nil); {
	case err != nil && own == nil && guard.Ran(err): // the lease is lost
		return nil, err
	case guard.Ran(err) || !errors.As(err, &refused):
		return made, err
	case k.drop && refused.Held():
		k.guard.Logger().LogAttrs(outer, slog.LevelInfo, "guard: message dropped: another holder has its key",
			append(jobguard.About(k.guard, key, err), slog.String("message", msg.UUID))...)
		return nil, nil
	default:
		putOff(msg, refused.After)
		return nil, err
	}
}

// IsFailure reports whether err counts against a message. It does not if the
// message's key was held or the store gave no answer, because the handler has
// not run. IsFailure is safe for concurrent use.
func IsFailure(err error) bool {
	refused := (*jobguard.RefusedError)(nil)
	return err != nil && !errors.As(err, &refused)
}
