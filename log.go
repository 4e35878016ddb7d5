package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// What a Guard logs. Each line names the guard and the hash of the key, never the key, and goes out under the context of
// the call it is about, so that a handler can add its trace.

// about is what every line has, and one thing more.
func (c *config) about(key string, detail slog.Attr) []slog.Attr {
	return []slog.Attr{slog.String("guard", c.name), slog.String("key_hash", KeyHash(key)), detail}
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
	if d <= stopMargin(g.ttl) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: function ran on after its lease was lost",
		g.about(key, slog.Duration("for", d))...)
}

// tellHalf warns, while there is still time to look, that half of MaxHold is over.
func (l *Lease) tellHalf() {
	g := l.guard
	g.log().LogAttrs(l.hold.ctx, slog.LevelWarn, "guard: function has had its key for half of MaxHold",
		append(g.about(l.key, slog.Duration("for", time.Since(l.hold.began))), slog.Duration("max_hold", g.maxHold), lookHere)...)
}

// lookHere says how to find the function that is slow.
var lookHere = slog.String("look", "at its stack: Guard.Snapshot, the page of package debug, or the goroutine below guard.(*Lease).run")

func (g *Guard) logRelease(ctx context.Context, key string, err error) {
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: release not confirmed, the key ends with its TTL",
		g.about(key, slog.Any("error", err))...)
	g.family.note(ctx, &g.config, key, err)
}

// noteWait notes what a wait shows of the locker: tries that a later one made good have harmed nobody.
func (g *Guard) noteWait(ctx context.Context, w WaitInfo, r WaitResult) {
	switch {
	case r.Attempts == 0:
	case r.Err == nil, isHeld(r.Err):
		g.family.note(ctx, &g.config, w.Key, nil)
	case ctx.Err() == nil: // else the caller left before an answer could come
		g.family.note(ctx, &g.config, w.Key, r.Err)
	}
}

func isHeld(err error) bool {
	var held *HeldError
	return errors.As(err, &held)
}

// note logs where an outage of the locker begins, with an answer that is ErrUnavailable, and where it ends, with the next
// one that is clear.
func (f *family) note(ctx context.Context, c *config, key string, err error) {
	switch {
	case errors.Is(err, ErrUnavailable):
		if f.outage.begin(time.Now()) {
			c.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker unavailable", c.about(key, slog.Any("error", err))...)
		}
	case err == nil, errors.Is(err, ErrLeaseLost):
		if lasted, ended := f.outage.end(time.Now()); ended {
			c.log().LogAttrs(ctx, slog.LevelWarn, "guard: locker available again", c.about(key, slog.Duration("after", lasted))...)
		}
	}
}

// outagePause keeps a locker that answers now and then, as a cluster does that has lost one shard, from filling the log.
const outagePause = 10 * time.Second

// An outage is the time from an answer that was none to the next that is clear. One that begins within outagePause of the
// last that was logged goes unlogged, until it is older than that.
type outage struct {
	on atomic.Bool // one is logged; set under mu, read without it by every answer

	mu    sync.Mutex // guards since; held for a few instructions
	since time.Time  // when the last logged one began
}

func (o *outage) begin(now time.Time) (first bool) {
	if o.on.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.on.Load() || (!o.since.IsZero() && now.Sub(o.since) < outagePause) {
		return false
	}
	o.since = now
	o.on.Store(true)
	return true
}

func (o *outage) end(now time.Time) (lasted time.Duration, ended bool) {
	if !o.on.Load() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return now.Sub(o.since), o.on.CompareAndSwap(true, false)
}
