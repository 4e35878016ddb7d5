package guard

import (
	"context"
	"errors"
	"log/slog"
)

// How a Guard tells its observers, in the order in which they were added, and its log.

func (c *config) info(key string, reentry bool) WaitInfo {
	return WaitInfo{Name: c.name, Key: key, Reentry: reentry}
}

func (c *config) waitStart(ctx context.Context, w WaitInfo) context.Context {
	for _, o := range c.observers {
		ctx = o.WaitStart(ctx, w)
	}
	return ctx
}

func (c *config) waitEnd(ctx context.Context, w WaitInfo, r WaitResult) {
	for _, o := range c.observers {
		o.WaitEnd(ctx, w, r)
	}
}

func (c *config) holdStart(ctx context.Context, w WaitInfo) context.Context {
	for _, o := range c.observers {
		ctx = o.HoldStart(ctx, w)
	}
	return ctx
}

func (c *config) holdEnd(ctx context.Context, w WaitInfo, r HoldResult) {
	for _, o := range c.observers {
		o.HoldEnd(ctx, w, r)
	}
}

// traceparent is the first that an observer has for ctx.
func (c *config) traceparent(ctx context.Context) string {
	for _, o := range c.observers {
		if t := o.Traceparent(ctx); t != "" {
			return t
		}
	}
	return ""
}

// observeRenewal tells the observers of the guard that acquired gr about a try to renew it.
func (gr *grant) observeRenewal(err error) {
	ctx := context.Background() //nolint:forbidigo // a batch belongs to no caller
	for _, o := range gr.config.observers {
		o.Renewed(ctx, gr.config.info(gr.claim.Key, false), err)
	}
}

// logLost and logRelease name the guard, never the key.
func (c *config) logLost(cause error) {
	if errors.Is(cause, ErrClosed) {
		return // said by whoever closed it
	}
	c.log().Error("guard: lease lost while its function runs", slog.String("guard", c.name), slog.Any("error", cause))
}

func (c *config) logRelease(err error) {
	c.log().Warn("guard: release not confirmed, the key ends with its TTL", slog.String("guard", c.name), slog.Any("error", err))
}
