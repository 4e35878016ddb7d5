// Package redisstep makes the Redis commands of the code under test steps of
// package explore. Redis is in memory, one for each run. Like package explore
// it is experimental.
//
//	explore.Test(t, func(w *explore.World) {
//		r := redisstep.New(w)
//		w.Deliver("sell", func(ctx context.Context, g *guard.Guard) error {
//			return sell(ctx, g, r.Client())
//		})
//		w.Check(func() error { return balances(r.Get("stock")) })
//	})
package redisstep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/guardtest/explore"
	"github.com/go-lockguard/guard/internal/redistest"
)

// Redis is the Redis of one run. The methods of Miniredis are for the scenario
// and its check: they are no steps.
type Redis struct {
	*miniredis.Miniredis

	w    *explore.World
	opts *redis.Options
}

// New starts a Redis in memory, with the clock of w, and blocks on nothing. It
// ends with the run.
func New(w *explore.World) *Redis {
	m, opts := redistest.InMemory(w.Cleanup)
	return &Redis{m, w, opts}
}

// Client returns a client for one process, and sends nothing. Each command,
// each pipeline and each MULTI with its EXEC is a step, see
// [explore.World.Step]. The run closes the client at its end.
//
// Each command needs the ctx that the code under test got. No command is sent
// again, as with MaxRetries -1. Commands that block, and subscriptions, are no
// steps: do without them.
func (r *Redis) Client() *redis.Client {
	opts := *r.opts
	rdb := redis.NewClient(&opts)
	r.w.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(hook{r.w})
	return rdb
}

// hook makes each command a step.
type hook struct{ w *explore.World }

// sentKey is in the ctx of what is sent in a step, such as the greeting of a
// new connection.
type sentKey struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		return h.step(ctx, []redis.Cmder{c}, func(ctx context.Context) error { return next(ctx, c) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cs []redis.Cmder) error {
		return h.step(ctx, cs, func(ctx context.Context) error { return next(ctx, cs) })
	}
}

func (h hook) step(ctx context.Context, cs []redis.Cmder, send func(context.Context) error) error {
	if ctx.Value(sentKey{}) != nil {
		return send(ctx)
	}
	sent := false
	err := h.w.Step(ctx, say(cs), func() error {
		sent = true
		return send(context.WithValue(context.WithoutCancel(ctx), sentKey{}, true))
	})
	if sent && !errors.Is(err, explore.ErrNoAnswer) {
		return err // each command has its own
	}
	for _, c := range cs {
		if err != nil && c.Err() == nil {
			c.SetErr(err)
		}
	}
	return err
}

// say is the commands as the story tells them. Of a script it tells the keys.
func say(cs []redis.Cmder) string {
	const most = 60
	var words []string
	for _, c := range cs {
		args := slices.Clone(c.Args())
		if name := c.Name(); strings.HasPrefix(name, "eval") && len(args) > 3 {
			if keys, ok := args[2].(int); ok {
				args = append([]any{name}, args[3:min(3+keys, len(args))]...)
			}
		}
		words = append(words, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	}
	text := []rune(strings.Join(words, ", "))
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
