package guard

import "github.com/go-lockguard/guard/locker"

// This file is modes: how many calls may have a key at once.

// WithShared makes leases shared. Any number of shared leases may have a key at
// once, over all instances. None is held beside a lease that is not shared. It
// is for readers of what an exclusive lease changes:
//
//	read := g.With(guard.WithShared())
//
// An exclusive call is not starved by readers: those that come after it wait
// until it had its turn. Only readers of its own process that wait already may
// go before it. MaxHold bounds each turn for itself. A reader that holds the
// key for long makes the exclusive call wait, and all readers behind it.
//
// A shared lease has no fencing token. WithShared ignores [WithFencing] and
// [WithMinHold] of the guard that it changes. In one list with either of them,
// or with [WithPermits], it is ErrInvalidOption. [Guard.Lead] refuses it.
//
// An exclusive call inside a shared lease on the same key would wait for
// itself. It gets ErrInvalidOption at once. Take the key exclusively from the
// start.
//
// A store that cannot share keys is refused with an ErrInvalidOption that Is
// [errors.ErrUnsupported]. New returns it, and [Guard.With] panics with it.
func WithShared() Option {
	return setting{set: func(c *config) { c.set.Limit, c.given.shared = locker.NoLimit, true }}
}

// WithPermits lets at most n leases have a key at once, over all instances. n
// is 1 to 999,998, where 1 is the exclusive lease of every guard. It is for
// work that only so many may do at a time:
//
//	export := g.With(guard.WithPermits(3))
//
// All callers should use the same n. If they do not, the smallest n of those
// that hold the key and of the call decides. A rollout may thus change n. An
// exclusive call on the key waits until all permits are back, and stops new
// ones.
//
// Each permit is a lease with renewals of its own, so n should be tens, not
// thousands. With [WithMinHold] at most n turns begin within that time. Under
// [Guard.Lead] there are n leaders. A call inside a permit on the same key runs
// inside it and takes no second one. An exclusive call inside a permit gets
// ErrInvalidOption at once, because it would wait for itself. Fencing tokens
// are unique, but turns that run at the same time need not begin in their
// order.
//
// With [WithShared] in one list it is ErrInvalidOption. A later [Guard.With]
// replaces the mode. If a key has shared leases as well, those of one process
// count as one permit. A store without permits is refused as in WithShared.
func WithPermits(n int) Option {
	limit := n
	if n == 1 {
		limit = 0
	}
	return checked(n >= 1 && n < locker.NoLimit, func(c *config) { c.set.Limit, c.given.permits = limit, true },
		"Permits is %d, want 1 to %d", n, locker.NoLimit-1)
}

// Modes as observers see them.
const (
	modeShared  = "shared"
	modePermits = "permits"
)

// modeOf names the mode of a limit. An exclusive lease has none.
func modeOf(limit int) string {
	switch limit {
	case 0:
		return ""
	case locker.NoLimit:
		return modeShared
	}
	return modePermits
}

// info describes a call for observers, but for what is only of that call.
func (c *config) info(key string, limit int) WaitInfo {
	info := WaitInfo{Name: c.set.Name, Key: key, Mode: modeOf(limit), MaxHold: c.set.MaxHold}
	if info.Mode == modePermits {
		info.Permits = limit
	}
	return info
}
