package zookeeperlocker

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	lateAfter  = time.Second      // when an Abandon with late is done again
	insistMax  = 30 * time.Second // for which a request without an answer is repeated
	firstLimit = 250 * time.Millisecond
	lastLimit  = 2 * time.Second // short limits find a new leader soon
)

// Abandon takes c out of key and queue, in the background. It takes two
// requests or three.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	entry := ""
	if st, ok := c.State.(*state); ok {
		entry = l.leaves(st)
	}
	l.disown(c.Key, c.Owner)
	key, owner := c.Key, c.Owner
	l.gate.Go(func() {
		end := time.Now().Add(insistMax)
		l.clear(key, owner, entry, end)
		if late {
			l.pause(lateAfter)
			l.clear(key, owner, entry, end)
		}
	})
}

// pause waits for d, or until the locker is closed.
func (l *Locker) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closing:
	}
}

// clear leaves nothing of an owner id behind. It tries until end.
func (l *Locker) clear(key, owner, entry string, end time.Time) {
	l.insist(end, func(ctx context.Context) error { return l.leave(ctx, key, owner, entry) })
}

// insist calls try until it succeeds, or until end. Without rights it cannot.
// Close ends the first of its pauses.
func (l *Locker) insist(end time.Time, try func(ctx context.Context) error) {
	closing := l.closing
	limit, pause := firstLimit, 10*time.Millisecond
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(l.ctx, limit)
		err := try(ctx)
		cancel()
		if err == nil || lacksRights(err) {
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-closing:
			closing = nil // once
			limit, pause = firstLimit, 5*time.Millisecond
		}
		t.Stop()
		limit, pause = min(2*limit, lastLimit), min(2*pause, time.Second)
	}
}

// leave takes an owner id out of the queue. If it owns the key, or nobody does,
// the key goes to the first in the queue, and marks that have no owner go.
func (l *Locker) leave(ctx context.Context, key, owner, entry string) error {
	if entry != "" {
		if err := l.delete(ctx, entry); err != nil {
			return err
		}
	}
	if _, err := l.free(ctx, key, owner, nil); !errors.Is(err, locker.ErrLeaseLost) {
		return err
	}
	return nil
}
