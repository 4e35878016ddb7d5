package show

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// redisHook makes a span of each request to Redis: names of commands, never
// their arguments, which are keys and owner ids. One is in the shop's client,
// one in the guard's own.
type redisHook struct{ tracer trace.Tracer }

func (h redisHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.span(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		return h.span(ctx, strings.Join(names, "+"), func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (h redisHook) span(ctx context.Context, name string, do func(context.Context) error) error {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return do(ctx) // in the background: renewals, subscriptions
	}
	ctx, span := h.tracer.Start(ctx, "redis "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", name)))
	defer span.End()
	err := do(ctx)
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		span.SetStatus(codes.Error, "")
	}
	return err
}
