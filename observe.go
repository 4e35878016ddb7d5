package guard

import (
	"context"
	"errors"
	"time"
)

// How a Guard tells its observers, in the order in which they were added, and its log (log.go).

func (c *config) info(key string, reentry bool) WaitInfo {
	return WaitInfo{Name: c.name, Key: key, Reentry: reentry}
}

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
func (c *call) blockedBy() Holder {
	if c.attempts > 0 {
		return c.blocker
	}
	return c.gate.holder(time.Now()).Holder
}

func (c *config) holdStart(ctx context.Context, w WaitInfo) context.Context {
	for _, o := range c.observers {
		ctx = o.HoldStart(ctx, w)
	}
	return ctx
}

// observeLoss tells of the loss of l, once.
func (l *Lease) observeLoss(cause error) {
	l.mu.Lock()
	told := l.told
	l.told = true
	l.mu.Unlock()
	if told {
		return
	}
	for _, o := range l.guard.observers {
		o.LeaseLost(l.holdCtx, l.info, cause)
	}
	l.logLost(cause)
}

// observeEnd tells that l has been released.
func (l *Lease) observeEnd(panicked bool) {
	now := time.Now()
	r := HoldResult{Held: now.Sub(l.began), Err: l.releaseErr, Panicked: panicked}
	if errors.Is(r.Err, ErrLeaseLost) {
		l.observeLoss(r.Err)
		if at := l.lossTime(); !at.IsZero() {
			r.Overrun = now.Sub(at)
		}
	}
	for _, o := range l.guard.observers {
		o.HoldEnd(l.holdCtx, l.info, r)
	}
	l.logOverrun(r.Overrun)
}

func (l *Lease) lossTime() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostAt
}

// endedBy returns when a lease that is found lost now ended at the latest: the process may have slept past its deadline.
func (l *Lease) endedBy(now time.Time) time.Time {
	gr := l.root().grant
	gr.mu.Lock()
	defer gr.mu.Unlock()
	return now.Add(min(gr.trust.left(now), 0))
}

// traceparent is the first that an observer has for ctx.
func (c *config) traceparent(ctx context.Context) string {
	for _, o := range c.observers {
		if t := o.Traceparent(ctx); t != "" {
			return t
		}
	}
	return ""
}

// observeRenewal tells the observers of the guard whose turn it is about a try to renew gr, or between two turns, those
// of the guard that acquired it.
func (gr *grant) observeRenewal(err error) {
	gr.mu.Lock()
	turn, left := gr.turn, gr.trust.left(time.Now())
	gr.mu.Unlock()
	r := RenewResult{Err: err, Left: left, Late: left < trusted(gr.terms.ttl)/2}

	ctx, cfg := context.Background(), gr.config //nolint:forbidigo // a batch belongs to no caller
	info := cfg.info(gr.claim.Key, false)
	if turn != nil && turn.opened() {
		ctx, cfg, info = turn.holdCtx, &turn.guard.config, turn.info
	}
	for _, o := range cfg.observers {
		o.Renewed(ctx, info, r)
	}
	gr.family.note(ctx, cfg, gr.claim.Key, err)
}

// opened reports whether l has its context, which is not written after that.
func (l *Lease) opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancel != nil
}
