package redislocker

import (
	"context"
	"errors"
	"time"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// crowdMark is the start of a lock that several claims own, see crowd.lua. It
// is as long as an owner id, and is none.
const crowdMark = "*guard:several-own-it*"

var _ locker.Sharer = (*Locker)(nil)

// Shares reports true: Redis keeps shared claims and permits.
func (*Locker) Shares(int) bool { return true }

// share is Acquire for a claim with a limit above 1. It takes one round trip,
// whether or not somebody owns the key. Such a claim never rests, because it
// may get a share of the key that nobody gives back.
func (l *Locker) share(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	enter := l.enterCall(c, t)
	if l.settings.replicas > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) {
			return l.entered(t, run(ctx, own, enter)[0])
		})
	}
	start := time.Now()
	var answer command
	if l.conn.Trip.Tight(ctx) { // no time to learn that the server does not know the script
		answer = l.conn.SendPooled(ctx, l.lockName(c.Key), []command{enter.whole(ctx)})[0]
	} else {
		answer = l.run(ctx, enter)[0]
	}
	if answer.Err() == nil {
		l.conn.NoteTrip(start)
	}
	return l.entered(t, answer)
}

func (l *Locker) enterCall(c *locker.Claim, t locker.Try) call {
	if t.Wait || t.Queued {
		l.inbox.open()
	}
	st := l.state(c)
	return newCall(enterScript, 5, st.keys.lock, st.keys.wait, st.keys.due, st.keys.fence, st.keys.crowd,
		st.owner, l.queued(c), flag(t.Queued), int64(t.Place), locker.LookEvery.Milliseconds(), l.inboxes,
		wantedWord+c.Key, flag(!l.conn.Cluster()), flag(t.Wait || t.Queued), c.TTL.Milliseconds())
}

// entered reads the answer of enter.lua.
func (l *Locker) entered(t locker.Try, answer command) (locker.Answer, error) {
	if answer.Err() != nil {
		return locker.Answer{Queued: t.Wait || t.Queued}, l.tryError(answer.Err())
	}
	if text, ok := answer.Val().(string); ok {
		token, err := parseToken(text)
		if err != nil {
			return locker.Answer{}, unclear(errors.Join(errNoAnswer, err))
		}
		return locker.Answer{Acquired: true, Token: token}, nil
	}
	a, _, err := l.seen(answer, t.Wait || t.Queued, 0)
	return a, err
}
