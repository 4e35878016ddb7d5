package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// How a Guard tells its observers, in the order in which they were added. Its log is in log.go.

func (c *config) waitStart(ctx context.Context, w WaitInfo) context.Context {
	for _, o := range c.observers {
		ctx = o.WaitStart(ctx, w)
	}
	return ctx
}

func (g *Guard) waitEnd(ctx context.Context, w WaitInfo, r WaitResult) {
	for _, o := range g.observers {
		o.WaitEnd(ctx, w, r)
	}
	g.noteWait(ctx, w, r)
}

// blockedBy returns who was in the way of a call that has waited: the last holder that it saw, or if it never came to try,
// the one that this process knows of.
func (t *turn) blockedBy() Holder {
	if t.attempts > 0 || t.gate == nil {
		return t.blocker
	}
	return t.gate.holder(time.Now()).Holder
}

// A hold is a lease as observers see it. All but told is written by start, before anybody else can see the lease.
type hold struct {
	guard *Guard
	info  WaitInfo
	began time.Time
	ctx   context.Context // the observers'
	told  atomic.Bool     // of its loss
}

// start tells that the hold begins.
func (h *hold) start(ctx context.Context, g *Guard, info WaitInfo) {
	h.guard, h.info, h.began = g, info, time.Now()
	for _, o := range g.observers {
		ctx = o.HoldStart(ctx, info)
	}
	h.ctx = ctx
}

// lost tells of the loss, and reports whether that was the first time.
func (h *hold) lost(cause error) (first bool) {
	if h.told.Swap(true) {
		return false
	}
	for _, o := range h.guard.observers {
		o.LeaseLost(h.ctx, h.info, cause)
	}
	return true
}

// end tells that the hold has ended.
func (h *hold) end(r HoldResult) {
	for _, o := range h.guard.observers {
		o.HoldEnd(h.ctx, h.info, r)
	}
}

// observeRenewal tells the observers of the guard whose turn it is about a try to renew gr, or between two turns, those
// of the guard that acquired it.
func (gr *grant) observeRenewal(r RenewResult) {
	gr.mu.Lock()
	var l *Lease
	if gr.turn != nil {
		l = gr.turn.lease
	}
	gr.mu.Unlock()
	ctx, cfg := context.Background(), gr.config //nolint:forbidigo // a batch belongs to no caller
	info := WaitInfo{Name: cfg.name, Key: gr.gate.key}
	if l != nil {
		ctx, cfg, info = l.hold.ctx, &l.guard.config, l.hold.info
	}
	for _, o := range cfg.observers {
		o.Renewed(ctx, info, r)
	}
	gr.family.note(ctx, cfg, gr.gate.key, r.Err)
}
