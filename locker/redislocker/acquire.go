package redislocker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// obtain takes the key. An empty answer means that somebody else holds it.
func (l *Locker) obtain(ctx context.Context, c *locker.Claim) (locker.Answer, error) {
	if l.replicas.want > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) { return l.obtainBy(ctx, own, c) })
	}
	return l.obtainBy(ctx, nil, c)
}

// replicated acquires c by a function that sends its request by a way of its
// own. It then waits for the replicas.
func (l *Locker) replicated(ctx context.Context, c *locker.Claim,
	acquire func(own redisconn.Way) (locker.Answer, error),
) (answer locker.Answer, err error) {
	send, done, err := l.conn.OneConn(ctx, l.names.lock(c.Key))
	if err != nil {
		return answer, l.tryError(err)
	}
	defer done()
	answer, err = acquire(send)
	if err != nil || !answer.Acquired {
		return answer, err
	}
	if err := l.replicas.await(ctx, send); err != nil {
		// Free the key now, not in the background: the next try may have the
		// same owner id. A release without an answer may arrive after that try,
		// so there must be no such try. Queued makes the guard give the claim
		// up.
		st := l.state(c)
		answers := run(ctx, send, l.releaseCall(c.Key, st.keys, st.owner, "", ""), infoReplication)
		if short := new(ReplicasError); errors.As(err, &short) {
			short.Connected = connected(answers[1])
			err = unclear(short)
		}
		return locker.Answer{Queued: answers[0].Err() != nil}, err
	}
	return answer, nil
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
		tr = &travel{server: l.server, own: own, behind: []call{fenceCall(c, l.state(c).keys, 0)}}
		locks = redislock.New(tr)
	case own != nil:
		locks = redislock.New(&travel{server: l.server, own: own})
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

// acquireFar is Acquire if there is time for only one round trip. It obtains
// the key and looks at it in one request. So a claim in the queue may become
// the owner one command before it leaves the queue. Nobody can release the key
// in between (law 2).
func (l *Locker) acquireFar(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	t.Rest = l.rest(t)
	look, queues := l.lookCall(c, t)
	over := func(ctx context.Context, cmds ...command) []command {
		return l.conn.SendPooled(ctx, l.names.lock(c.Key), cmds)
	}
	tr := &travel{server: l.server, own: over, whole: true, behind: []call{look}}
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
		wantedWord+c.Key, l.known), entry != ""
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

// crowdMark is the start of a lock that several claims own, see crowd.lua. It
// is as long as an owner id, and is none.
const crowdMark = "*guard:several-own-it*"

// share is Acquire for a claim with a limit above 1. It takes one round trip,
// whether or not somebody owns the key. Such a claim never rests, because it
// may get a share of the key that nobody gives back.
func (l *Locker) share(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	enter := l.enterCall(c, t)
	if l.replicas.want > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) {
			return l.entered(t, run(ctx, own, enter)[0])
		})
	}
	start := time.Now()
	var answer command
	if l.conn.Trip.Tight(ctx) { // no time to learn that the server does not know the script
		answer = l.conn.SendPooled(ctx, l.names.lock(c.Key), []command{enter.whole(ctx)})[0]
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
		wantedWord+c.Key, l.known, flag(t.Wait || t.Queued), c.TTL.Milliseconds())
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

// recall is Acquire for a claim that recalls. It takes one round trip, whether
// there is a record, or the key is free or held. It takes two if there was a
// record lately that has gone since.
func (l *Locker) recall(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if record, err := l.read(ctx, c.Key, t); record != "" || err != nil {
		return locker.Answer{Record: record}, err
	}
	t.Rest = l.rest(t)
	calls := l.recallCalls(c, t)
	if l.replicas.want > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) {
			return l.recalled(ctx, own, c, t, calls, run(ctx, own, calls...))
		})
	}
	start := time.Now()
	var answers []command
	if l.conn.Trip.Tight(ctx) { // no time to learn that the server does not know the script
		answers = l.conn.SendPooled(ctx, l.names.lock(c.Key), []command{calls[0].whole(ctx), calls[1].whole(ctx)})
	} else {
		answers = l.run(ctx, calls...)
	}
	if answers[1].Err() == nil {
		l.conn.NoteTrip(start)
	}
	return l.recalled(ctx, l.conn.Send, c, t, calls, answers)
}

// recallCalls is the request of a recall: a GET of the record, and the script.
func (l *Locker) recallCalls(c *locker.Claim, t locker.Try) []call {
	st := l.state(c)
	st.asked = true
	var entry any = ""
	if t.Wait || t.Queued {
		l.inbox.open()
		entry = l.queued(c)
	}
	record := l.names.record(c.Key)
	return []call{
		{line: []any{"get", record}},
		newCall(recallScript, 6, st.keys.lock, st.keys.wait, st.keys.due, st.keys.fence, st.keys.crowd, record,
			st.owner, entry, flag(t.Queued), int64(t.Place), max(t.Rest, locker.LookEvery).Milliseconds(), l.inboxes,
			wantedWord+c.Key, l.known, c.Owner+st.about, c.TTL.Milliseconds(), flag(c.Fencing)),
	}
}

// recalled reads the answers to the calls of a recall.
func (l *Locker) recalled(ctx context.Context, send redisconn.Way, c *locker.Claim, t locker.Try, calls []call,
	answers []command,
) (locker.Answer, error) {
	queues := t.Wait || t.Queued
	if errors.Is(answers[1].Err(), redis.Nil) { // a crowd had ended: the key was freed just now
		answers = run(ctx, send, calls...)
	}
	if text, ok := answers[1].Val().(string); ok {
		return found(strings.TrimPrefix(text, markSign), queues)
	}
	if n, ok := answers[1].Val().(int64); ok && n == 1 {
		text, err := answers[0].Text()
		if errors.Is(err, redis.Nil) || strings.HasPrefix(text, markSign) { // kept between the two
			text, err = run(ctx, send, calls[0])[0].Text()
		}
		if err != nil {
			return locker.Answer{Queued: queues}, unclear(err)
		}
		a, err := found(text, queues)
		if err == nil {
			l.names.noteRecorded(c.Key)
		}
		return a, err
	}
	if parts, ok := answers[1].Val().([]any); ok && len(parts) == 1 {
		text, _ := parts[0].(string)
		token, err := parseToken(text)
		if err != nil {
			return locker.Answer{}, unclear(errors.Join(errNoAnswer, err))
		}
		return locker.Answer{Acquired: true, Token: token}, nil
	}
	a, free, err := l.seen(answers[1], queues, t.Rest)
	if free {
		err = unclear(errNoAnswer)
	}
	return a, err
}

// read returns the record of a key that had one lately. It returns "" if a recall
// must follow. Only a recall can say whether a mark counts, and only it takes a
// claim out of the queue.
func (l *Locker) read(ctx context.Context, key string, t locker.Try) (record string, err error) {
	place := l.names.place(key)
	last := place.Load()
	if last == nil || last.key != key || last.record == nil || t.Queued || l.conn.Trip.Tight(ctx) {
		return "", nil
	}
	text, err := l.run(ctx, call{line: []any{"get", last.record}})[0].Text()
	switch {
	case err == nil && len(text) > locker.OwnerLen && !strings.HasPrefix(text, markSign):
		return text[locker.OwnerLen:], nil
	case err == nil, errors.Is(err, redis.Nil):
		place.CompareAndSwap(last, &knownKey{key: key, keys: last.keys})
		return "", nil
	}
	return "", l.tryError(err)
}
