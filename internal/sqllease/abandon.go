package sqllease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	lateAfter  = time.Second      // when an Abandon with late is done again
	insistMax  = 30 * time.Second // for which the requests of an Abandon are repeated without an answer
	leaveMax   = locker.QueueLife // the same for a claim that waits when the locker is closed
	insistTry  = time.Second      // limit of one request
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Abandon takes c out of key and queue, in the background.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	l.forget(c.Owner)
	q := ending(c)
	l.gate.Go(func() {
		end := time.Now().Add(insistMax)
		l.insist(q, end)
		if late {
			l.pause(lateAfter)
			l.insist(q, end)
		}
	})
}

// giveBack releases a key that was granted to a claim which nobody knows (law
// 3). After Close it does nothing: Close has released all claims that waited.
func (l *Locker) giveBack(key, owner string) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	l.forget(owner)
	l.gate.Go(func() { l.insist(request{verb: release, key: key, owner: owner}, time.Now().Add(insistMax)) })
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

// insist sends q until that is answered, or until end. Close ends the first of
// its pauses.
func (l *Locker) insist(q request, end time.Time) {
	closing, wait := l.closing, firstPause
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(l.ctx, insistTry)
		r := l.lanes.do(ctx, q)
		cancel()
		if r.err == nil {
			return
		}
		if !errors.Is(l.sorted(r.err), locker.ErrUnavailable) {
			return // it would fail again
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-closing:
			closing, wait = nil, firstPause // once
		}
		t.Stop()
		wait = min(2*wait, lastPause)
	}
}

// leaveAll takes the claims that wait here out of their queues.
func (l *Locker) leaveAll() {
	l.mu.Lock()
	keys := make(map[string]string, len(l.queued))
	for owner, w := range l.queued {
		keys[owner] = w.claim.Key
	}
	clear(l.queued)
	l.mu.Unlock()
	var all sync.WaitGroup
	for owner, key := range keys {
		all.Go(func() { l.insist(request{verb: release, key: key, owner: owner}, time.Now().Add(leaveMax)) })
	}
	all.Wait()
}
