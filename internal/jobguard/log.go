package jobguard

import (
	"context"
	"errors"
	"log/slog"

	"github.com/go-lockguard/guard"
)

// Held reports whether err says that somebody else has the key. Any other
// refusal does not tell whether somebody has it.
func Held(err error) bool {
	return errors.Is(err, guard.ErrNotAcquired) && !errors.Is(err, guard.ErrUnavailable)
}

// About returns the attributes of each line about a job with key: the guard,
// the key's hash, the error, and the holder if err knows it.
func About(g *guard.Guard, key string, err error) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("guard", g.Name()), slog.String("key_hash", guard.KeyHash(key)), slog.Any("error", err),
	}
	if held := (*guard.HeldError)(nil); errors.As(err, &held) && held.Holder.Host != "" {
		attrs = append(attrs, slog.String("holder_host", held.Holder.Host), slog.Int("holder_pid", held.Holder.PID))
	}
	return attrs
}

// LogSkipped logs that this instance skips a tick because of err. That is at
// level Warn if perhaps no instance runs the tick.
func LogSkipped(ctx context.Context, g *guard.Guard, key string, err error, attrs ...slog.Attr) {
	attrs = append(About(g, key, err), attrs...)
	if Held(err) {
		g.Logger().LogAttrs(ctx, slog.LevelInfo, "guard: tick skipped: the job runs elsewhere, "+
			"or has just run", attrs...)
		return
	}
	g.Logger().LogAttrs(ctx, slog.LevelWarn, "guard: tick skipped: nobody knows whether it "+
		"runs elsewhere", attrs...)
}
