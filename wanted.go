package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-lockguard/guard/internal/turns"
)

// Wanted returns a channel that is closed once another call waits for the key
// of the innermost lease in ctx, in this process or another. It is for work
// that takes long and can stop early: finish the batch, and return. Inside a
// [Guard.DoAll] a call that waits for any of its keys counts, but not inside a
// [Guard.Do] on another key there. A shared lease or a permit is wanted by each
// call that waits for the key. Calls inside the same lease do not count.
//
//	for batch := range batches {
//		work(ctx, batch)
//		select {
//		case <-guard.Wanted(ctx):
//			return nil // the next one goes on
//		default:
//		}
//	}
//
// The channel is a hint. It may be closed though the other call has given up.
// It is closed within a message's time, and if the message is lost, at the next
// renewal, which looks into the store if somebody asks. It is not closed when
// the lease ends, so look at ctx too. Outside of a lease it is nil, which
// blocks for ever.
//
// In a function of [Guard.Lead] only [Guard.AskLeader] closes the channel. The
// instances that wait for their election always want the key.
//
// Wanted does not block, and is safe for concurrent use. All calls for one
// lease return the same channel.
func Wanted(ctx context.Context) <-chan struct{} {
	in, ok := LeaseFrom(ctx)
	if !ok {
		return nil
	}
	l := in
	for l.outer != nil && !l.all.several() {
		l = l.outer
	}
	s := l.signal.Load()
	if s == nil {
		l.signal.CompareAndSwap(nil, new(turns.Signal))
		s = l.signal.Load()
	}
	return s.C(func() {
		for ; in != nil; in = in.enclosing { // those of a DoAll are one after the other
			if in.signal.Load() == s {
				in.notify(s)
			}
		}
	})
}

// notify sends s when l's turn is wanted.
func (l *Lease) notify(s *turns.Signal) {
	if l.bare {
		return
	}
	l.turn.Notify(s)
	for l.outer != nil {
		l = l.outer
	}
	if l.guard.set.Lead && !l.listens.Swap(true) {
		go l.listen() // ends with l, or when the guard is closed
	}
}

// AskLeader asks the leader of key, in this process or another, to step down:
// it closes the channel that [Wanted] returns in the function of [Guard.Lead].
// It is for a deploy, after the new instance stands for election, and before
// the old one is stopped. The next leader is the instance that has waited
// longest.
//
// AskLeader waits until the function of the leader has returned, or its lease
// has ended, as long as ctx lives, whatever MaxWait says. A leader that has not
// called Wanted, or only just now, does not hear it. asked reports whether one
// heard, or another request is under way. Otherwise AskLeader returns false
// without waiting. With [WithPermits] it asks all leaders.
//
// Its errors are those of [Guard.Acquire]. If ctx ends first, the error Is
// ErrNotAcquired and ctx's, and the leader has been asked. Do not call it with
// the ctx of the leader itself, which would wait for itself. AskLeader is safe
// for concurrent use.
func (g *Guard) AskLeader(ctx context.Context, key string) (asked bool, err error) {
	g, err = g.resolve()
	if err != nil {
		return false, err
	}
	if err := checkKey(key); err != nil {
		return false, err
	}
	g = g.forRequests(forever)
	g.set.Limit = 0
	l, err := g.TryAcquire(ctx, requestKey(key))
	if held := (*HeldError)(nil); errors.As(err, &held) {
		asked = ctx.Err() == nil // otherwise held may be the cause of ctx
		l, err = g.Acquire(ctx, requestKey(key))
	}
	if err != nil {
		return asked, err
	}
	_ = l.Release(ctx) // otherwise it ends with its TTL, and only requests wait for it
	return asked, nil
}

// forRequests returns a guard for request keys, which nobody sees.
func (g *Guard) forRequests(maxWait time.Duration) *Guard {
	c := g.config
	c.observers, c.logger = nil, slog.New(slog.DiscardHandler)
	c.set = turns.Settings{
		TTL: c.set.TTL, MaxWait: maxWait, Backoff: c.set.Backoff, Name: c.set.Name, Limit: c.set.Limit,
	}
	return &Guard{config: c, family: g.family}
}

// listen holds the request key of l, which leads, and passes on that somebody
// waits for it. After an outage listen begins anew.
func (l *Lease) listen() {
	g := l.guard.forRequests(defaults().set.MaxWait)
	for n := 0; l.ctx.Err() == nil; n++ {
		ear, err := g.Acquire(l.ctx, requestKey(l.key))
		if err != nil {
			if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotAcquired) {
				return
			}
			g.family.pause(l.ctx, betweenElections.Pause(n))
			continue
		}
		select {
		case <-Wanted(ear.Context()):
			l.turn.Want()
			<-ear.Context().Done()
		case <-ear.Context().Done():
		}
		_ = ear.Release(l.ctx)
	}
}
