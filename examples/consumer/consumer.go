package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
)

const (
	stream = "orders:events"
	group  = "workers"
)

// A consumer works on the messages of a Redis stream that its group has not yet
// seen to, one at a time for each order.
type consumer struct {
	rdb   redis.UniversalClient
	guard *guard.Guard
	name  string        // of this consumer within the group
	again time.Duration // after which a message that nobody has confirmed is delivered again
	work  func(ctx context.Context, m redis.XMessage) error
}

// run consumes until ctx ends. One message after the other: start it several
// times for more.
func (c consumer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		messages, err := c.next(ctx)
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot read", "error", err)
			pause(ctx, time.Second)
		}
		for _, m := range messages {
			c.handle(ctx, m)
		}
	}
	return ctx.Err()
}

// next returns a message that was left over, or a new one, or none after a
// while.
func (c consumer) next(ctx context.Context) ([]redis.XMessage, error) {
	left, _, err := c.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: stream, Group: group, Consumer: c.name, MinIdle: c.again, Start: "0", Count: 1,
	}).Result()
	if err != nil || len(left) > 0 {
		return left, err
	}
	fresh, err := c.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: c.name, Streams: []string{stream, ">"}, Count: 1, Block: 100 * time.Millisecond,
	}).Result()
	if errors.Is(err, redis.Nil) || len(fresh) == 0 {
		return nil, nil
	}
	return fresh[0].Messages, err
}

// handle works on one message alone with its order, and confirms it if that is
// done. Whatever is not confirmed comes again, so a message may be worked on
// twice: after a crash before XACK, or after a lost lease. work must know what
// it has done.
func (c consumer) handle(ctx context.Context, m redis.XMessage) {
	err := c.guard.Do(ctx, guard.Key("order", m.Values["order"]),
		func(ctx context.Context) error { return c.work(ctx, m) })
	switch {
	case err == nil:
		err = c.rdb.XAck(context.WithoutCancel(ctx), stream, group, m.ID).Err()
	case errors.Is(err, guard.ErrLeaseLost): // first: it may be done, or half done
	case !guard.Ran(err) && !errors.Is(err, guard.ErrInvalidKey):
		return // not done: later, or by another consumer
	}
	if err != nil {
		slog.WarnContext(ctx, "message not confirmed", "id", m.ID, "error", err) // a real one counts and parks it
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
