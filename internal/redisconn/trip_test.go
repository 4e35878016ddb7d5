package redisconn

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// slowLine answers each command in place of a server that is near, at the end
// of a slow line: after a millisecond for each KiB.
type slowLine struct{ answer any }

func (l slowLine) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		time.Sleep(time.Millisecond/2 + time.Millisecond*time.Duration((size(cmd.Args())+size(l.answer))>>10))
		cmd.(Command).SetVal(l.answer)
		return nil
	}
}

func (slowLine) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slowLine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Planted: what takes long because it is large is measured too.
func TestALargeRequestIsNoMeasureOfTheDistance(t *testing.T) {
	large := strings.Repeat("r", 1<<20)
	for name, c := range map[string]struct{ value, answer any }{
		"a record is kept":        {large, "OK"},
		"a record is kept, bytes": {[]byte(large), "OK"},
		"a record is found":       {"", large},
		"a record among others":   {"", []any{int64(1), []any{large}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ctx := redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true,
					MaintNotificationsConfig: noMaintenance(),
				}), t.Context()
				defer func() { _ = client.Close() }()
				client.AddHook(slowLine{c.answer})
				conns := New(&Settings{AsIs: client})
				defer conns.Close()
				conns.Trip.note(time.Millisecond / 2)
				conns.SendOne(ctx, NewCommand(ctx, "set", "k", c.value))
				conns.Send(ctx, NewCommand(ctx, "set", "k", c.value))
				if !conns.Trip.near() {
					t.Errorf("the server seems to be %v away", time.Duration(conns.Trip.mean.Load()))
				}
			})
		})
	}
}
