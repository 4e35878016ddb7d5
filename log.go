package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/turns"
)

// This file is the log of a Guard. Each line names the guard and the hash of
// the key, never the key. It is logged under the context of its call, so that a
// handler can add the trace of the call.

// logs logs a line about key. A line of a guard that is not exclusive has its
// mode, behind detail.
func (c *config) logs(
	ctx context.Context, level slog.Level, text, key string, detail slog.Attr, more ...slog.Attr,
) {
	log := c.log()
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("guard", c.set.Name), slog.String("key_hash", KeyHash(key)), detail}
	if mode := modeOf(c.set.Limit); mode != "" {
		attrs = append(attrs, slog.String("mode", mode))
	}
	log.LogAttrs(ctx, level, text, append(attrs, more...)...) //nolint:sloglint // constants, or one with two durations
}

func (g *Guard) logLost(ctx context.Context, key string, cause error) {
	if !errors.Is(cause, ErrClosed) { // the caller of Close reports that
		g.logs(ctx, slog.LevelError, "guard: lease lost while its function runs", key, slog.Any("error", cause))
	}
}

// logOverrun warns of a function that did not stop when its lease was lost. The
// margin of the deadline is there to stop in.
func (g *Guard) logOverrun(ctx context.Context, key string, d time.Duration) {
	if d > limits.StopMargin(g.set.TTL) {
		g.logs(ctx, slog.LevelWarn, "guard: function ran on after its lease was lost", key, slog.Duration("for", d))
	}
}

// logHalf warns that half of MaxHold is over, d after the hold began. There is
// still time to look then.
func (g *Guard) logHalf(ctx context.Context, key string, d time.Duration) {
	g.logs(ctx, slog.LevelWarn, "guard: function has had its key for half of MaxHold", key,
		slog.Duration("for", d), slog.Duration("max_hold", g.set.MaxHold), lookHere)
}

// A stack shows the function of a verb below one of these methods.
const (
	runsUnderOne     = "guard.(*Lease).run"
	runsUnderSeveral = "guard.(*leases).run" // of a DoAll
)

// lookHere says how to find a slow function.
var lookHere = slog.String("look", "at its stack: Guard.Snapshot, the page of package debug, or the goroutine below "+
	runsUnderOne+", or of a DoAll below "+runsUnderSeveral)

// logRelease logs that a release is not confirmed.
func (g *Guard) logRelease(ctx context.Context, key string, err error) {
	g.logs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL", key, slog.Any("error", err))
}

// logElected says that this process leads, since it stands for election.
func (g *Guard) logElected(ctx context.Context, key string, since time.Time) {
	g.logs(ctx, slog.LevelInfo, "guard: elected: this process leads", key, slog.Duration("after", time.Since(since)))
}

// logTerm says that this process leads no more, and whether it stands for
// election again. The author of a function that just returns may have expected
// that.
func (g *Guard) logTerm(ctx context.Context, key string, began time.Time, over bool, err error) {
	text := "guard: leads no more: it was told to end"
	switch {
	case !over:
		text = "guard: leads no more: the lease is lost; it stands for election again"
	case ctx.Err() == nil && !g.family.engine.IsClosing():
		text = "guard: the election is over: fn has returned, and Lead with it"
	}
	g.logs(ctx, slog.LevelInfo, text, key, slog.Any("error", err), slog.Duration("for", time.Since(began)))
}

// logOutage logs the begin of an outage at the first ErrUnavailable, even
// before any call fails, or its end at the next clear answer. Outages that came
// too soon after the last line share one. All guards that share a locker log an
// outage once.
func (g *Guard) logOutage(ctx context.Context, key string, n turns.News) {
	err := slog.Any("error", n.Err)
	switch {
	case n.Over && n.Err == nil:
		g.logs(ctx, slog.LevelWarn, "guard: locker available again", key, slog.Duration("after", n.Lasted))
	case n.Over:
		g.logs(ctx, slog.LevelWarn, "guard: locker was unavailable", key, err,
			slog.Duration("for", n.Lasted), slog.Int("outages", n.Unlogged))
	case n.Unlogged > 0:
		g.logs(ctx, slog.LevelWarn, "guard: locker unavailable", key, err, slog.Int("outages_before", n.Unlogged))
	default:
		g.logs(ctx, slog.LevelWarn, "guard: locker unavailable", key, err)
	}
}

// logUnguarded warns that functions run without their keys.
func (g *Guard) logUnguarded(ctx context.Context, key string, err error) {
	g.logs(ctx, slog.LevelWarn, "guard: functions run unguarded while the locker is silent (WithFailOpen)", key,
		slog.Any("error", err))
}
