package postgreslocker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	lateAfter = time.Second      // when an Abandon with late is done again
	insistMax = 30 * time.Second // for which the requests of an Abandon are repeated without an answer
	leaveMax  = locker.QueueLife // the same for a claim that waits when the locker is closed
	closeMax  = time.Second      // for connections to end in order

	firstLimit = 250 * time.Millisecond
	lastLimit  = 2 * time.Second // short limits find a new connection soon
)

// Abandon takes c out of key and queue, in the background. It takes one request
// or two.
func (l *Locker) Abandon(c *locker.Claim, late bool) { l.abandon(endOf(c), late) }

func (l *Locker) abandon(e ending, late bool) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	l.forget(e.owner)
	l.gate.Go(func() {
		end := time.Now().Add(insistMax)
		l.insist(e, end)
		if late {
			l.pause(lateAfter, l.closing)
			l.insist(e, end)
		}
	})
}

// insist carries out e until there is an answer, or until end. Close ends the
// first of its pauses.
func (l *Locker) insist(e ending, end time.Time) {
	closing, limit, pause := l.closing, firstLimit, 10*time.Millisecond
	for time.Now().Before(end) && l.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(l.ctx, limit)
		_, err := l.release(ctx, e, nil)
		cancel()
		if !errors.Is(err, locker.ErrUnavailable) {
			return
		}
		if !l.pause(pause/2+rand.N(pause), closing) {
			closing, limit, pause = nil, firstLimit, 5*time.Millisecond // once
		}
		limit, pause = min(2*limit, lastLimit), min(2*pause, time.Second)
	}
}
