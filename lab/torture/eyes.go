package main

import (
	"context"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
)

// eyes see in the store which process holds a key, and which processes wait for
// it. They bypass the failing network. Only guard has eyes, because the entries
// of other libraries do not name a process, and not on several servers of Redis.
type eyes struct {
	guard *guard.Guard
	offer time.Duration // the longest
}

// newEyes returns nil if there is nothing to see.
func newEyes(w *world, lib *libs.Library, cfg config) *eyes {
	if lib != libs.Guard || w.direct == nil {
		return nil
	}
	return &eyes{w.direct.Guard, judge.Offer(cfg.mostTTL())}
}

// state is empty if the server does not answer, because a fault may have
// stopped it.
func (e *eyes) state(ctx context.Context, key int) guard.KeyState {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	s, _ := e.guard.Inspect(ctx, contest.KeyName(key))
	return s
}

// roles returns the role of the killed process for each key. It was the holder
// if it owns the key at once, or for longer than an offer lasts. Otherwise it
// was a waiter if the queue names it or the key is handed to it. roles blocks
// for as long as an offer lasts, because requests of the dead process may still
// be on their way.
func (e *eyes) roles(ctx context.Context, pid, keys int) map[int]judge.Role {
	roles := map[int]judge.Role{}
	first := true
	for end := time.Now().Add(e.offer); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for key := range keys {
			s := e.state(ctx, key)
			owns := s.Holder.PID == pid || named(s.Owners, pid)
			switch {
			case owns && (first || s.Remaining > e.offer):
				roles[key] = judge.Holder
			case roles[key] == judge.Holder:
			case owns || named(s.Waiters, pid):
				roles[key] = judge.Waiter
			case roles[key] == "":
				roles[key] = judge.Bystander
			}
		}
		first = false
	}
	return roles
}

// named reports whether one of several owners or waiters is of a process.
func named(claims []locker.Waiter, pid int) bool {
	for _, w := range claims {
		if w.Holder.PID == pid {
			return true
		}
	}
	return false
}
