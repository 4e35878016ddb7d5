package watermilllock

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/go-lockguard/guard"
)

// NewExpiringKeyRepository returns the Repository of a middleware.Deduplicator
// that all processes share. A key is a duplicate for ttl after it was first seen
// anywhere, also if the process that saw it ends.
//
// Each IsDuplicate blocks for one attempt. Its error Is [guard.ErrUnavailable]
// if nobody can tell, [guard.ErrClosed], or [guard.ErrInvalidKey] if the key is
// empty. Then the message is nacked. While the store is away messages are
// neither dropped nor worked on. The repository is safe for concurrent use.
//
// A process keeps each key that it saw first in its memory for ttl. A nil g is
// the default guard, looked up at each message. NewExpiringKeyRepository panics
// if ttl is not between 100 ms and 24 days, in whole milliseconds.
//
// Deduplicator remembers a message before its handler runs. A message whose
// handler fails, or whose worker dies, comes back as a duplicate and is lost.
// To remember only what was done, use [Key] with [WithDrop] and a guard of
// guard.WithMinHold(ttl, guard.OnSuccess). That ends with the TTL of the guard
// if the process ends sooner.
func NewExpiringKeyRepository(g *guard.Guard, ttl time.Duration) middleware.ExpiringKeyRepository {
	return seen{g.With(guard.WithTTL(ttl), guard.WithMinHold(ttl), guard.WithoutRenewal())}
}

type seen struct{ guard *guard.Guard }

// IsDuplicate implements [middleware.ExpiringKeyRepository].
func (s seen) IsDuplicate(ctx context.Context, key string) (duplicate bool, err error) {
	first, err := s.guard.TryDo(ctx, guard.Key("seen", key), func(context.Context) error { return nil })
	if first {
		return false, nil // whatever became of the key since
	}
	return err == nil, err
}
