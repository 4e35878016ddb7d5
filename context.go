package guard

import (
	"context"
	"fmt"

	"github.com/go-lockguard/guard/internal/ctxkey"
	"github.com/go-lockguard/guard/locker"
)

// leaseIn returns the innermost lease in ctx, even if it was released, or nil.
func leaseIn(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(ctxkey.Key).(*Lease)
	return l
}

// findLease searches l and the leases around it. It returns the innermost lease
// of the family on key that has not been released, or nil.
func findLease(l *Lease, f *family, key string) *Lease {
	for ; l != nil; l = l.enclosing {
		if l.key == key && l.guard.family == f && !l.isReleased() && !l.bare {
			return l
		}
	}
	return nil
}

// runsInside reports whether l runs inside outer, at any depth.
func (l *Lease) runsInside(outer *Lease) bool {
	for l != nil && l.outer != outer {
		l = l.outer
	}
	return l != nil
}

// LeaseFrom returns the innermost lease in ctx that has not been released. A
// function that [WithFailOpen] lets run has none, even inside another lease,
// which does not protect what the function does. LeaseFrom does not block and
// is safe for concurrent use.
func LeaseFrom(ctx context.Context) (*Lease, bool) {
	for l := leaseIn(ctx); l != nil && !l.bare; l = l.enclosing {
		if !l.isReleased() {
			return l, true
		}
	}
	return nil, false
}

// LeaseOf returns the innermost lease on key in ctx that has not been released.
// Under [Guard.DoAll] each key has its own lease, with a fencing token of its
// own. LeaseOf goes through the leases in ctx one by one and asks nobody else.
// It does not block and is safe for concurrent use.
func LeaseOf(ctx context.Context, key string) (*Lease, bool) {
	for l := leaseIn(ctx); l != nil; l = l.enclosing {
		switch {
		case l.key != key || l.isReleased():
		case l.bare:
			return nil, false
		default:
			return l, true
		}
	}
	return nil, false
}

// FencingToken returns the fencing token of the innermost lease in ctx that has
// not been released, as [Lease.FencingToken] does. It returns ErrNoLease if
// there is no such lease, and ErrInvalidOption if ctx is nil. It also returns
// ErrInvalidOption if that lease is one of several of a [Guard.DoAll]: the token
// of another key would say nothing to the resource, so ask the lease that
// [LeaseOf] returns. FencingToken is safe for concurrent use.
func FencingToken(ctx context.Context) (uint64, error) {
	if ctx == nil {
		return 0, errNilContext
	}
	l, ok := LeaseFrom(ctx)
	if !ok {
		return 0, fmt.Errorf("%w: pass on the ctx that the function got", ErrNoLease)
	}
	if l.all.several() {
		return 0, errWhichToken
	}
	return l.FencingToken(ctx)
}

// errWhichToken refuses to choose one of the tokens of a DoAll.
var errWhichToken = invalid("the keys of a DoAll have a fencing token each: " +
	"use guard.LeaseOf(ctx, key) and its FencingToken")

// Holds returns what l and the leases around it own in store, for a store that
// has a use for it in transactions of its user, such as etcdlocker. It returns
// false if none of them is of the guard on store, or if one that is was
// released. A lost lease counts, because the store knows whether it was. Holds
// does not block and is safe for concurrent use.
func (l *Lease) Holds(store locker.Locker) (holds []locker.Hold, ok bool) {
	for ; l != nil; l = l.enclosing {
		if l.guard.family.locker != store {
			continue
		}
		if l.isReleased() || l.bare {
			return nil, false
		}
		holds = append(holds, l.turn.Hold())
	}
	return holds, len(holds) > 0
}
