package jobguard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-lockguard/guard"
)

// LongTimes remembers for which types of jobs it has warned. The zero value is
// ready to use. It grows with the types only. It is safe for concurrent use.
type LongTimes struct{ told sync.Map }

// Warn logs once for each type of job that the time of ctx is longer than the
// MaxHold of g. help says how to make them fit.
func (l *LongTimes) Warn(ctx context.Context, g *guard.Guard, typ, help string) {
	end, ok := ctx.Deadline()
	left, limit := time.Until(end), g.MaxHold()
	if !ok || limit == 0 || left <= limit {
		return
	}
	if _, before := l.told.LoadOrStore(typ, nil); before {
		return
	}
	g.Logger().LogAttrs(ctx, slog.LevelWarn, "guard: the job's time is longer than MaxHold, which ends it",
		slog.String("help", help), slog.String("guard", g.Name()), slog.String("type", typ),
		slog.Duration("time", left.Round(time.Second)), slog.Duration("max_hold", limit))
}
