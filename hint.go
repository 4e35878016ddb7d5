package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// Hints are lines in the log about mistakes that look like something else. A
// guard gives each hint once, unless the hint says otherwise.

// hint gives the hints that a wait deserves.
func (l *Lease) hint(ctx context.Context, p turns.Patience, r WaitResult) {
	if r.Err != nil {
		l.hintHere(ctx, r.Err)
		l.hintDeadline(ctx, p, r.Err)
	}
	if g := l.guard; r.Err == nil && l.outer != nil && g.set.MinHold > 0 { // the setting of the outer call counts
		g.logs(ctx, slog.LevelDebug, "guard: MinHold ignored inside another call on the same key", l.key,
			slog.Duration("min_hold", g.set.MinHold))
	}
	if name := r.Blocker.Name; name != "" && name != l.guard.set.Name {
		l.hintNeighbor(ctx, name)
	}
}

// hintHere tells of a call that may have waited for itself, or for a call that
// waited for it. A call that waits in vain for a slow function is no mistake.
func (l *Lease) hintHere(ctx context.Context, err error) {
	if held := (*HeldError)(nil); !errors.As(err, &held) || !held.here || held.Key != l.key {
		return // another key's is the cause of ctx
	}
	enclosing := leaseIn(ctx)
	switch {
	case enclosing == nil && inFunction(), enclosing.has(l.key):
		l.hintOnce(ctx, "here", "guard: key held by this process: was fn's ctx passed on?",
			slog.String("look", "for a call inside fn with another ctx, or by another guard"))
	case enclosing != nil:
		l.hintOnce(ctx, "order", "guard: key held by this process while the caller held another: are keys taken in "+
			"different orders?",
			slog.String("look", "take such keys by one DoAll; if the other function is just slow, nothing is wrong"))
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
		slog.String("look", "give the wait a MaxWait below the timeout around it, or raise that timeout"))
}

// hintOnce logs a hint unless the guard has given it before.
func (l *Lease) hintOnce(ctx context.Context, about, text string, detail slog.Attr) {
	g := l.guard
	if _, before := g.family.hints.given.LoadOrStore(hint{about, g.set.Name}, nil); !before {
		g.logs(ctx, slog.LevelWarn, text, l.key, detail)
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
		name, ours := strings.CutPrefix(f.Function, "github.com/go-lockguard/")
		switch {
		case ours && (name == runsUnderOne || name == runsUnderSeveral):
			return true
		case !more:
			return false
		}
	}
}

// hintNeighbor tells of another service in the same store. Its names and ours
// differ; those of the instances of one service do not.
func (l *Lease) hintNeighbor(ctx context.Context, name string) {
	if _, ours := l.guard.family.hints.names.Load(name); !ours {
		l.hintOnce(ctx, "neighbor", "guard: a guard of another name holds the same key: do services share a store "+
			"without prefixes?", slog.String("holder_name", name))
	}
}
