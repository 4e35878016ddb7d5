package redislocker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// fenceLife is how far the server's clock may step back before a fencing token
// could fall behind. The counter outlives its last token by this time, see
// model/README.md. NTP clients step by less than 17 minutes of their own
// accord.
const fenceLife = 20 * time.Minute

// Acquire tries once. It takes one round trip, or two if the key is held. The
// second finds the holder and queues the claim. A claim that is in the queue,
// or whose key is likely to be held, looks first.
//
// See [locker.Locker] for the errors. A refusal by the server that a new try
// cannot change is none of those errors, and says what to do. Missing rights
// and a key of another type are such refusals.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Answer{}, err
	}
	defer l.gate.Leave()
	if err := l.fits(c.Key); err != nil {
		return locker.Answer{}, err
	}
	if err := l.connected(ctx, c.Key); err != nil {
		if t.Wait {
			l.inbox.open() // opens its connection meanwhile
		}
		return locker.Answer{}, err
	}
	switch {
	case c.Limit > 1:
		return l.share(ctx, c, t)
	case c.Recall:
		return l.recall(ctx, c, t)
	}
	if l.conn.Trip.Tight(ctx) && l.settings.replicas == 0 {
		return l.acquireFar(ctx, c, t)
	}
	if !t.Held && !t.Queued {
		start := time.Now()
		answer, err := l.obtain(ctx, c)
		if err == nil {
			l.conn.NoteTrip(start)
		}
		if err != nil || answer.Acquired {
			return answer, err
		}
	}
	answer, free, err := l.look(ctx, c, t)
	if free {
		return l.obtain(ctx, c) // the claim has left the queue, even if this fails (law 2)
	}
	return answer, err
}

// obtain takes the key. An empty answer means that somebody else holds it.
func (l *Locker) obtain(ctx context.Context, c *locker.Claim) (locker.Answer, error) {
	if l.settings.replicas > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) { return l.obtainBy(ctx, own, c) })
	}
	return l.obtainBy(ctx, nil, c)
}

// obtainBy is obtain with a way of its own. A nil way is the way of all
// requests.
//
// The first request of a claim is SET with NX, which costs the server a tenth
// of redislock's script. But it refuses a claim that owns its key already, so
// every later request goes through redislock.
func (l *Locker) obtainBy(ctx context.Context, own redisconn.Way, c *locker.Claim) (locker.Answer, error) {
	if st := l.state(c); !st.asked {
		st.asked = true
		return l.first(ctx, own, c)
	}
	locks, tr := l.locks, (*travel)(nil)
	switch {
	case c.Fencing:
		tr = &travel{locker: l, own: own, behind: []call{fenceCall(c, l.state(c).keys, 0)}}
		locks = redislock.New(tr)
	case own != nil:
		locks = redislock.New(&travel{locker: l, own: own})
	}
	err := l.set(ctx, locks, c)
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return locker.Answer{}, nil
	case err != nil:
		return locker.Answer{}, l.tryError(err)
	case !c.Fencing:
		return locker.Answer{Acquired: true}, nil
	}
	token, err := l.fenced(c, tr.answers[0])
	return locker.Answer{Acquired: err == nil, Token: token}, err
}

// first makes c the owner of its key by SET with NX. The value is the one that
// redislock sets, so that plain users of redislock exclude each other with us.
func (l *Locker) first(ctx context.Context, own redisconn.Way, c *locker.Claim) (locker.Answer, error) {
	st := l.state(c)
	st.line = [...]any{set, st.keys.lock, st.value, px, st.ttl, nx}
	call := call{line: st.line[:]}
	if !c.Fencing {
		taken, err := l.taken(l.runOne(ctx, own, call))
		return locker.Answer{Acquired: taken}, err
	}
	if own == nil {
		own = l.conn.Send
	}
	answers := run(ctx, own, call, fenceCall(c, st.keys, 0))
	if taken, err := l.taken(answers[0]); !taken {
		return locker.Answer{}, err
	}
	token, err := l.fenced(c, answers[1])
	return locker.Answer{Acquired: err == nil, Token: token}, err
}

// taken reads the answer to SET with NX.
func (l *Locker) taken(answer command) (bool, error) {
	err := answer.Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, l.tryError(err)
}

// set makes c the owner of its key, through redislock.
func (l *Locker) set(ctx context.Context, by *redislock.Client, c *locker.Claim) error {
	st := l.state(c)
	st.asked = true
	lock, _ := st.keys.lock.(string)
	_, err := by.Obtain(ctx, lock, c.TTL, &redislock.Options{Token: c.Owner, Metadata: st.about})
	return err
}

// look finds the holder of the key, and queues c if it waits. free reports that
// the key has no holder, or that c itself holds it, as after a lost message.
func (l *Locker) look(ctx context.Context, c *locker.Claim, t locker.Try) (a locker.Answer, free bool, err error) {
	t.Rest = l.rest(t)
	call, queues := l.lookCall(c, t)
	start := time.Now()
	answer := l.runOne(ctx, nil, call)
	if answer.Err() == nil {
		l.conn.NoteTrip(start)
	}
	return l.seen(answer, queues, t.Rest)
}

// rest returns for how long a claim may go unseen after this look. The result
// is 0 if the claim must keep the usual pace. A message must be sure to find
// the claim's process, and in a cluster nobody knows whom a message reaches
// (laws 5 and 7).
func (l *Locker) rest(t locker.Try) time.Duration {
	if l.conn.Cluster() || !l.inbox.live.Load() {
		return 0
	}
	return min(t.Rest, locker.MaxRest)
}

// lookCall is the request of a look, which queues c if it waits. t.Rest is the
// rest to be granted.
func (l *Locker) lookCall(c *locker.Claim, t locker.Try) (call call, queues bool) {
	st := l.state(c)
	var entry any = ""
	if t.Wait || t.Queued {
		l.inbox.open()
		entry = l.queued(c)
	}
	return newCall(lookScript, 5, st.keys.lock, st.keys.wait, st.keys.due, st.keys.fence, st.keys.crowd,
		st.owner, entry, flag(t.Queued), int64(t.Place), max(t.Rest, locker.LookEvery).Milliseconds(), l.inboxes,
		wantedWord+c.Key, flag(!l.conn.Cluster())), entry != ""
}

// seen reads the answer to a look that granted a rest. There is no rest if the
// holder is not a guard, because it will not hand the key over.
func (l *Locker) seen(answer command, queues bool, rest time.Duration) (a locker.Answer, free bool, err error) {
	parts, err := answer.Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return a, true, nil
	case err == nil && len(parts) == 2:
		return a, false, newerError{"above " + strconv.Itoa(entryVersion)}
	case err == nil && len(parts) != 3:
		err = errNoAnswer
	}
	if err != nil {
		return locker.Answer{Queued: queues}, false, l.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	a.Remaining, a.Holder = time.Duration(max(ttl, 0))*time.Millisecond, holder(value)
	a.Place, a.Queued = place(parts[2])
	if a.Queued && a.Holder.Instance != "" {
		a.Rest = rest
	}
	return a, false, nil
}

// place reads a place in the queue as scripts return it.
func place(part any) (locker.Place, bool) {
	text, _ := part.(string)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return locker.Place(n), err == nil
}

// fenced returns the fencing token of a try that took the key. Without a token
// the whole try has failed. If no other try will follow, fenced gives the key
// back.
func (l *Locker) fenced(c *locker.Claim, answer command) (uint64, error) {
	token, err := token(answer)
	switch {
	case err == nil:
		return token, nil
	case errors.Is(err, redis.Nil):
		return 0, unclear(errors.New("the key was deleted at once"))
	case l.refused(err):
		l.Abandon(c, false)
	}
	return 0, l.tryError(err)
}

// Fence reserves a block of tokens in one round trip.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	return l.fenceFrom(ctx, c, 0)
}

// fenceFrom is [Locker.Fence] with no token below floor.
func (l *Locker) fenceFrom(ctx context.Context, c *locker.Claim, floor uint64) (uint64, error) {
	if err := l.gate.Enter(); err != nil {
		return 0, err
	}
	defer l.gate.Leave()
	token, err := token(l.run(ctx, fenceCall(c, l.keys(c.Key), floor))[0])
	if errors.Is(err, redis.Nil) {
		return 0, errNotOwner
	}
	return token, leaseError(err)
}

func fenceCall(c *locker.Claim, k keys, floor uint64) call {
	return newCall(fenceScript, 3, k.lock, k.fence, k.crowd, c.Owner, block, counterLife, floor)
}

func token(answer command) (uint64, error) {
	text, err := answer.Text()
	if err != nil {
		return 0, err
	}
	return parseToken(text)
}

func parseToken(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fencing token: %w", err)
	}
	return n, nil
}
