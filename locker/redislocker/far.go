package redislocker

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/go-lockguard/guard/locker"
)

// acquireFar is Acquire if there is time for only one round trip. It obtains
// the key and looks at it in one request. So a claim in the queue may become
// the owner one command before it leaves the queue. Nobody can release the key
// in between (law 2).
func (l *Locker) acquireFar(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	t.Rest = l.rest(t)
	look, queues := l.lookCall(c, t)
	over := func(ctx context.Context, cmds ...command) []command {
		return l.conn.SendPooled(ctx, l.lockName(c.Key), cmds)
	}
	tr := &travel{locker: l, own: over, whole: true, behind: []call{look}}
	if c.Fencing {
		tr.behind = append(tr.behind, fenceCall(c, l.state(c).keys, 0))
	}
	start := time.Now()
	err := l.set(ctx, redislock.New(tr), c)
	if err == nil || errors.Is(err, redislock.ErrNotObtained) {
		l.conn.NoteTrip(start)
	}
	switch {
	case err == nil && c.Fencing:
		token, err := l.fenced(c, tr.answers[1])
		return locker.Answer{Acquired: err == nil, Token: token}, err
	case err == nil:
		return locker.Answer{Acquired: true}, nil
	case !errors.Is(err, redislock.ErrNotObtained):
		return locker.Answer{Queued: queues}, l.tryError(err)
	}
	answer, free, err := l.seen(tr.answers[0], queues, t.Rest)
	if free {
		return l.obtain(ctx, c)
	}
	return answer, err
}
