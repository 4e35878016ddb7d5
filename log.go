package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
	if d <= turns.StopMargin(g.set.TTL) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: function ran on after its lease was lost",
		g.about(key, slog.Duration("for", d))...)
}

// tellHalf warns that half of MaxHold is over. There is still time to look
// then.
func (l *Lease) tellHalf() {
	g := l.guard
	g.log().LogAttrs(l.hold.ctx, slog.LevelWarn, "guard: function has had its key for half of MaxHold",
		append(g.about(l.key, slog.Duration("for", time.Since(l.hold.began))),
			slog.Duration("max_hold", g.set.MaxHold), lookHere)...)
}

// lookHere says how to find a slow function.
var lookHere = slog.String("look", "at its stack: Guard.Snapshot, the page of package debug, or the goroutine below "+
	"guard.(*Lease).run")

// logOver says that nobody here waits for the next election. The author of a
// function that just returns may have expected one.
func (g *Guard) logOver(ctx context.Context, key string, err error) {
	if ctx.Err() != nil || g.family.isClosing() {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelInfo, "guard: the election is over: fn has returned, and Lead with it",
		g.about(key, slog.Any("error", err))...)
}

// logRelease logs that the release of l is not confirmed.
func (l *Lease) logRelease(ctx context.Context, err error) {
	l.guard.log().LogAttrs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL",
		l.guard.about(l.key, slog.Any("error", err))...)
	l.turn.NoteRelease(ctx, err)
}

// logOutage logs the begin of an outage at the first ErrUnavailable, even
// before any call fails, or its end at the next clear answer. All guards that
// share a locker log it once.
func (g *Guard) logOutage(ctx context.Context, key string, n turns.News) {
	if n.Err != nil {
		g.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker unavailable", g.about(key, slog.Any("error", n.Err))...)
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker available again",
		g.about(key, slog.Duration("after", n.Lasted))...)
}

// logUnguarded warns that functions run without their keys.
func (g *Guard) logUnguarded(ctx context.Context, key string, err error) {
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: functions run unguarded while the locker is silent (WithFailOpen)",
		g.about(key, slog.Any("error", err))...)
}

// events is a guard as the engine sees it. It hears what happens to its turns,
// for the observers and the log.
type events struct{ guard *Guard }

// Traceparent implements [turns.Events].
func (e events) Traceparent(ctx context.Context) string { return e.guard.observers.traceparent(ctx) }

// Renewed implements [turns.Events].
func (e events) Renewed(o turns.Occupant, key string, r turns.Renewal) {
	set := &e.guard.set
	info := WaitInfo{Name: set.Name, Key: key, Mode: modeOf(set.Limit), Permits: permitsOf(set.Limit)}
	ctx := context.Background() //nolint:forbidigo // a batch belongs to no caller
	if o, ok := o.(occupant); ok {
		ctx, info = o.lease.hold.ctx, o.lease.hold.info
	}
	e.guard.observers.renewed(ctx, info, RenewResult(r))
}

// Outage implements [turns.Events].
func (e events) Outage(ctx context.Context, o turns.Occupant, key string, n turns.News) {
	if o, ok := o.(occupant); ok {
		ctx = o.lease.hold.ctx
	}
	e.guard.logOutage(ctx, key, n)
}

// Unconfirmed implements [turns.Events].
func (e events) Unconfirmed(o turns.Occupant, err error) {
	if o, ok := o.(occupant); ok {
		o.lease.logRelease(o.lease.hold.ctx, err)
	}
}
