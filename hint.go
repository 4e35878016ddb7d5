package guard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Hints are lines in the log about mistakes that look like something else. A
// guard gives each of them once, unless it says otherwise.

// hints belong to a family.
type hints struct {
	names sync.Map // names that New and With have given its guards
	given sync.Map // hint: those that were given
}

type hint struct{ about, name string }

// first reports whether the guard of that name has not given a hint before.
func (h *hints) first(about, name string) bool {
	_, before := h.given.LoadOrStore(hint{about, name}, nil)
	return !before
}

// instances are the ids of the lockers of this process, from the first lease
// to Close.
var instances sync.Map

// arrive remembers the id of the locker, which its first claim tells.
func (f *family) arrive(instance string) {
	if f.instance.Load() == nil && instance != "" {
		first := instance // a pointer to the parameter would cost an allocation each time
		f.instance.Store(&first)
		instances.Store(first, nil)
	}
}

// depart undoes arrive.
func (f *family) depart() {
	if instance := f.instance.Load(); instance != nil {
		instances.Delete(*instance)
	}
}

// heldHere reports whether one call of this process has had the key since the
// given time: perhaps a call that the one which asks runs inside. A key that
// WithMinHold keeps is nobody's.
func (gt *gate) heldHere(since time.Time) bool {
	gt.mu.Lock()
	defer gt.mu.Unlock()
	if gr := gt.grant; gr != nil {
		return gr.heldSince(since)
	}
	if gt.seen.at.IsZero() || gt.seen.holder.Since.After(since) {
		return false
	}
	_, here := instances.Load(gt.seen.holder.Instance)
	return here
}

// heldSince reports whether the turn that is on began before the given time.
func (gr *grant) heldSince(since time.Time) bool {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	t := gr.tenure.turn
	return t != nil && t.lease != nil && !t.lease.hold.began.After(since)
}

// hint gives the hints that a wait deserves.
func (l *Lease) hint(ctx context.Context, r WaitResult) {
	if r.Err != nil {
		l.hintHere(ctx, r.Err)
	}
	if r.Err == nil && l.within != nil && l.guard.minHold > 0 {
		l.hintMinHold(ctx)
	}
	if name := r.Blocker.Name; name != "" && name != l.guard.name {
		l.hintNeighbor(ctx, name)
	}
}

// hintHere tells of a wait that a call of this process may have ended by
// waiting for itself, or for one that waits for it.
func (l *Lease) hintHere(ctx context.Context, err error) {
	held := (*HeldError)(nil)
	if g := l.guard; errors.As(err, &held) && held.here && g.family.hints.first("here", g.name) {
		g.log().LogAttrs(ctx, slog.LevelWarn, "guard: key held by this process: was fn's ctx passed on?",
			g.about(l.key, slog.String("look", "for a call inside fn with another ctx, or keys that calls take in different orders: "+
				"neither is likely where functions are just slow"))...)
	}
}

// hintMinHold tells, at each call, that the setting of the outer one counts.
func (l *Lease) hintMinHold(ctx context.Context) {
	if log := l.guard.log(); log.Enabled(ctx, slog.LevelDebug) {
		log.LogAttrs(ctx, slog.LevelDebug, "guard: MinHold ignored inside another call on the same key",
			l.guard.about(l.key, slog.Duration("min_hold", l.guard.minHold))...)
	}
}

// hintNeighbor tells of another service in the same store. Its names and ours
// differ; those of the instances of one service do not.
func (l *Lease) hintNeighbor(ctx context.Context, name string) {
	h, g := &l.guard.family.hints, l.guard
	if _, ours := h.names.Load(name); ours || !h.first("neighbor", g.name) {
		return
	}
	g.log().LogAttrs(ctx, slog.LevelWarn, "guard: a guard of another name holds the same key: do services share a store without prefixes?",
		g.about(l.key, slog.String("holder_name", name))...)
}
