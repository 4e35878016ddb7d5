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

// about returns the attributes that every line has, and detail. A line of a
// guard that is not exclusive has its mode too.
func (c *config) about(key string, detail slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("guard", c.set.Name), slog.String("key_hash", KeyHash(key)), detail}
	if mode := modeOf(c.set.Limit); mode != "" {
		attrs = append(attrs, slog.String("mode", mode))
	}
	return attrs
}

func (g *Guard) logLost(ctx context.Context, key string, cause error) {
	if errors.Is(cause, ErrClosed) {
		return // the caller of Close reports that
	}
	g.log().LogAttrs(ctx, slog.LevelError, "guard: lease lost while its function runs",
		g.about(key, slog.Any("error", cause))...)
}

// logOverrun warns of a function that did not stop when its lease was lost. The
// margin of the deadline is there to stop in.
func (g *Guard) logOverrun(ctx context.Context, key string, d time.Duration) {
	if d <= limits.StopMargin(g.set.TTL) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: function ran on after its lease was lost",
		g.about(key, slog.Duration("for", d))...)
}

// logHalf warns that half of MaxHold is over, d after the hold began. There is
// still time to look then.
func (g *Guard) logHalf(ctx context.Context, key string, d time.Duration) {
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: function has had its key for half of MaxHold",
		append(g.about(key, slog.Duration("for", d)), slog.Duration("max_hold", g.set.MaxHold), lookHere)...)
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
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL",
		g.about(key, slog.Any("error", err))...)
}

// logElected says that this process leads, since it stands for election.
func (g *Guard) logElected(ctx context.Context, key string, since time.Time) {
	g.log().LogAttrs(ctx, slog.LevelInfo, "guard: elected: this process leads",
		g.about(key, slog.Duration("after", time.Since(since)))...)
}

// logTerm says that this process leads no more, and whether it stands for
// election again. The author of a function that just returns may have expected
// that.
func (g *Guard) logTerm(ctx context.Context, key string, began time.Time, over bool, err error) {
	text := "guard: leads no more: it was told to end"
	switch {
	case !over:
		text = "guard: leads no more: the lease is lost; it stands for election again"
	case ctx.Err() == nil && !g.family.isClosing():
		text = "guard: the election is over: fn has returned, and Lead with it"
	}
	g.log().LogAttrs(ctx, slog.LevelInfo, text, //nolint:sloglint // one of three constants
		append(g.about(key, slog.Any("error", err)), slog.Duration("for", time.Since(began)))...)
}

// logOutage logs the begin of an outage at the first ErrUnavailable, even
// before any call fails, or its end at the next clear answer. Outages that came
// too soon after the last line share one. All guards that share a locker log an
// outage once.
func (g *Guard) logOutage(ctx context.Context, key string, n turns.News) {
	if n.Over && n.Err == nil {
		g.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker available again",
			g.about(key, slog.Duration("after", n.Lasted))...)
		return
	}
	text, attrs := "guard: locker unavailable", g.about(key, slog.Any("error", n.Err))
	switch {
	case n.Over:
		text = "guard: locker was unavailable"
		attrs = append(attrs, slog.Duration("for", n.Lasted), slog.Int("outages", n.Unlogged))
	case n.Unlogged > 0:
		attrs = append(attrs, slog.Int("outages_before", n.Unlogged))
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, text, attrs...) //nolint:sloglint // one of two constants
}

// logUnguarded warns that functions run without their keys.
func (g *Guard) logUnguarded(ctx context.Context, key string, err error) {
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: functions run unguarded while the locker is silent (WithFailOpen)",
		g.about(key, slog.Any("error", err))...)
}
