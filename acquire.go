package guard

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// acquire acquires a lease for every verb. all are those of its DoAll, or nil.
// g is resolved. If an observer panics on the way, acquire gives the turn up.
func (g *Guard) acquire(ctx context.Context, key string, p turns.Patience, all *leases) (*Lease, error) {
	l, under, err := g.newLease(ctx, key, all)
	if err != nil {
		return nil, err
	}
	settled := false
	defer func() {
		if !settled {
			l.drop()
		}
	}()
	info := g.info(key, l.limit())
	info.Reentry, info.Try = l.outer != nil, p.Once || !p.Until.After(p.Start)
	waitCtx := under
	for _, o := range g.observers {
		waitCtx = o.WaitStart(waitCtx, info)
	}
	start, t, r := time.Now(), &l.own, WaitResult{Handoff: true}
	if l.outer != nil {
		t, r.Err = l.outer.turn, l.outer.admit(waitCtx, p)
	} else {
		ahead, at, refusal, err := all.turns().Take(waitCtx, key, p)
		if ahead != nil {
			t = ahead
		} else {
			refusal, err = t.Take(waitCtx, g.family.engine, key, &g.set, events{g}, p)
		}
		r = g.tried(t, p.Recall, err)
		if r.Err != nil {
			r.Err = refused(waitCtx, at, waitedSince(start, p), refusal, r.Err)
		}
	}
	if r.Err == nil && !r.Replayed && !r.Joined {
		l.turn = t
	}
	r.Waited = time.Since(start)
	for _, o := range g.observers {
		o.WaitEnd(waitCtx, info, r)
	}
	l.hint(waitCtx, p, r)
	err = l.begin(under, info, r)
	settled = true
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, errReleased): // the outer lease ended while we waited to run inside it
		return g.acquire(ctx, key, p, all)
	}
	return nil, err
}

// newLease returns a lease on key that has no turn, and the context to wait
// under.
func (g *Guard) newLease(ctx context.Context, key string, all *leases) (*Lease, context.Context, error) {
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	if ctx == nil {
		return nil, nil, errNilContext
	}
	enclosing := leaseIn(ctx)
	if enclosing != nil {
		ctx = ctxkey.Ending(ctx, enclosing.Context()) // a gin.Context never ends by itself
	}
	l := &Lease{
		guard: g, key: key, all: all,
		nesting: nesting{enclosing: enclosing, outer: findLease(enclosing, g.family, key)},
	}
	if all != nil {
		l.cancel, l.enclosing = all.cancel, cmp.Or(all.last, enclosing)
		l.signal.Store(&all.signal)
	}
	return l, ctx, l.outer.checkReentry(g.set.Limit)
}

// tried says how t was waited for, which ended with err of the engine. refused
// may add the cause of a ctx, which may be the silence that another call met.
func (c *config) tried(t *turns.Turn, recall *turns.Recall, err error) (r WaitResult) {
	if errors.Is(err, turns.ErrRecorded) {
		var record string
		record, r.Joined = recall.Found()
		r.Replayed, err = !r.Joined, nil
		if len(c.observers) > 0 {
			_, _, from, _ := splitRecord(record)
			r.Origin = from.traceparent()
		}
	}
	r.Err = err
	r.Attempts, r.Handoff, r.Idle, r.Blocker = t.Tried()
	r.Unguarded = c.failOpen && t.Silent(err)
	return r
}

// begin opens l, whose wait is over, or makes it bare, for a function that runs
// without a lease. begin returns why there is no lease.
func (l *Lease) begin(ctx context.Context, info WaitInfo, r WaitResult) error {
	switch {
	case r.Replayed || r.Joined:
		return turns.ErrRecorded
	case r.Err == nil:
		l.open(ctx, info)
	case r.Unguarded:
		l.bare, l.ctx = true, &leaseContext{Context: ctx, lease: l}
		if l.own.TellUnguarded() {
			l.guard.logUnguarded(ctx, l.key, r.Err)
		}
	default:
		return r.Err
	}
	return nil
}

// admit waits until a call may run inside l. It fails with ErrLeaseLost, or
// with errReleased if l is released first. It returns ErrNotAcquired if the
// wait or ctx ends first.
func (l *Lease) admit(ctx context.Context, p turns.Patience) error {
	start := time.Now()
	err := l.entrance.enter(ctx, p)
	switch {
	case errors.Is(err, errOccupied):
		holder, remaining := l.turn.Held()
		return &HeldError{Key: l.key, Remaining: remaining, Holder: holder, waited: waitedSince(start, p)}
	case err != nil && !errors.Is(err, errShut):
		return err
	}
	ended := l.Err()
	if err == nil && ended == nil {
		return nil
	}
	if err == nil {
		l.entrance.leave()
	}
	if ended == nil || errors.Is(ended, ErrNoLease) {
		return errReleased
	}
	return ended
}

// open makes the context of l, which has its turn.
func (l *Lease) open(ctx context.Context, info WaitInfo) {
	l.hold.info, l.hold.began = info, time.Now()
	for _, o := range l.guard.observers {
		ctx = o.HoldStart(ctx, info)
	}
	l.hold.ctx = ctx
	if l.cancel == nil {
		ctx, l.cancel = context.WithCancelCause(ctx)
	}
	l.under = leaseContext{Context: ctx, lease: l}
	l.ctx = &l.under
	var cause error // set if the lease was lost before we came here
	if l.outer != nil {
		cause = l.outer.contain(l)
	} else {
		cause = l.turn.Attach(occupant{l}, l.hold.began)
	}
	if cause != nil {
		l.lose(cause)
	}
}

// contain notes the lease of the call that runs inside l. If l is lost, it
// returns the cause.
func (l *Lease) contain(inner *Lease) error {
	l.entrance.mu.Lock()
	l.entrance.inside = inner
	l.entrance.mu.Unlock()
	return l.ending.known().cause
}

// drop gives up the turn, or the place inside another lease, that l has so far.
func (l *Lease) drop() {
	switch {
	case l.turn == nil:
	case l.outer != nil:
		l.outer.entrance.leave()
	default:
		l.turn.Drop()
	}
}

// checkReentry returns why a call with the given limit cannot run inside l, or
// nil. It asks for more than l has, and would wait for l.
func (l *Lease) checkReentry(limit int) error {
	if l == nil {
		return nil
	}
	has := l.limit()
	if has == 0 || limit == locker.NoLimit || limit != 0 && has != locker.NoLimit {
		return nil
	}
	wants := "an exclusive lease"
	if limit != 0 {
		wants = "a permit"
	}
	return invalid("%s inside a lease of mode %s on the same key would wait for itself: "+
		"take the key exclusively from the start", wants, modeOf(has))
}
