package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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

// logRelease logs that the release of l is not confirmed.
func (l *Lease) logRelease(ctx context.Context, err error) {
	l.guard.log().LogAttrs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL",
		l.guard.about(l.key, slog.Any("error", err))...)
	l.turn.NoteRelease(ctx, err)
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

// events is a guard as the engine sees it. It hears what happens to its turns,
// for the observers and the log.
type events struct{ guard *Guard }

// Traceparent implements [turns.Events].
func (e events) Traceparent(ctx context.Context) string { return e.guard.observers.traceparent(ctx) }

// Renewed implements [turns.Events].
func (e events) Renewed(o turns.Occupant, key string, r turns.Renewal) {
	set := &e.guard.set
	info := WaitInfo{
		Name: set.Name, Key: key, Mode: modeOf(set.Limit), Permits: permitsOf(set.Limit), MaxHold: set.MaxHold,
	}
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

// Hints are lines in the log about mistakes that look like something else. A
// guard gives each hint once, unless the hint says otherwise.

// hint gives the hints that a wait deserves.
func (l *Lease) hint(ctx context.Context, p turns.Patience, r WaitResult) {
	if r.Err != nil {
		l.hintHere(ctx, r.Err)
		l.hintDeadline(ctx, p, r.Err)
	}
	if r.Err == nil && l.outer != nil && l.guard.set.MinHold > 0 {
		l.hintMinHold(ctx)
	}
	if name := r.Blocker.Name; name != "" && name != l.guard.set.Name {
		l.hintNeighbor(ctx, name)
	}
}

// hintHere tells of a call that may have waited for itself, or for a call that
// waited for it. A call that waits in vain for a slow function is no mistake.
func (l *Lease) hintHere(ctx context.Context, err error) {
	if held := (*HeldError)(nil); !errors.As(err, &held) || !held.here {
		return
	}
	enclosing := leaseIn(ctx)
	switch {
	case enclosing == nil && inFunction(), enclosing.has(l.key):
		l.hintOnce(ctx, "here", "guard: key held by this process: was fn's ctx passed on?",
			"for a call inside fn with another ctx, or by another guard")
	case enclosing != nil:
		l.hintOnce(ctx, "order", "guard: key held by this process while the caller held another: are keys taken in "+
			"different orders?",
			"take such keys by one DoAll; if the other function is just slow, nothing is wrong")
	}
}

// hintDeadline tells of a wait that a deadline of ctx ended before MaxWait. The
// caller then gets the answer of its own timeout, such as a bare 503 of the
// framework, in place of the guard's. A deadline that leaves less than a tenth
// of MaxWait is no timeout that somebody has set for the call, but the end of
// longer work, such as a batch or a shutdown.
func (l *Lease) hintDeadline(ctx context.Context, p turns.Patience, err error) {
	deadline, set := ctx.Deadline()
	whole, left := l.guard.set.MaxWait, deadline.Sub(p.Start)
	if !set || p.Once || whole == forever || left < whole/10 || !deadline.Before(p.Until) ||
		errors.Is(err, ErrUnavailable) ||
		!errors.Is(err, ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	l.hintOnce(ctx, "deadline", fmt.Sprintf("guard: the request's deadline ends the wait before MaxWait (%v < %v)",
		left.Round(time.Millisecond), whole),
		"give the wait a MaxWait below the timeout around it, or raise that timeout")
}

// hintOnce logs a hint unless the guard has given it before.
func (l *Lease) hintOnce(ctx context.Context, about, text, look string) {
	if g := l.guard; g.family.hints.first(about, g.set.Name) {
		g.log().LogAttrs(ctx, slog.LevelWarn, text, //nolint:sloglint // constants, or one with two durations
			g.about(l.key, slog.String("look", look))...)
	}
}

// has reports whether l or a lease around it is on key, in any guard.
func (l *Lease) has(key string) bool {
	for ; l != nil; l = l.enclosing {
		if l.key == key {
			return true
		}
	}
	return false
}

// inFunction reports whether its caller runs inside the function of a verb, in
// the same goroutine.
func inFunction() bool {
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "github.com/go-lockguard/guard.(*Lease).run",
			f.Function == "github.com/go-lockguard/guard.(*leases).run":
			return true
		case !more:
			return false
		}
	}
}

// hintMinHold tells at each call that the setting of the outer call counts.
func (l *Lease) hintMinHold(ctx context.Context) {
	if log := l.guard.log(); log.Enabled(ctx, slog.LevelDebug) {
		log.LogAttrs(ctx, slog.LevelDebug, "guard: MinHold ignored inside another call on the same key",
			l.guard.about(l.key, slog.Duration("min_hold", l.guard.set.MinHold))...)
	}
}

// hintNeighbor tells of another service in the same store. Its names and ours
// differ; those of the instances of one service do not.
func (l *Lease) hintNeighbor(ctx context.Context, name string) {
	h, g := &l.guard.family.hints, l.guard
	if _, ours := h.names.Load(name); ours || !h.first("neighbor", g.set.Name) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: a guard of another name holds the same key: do services share a "+
		"store without prefixes?",
		g.about(l.key, slog.String("holder_name", name))...)
}
