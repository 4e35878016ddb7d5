package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/torture/libs"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// eyes see in the store which process holds a key, and which processes wait for
// it. They bypass the failing network. Only a guard on a single server has
// eyes, because the entries of other libraries do not name a process.
type eyes struct {
	guard *guard.Guard
	rdb   *redis.Client
}

// newEyes returns nil if there is nothing to see.
func newEyes(w *world, lib *libs.Library) (*eyes, error) {
	if lib != libs.Guard || w.topology != libs.Single {
		return nil, nil
	}
	rdb := redis.NewClient(&redis.Options{Addr: w.addrs[0], MaxRetries: -1, ContextTimeoutEnabled: true})
	g, err := guard.New(redislocker.New(rdb), guard.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return &eyes{g, rdb}, nil
}

func (e *eyes) close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = e.guard.Close(ctx)
	_ = e.rdb.Close()
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
	for end := time.Now().Add(judge.Offer(mostTTL)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for key := range keys {
			s := e.state(ctx, key)
			owns := s.Holder.PID == pid || named(s.Owners, pid)
			switch {
			case owns && (first || s.Remaining > judge.Offer(mostTTL)):
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
