package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// What a Guard logs. Each line names the guard and the hash of the key, never the key, and goes out under the context of
// the call it is about, so that a handler can add its trace.

// about is what every line has, and one thing more.
func (c *config) about(key string, detail slog.Attr) []slog.Attr {
	return []slog.Attr{slog.String("guard", c.set.Name), slog.String("key_hash", KeyHash(key)), detail}
}

func (g *Guard) logLost(ctx context.Context, key string, cause error) {
	if errors.Is(cause, ErrClosed) {
		return // said by whoever closed the guard
	}
	g.log().LogAttrs(ctx, slog.LevelError, "guard: lease lost while its function runs",
		g.about(key, slog.Any("error", cause))...)
}

// logOverrun warns of a function that did not stop when its lease was lost. The margin of the deadline is there to stop in.
func (g *Guard) logOverrun(ctx context.Context, key string, d time.Duration) {
	if d <= turns.StopMargin(g.set.TTL) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: function ran on after its lease was lost",
		g.about(key, slog.Duration("for", d))...)
}

// tellHalf warns, while there is still time to look, that half of MaxHold is over.
func (l *Lease) tellHalf() {
	g := l.guard
	g.log().LogAttrs(l.hold.ctx, slog.LevelWarn, "guard: function has had its key for half of MaxHold",
		append(g.about(l.key, slog.Duration("for", time.Since(l.hold.began))), slog.Duration("max_hold", g.set.MaxHold), lookHere)...)
}

// lookHere says how to find the function that is slow.
var lookHere = slog.String("look", "at its stack: Guard.Snapshot, the page of package debug, or the goroutine below guard.(*Lease).run")

// logOver says that nobody here waits for the next election, for which a function that just returns may have hoped.
func (g *Guard) logOver(ctx context.Context, key string, err error) {
	if ctx.Err() != nil || g.family.isClosing() {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelInfo, "guard: the election is over: fn has returned, and Lead with it",
		g.about(key, slog.Any("error", err))...)
}

func (g *Guard) logRelease(ctx context.Context, key string, err error) {
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL",
		g.about(key, slog.Any("error", err))...)
	g.noteStore(ctx, key, err)
}

// noteStore logs the start of an outage at the first ErrUnavailable, even before any
// call fails, and its end at the next clear answer. All guards that share a locker
// log it once.
func (g *Guard) noteStore(ctx context.Context, key string, err error) {
	o := &g.family.outage
	switch {
	case errors.Is(err, ErrUnavailable):
		if o.begin(time.Now()) {
			g.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker unavailable", g.about(key, slog.Any("error", err))...)
		}
	case err == nil, errors.Is(err, ErrLeaseLost):
		if lasted, tell := o.end(time.Now()); tell {
			g.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker available again", g.about(key, slog.Duration("after", lasted))...)
		}
	}
}

// outagePause keeps a locker that answers now and then, as a cluster does that has lost one shard, from filling the log.
const outagePause = 10 * time.Second

// An outage is the time from an answer that was none to the next that is clear. One that begins within outagePause of the
// last log of another goes unlogged, until that is over.
type outage struct {
	on atomic.Bool // there is one; set under mu, read without it by every clear answer

	mu     sync.Mutex // guards what follows; held for a few instructions
	since  time.Time  // when it began
	logged time.Time  // when it was logged, or the last one that was
	told   bool       // it was logged
}

// begin notes an answer that was none, and reports whether that is to be logged.
func (o *outage) begin(now time.Time) (tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Swap(true) {
		o.since, o.told = now, false
	}
	if o.told || (!o.logged.IsZero() && now.Sub(o.logged) < outagePause) {
		return false
	}
	o.logged, o.told = now, true
	return true
}

// end notes a clear answer, and reports whether it ends an outage that was logged.
func (o *outage) end(now time.Time) (lasted time.Duration, tell bool) {
	if !o.on.Load() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Sub(o.since), o.on.Swap(false) && o.told
}
