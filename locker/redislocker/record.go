package redislocker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

var (
	recallScript = newScript(consts(), lua("tokens", "recall", "entry", "back", "look"),
		allNames, inLook, lua("late", "crowd", "serve", "lookcrowd"))
	keepScript = newScript(consts(), inKeep, lua("keep", "release"), releaseTail)
)

// maxTold is the length of the longest record that messages carry. Processes
// ask for a longer one.
const maxTold = 4 << 10

// keptBefore is the answer of keep.lua for a record that is there already.
const keptBefore = 2

var _ locker.Recorder = (*Locker)(nil)

// recordName returns the name of a key's record, which is the owner id of the
// claim that kept it and the value.
func (k keys) recordName() string {
	wait, _ := k.wait.(string)
	return strings.TrimSuffix(wait, waitSuffix) + recordSuffix
}

// recall is Acquire for a claim that recalls. It takes one round trip, whether
// there is a record, or the key is free or held.
func (l *Locker) recall(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	t.Rest = l.rest(t)
	calls := l.recallCalls(c, t)
	if l.settings.replicas > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) {
			return l.recalled(ctx, own, t, calls, run(ctx, own, calls...))
		})
	}
	start := time.Now()
	var answers []command
	if l.conn.Trip.Tight(ctx) { // no time to learn that the server does not know the script
		answers = l.conn.SendPooled(ctx, l.lockName(c.Key), []command{calls[0].whole(ctx), calls[1].whole(ctx)})
	} else {
		answers = l.run(ctx, calls...)
	}
	if answers[1].Err() == nil {
		l.conn.NoteTrip(start)
	}
	return l.recalled(ctx, l.conn.Send, t, calls, answers)
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
	record := st.keys.recordName()
	return []call{
		{line: []any{"get", record}},
		newCall(recallScript, 6, st.keys.lock, st.keys.wait, st.keys.due, st.keys.fence, st.keys.crowd, record,
			st.owner, entry, flag(t.Queued), int64(t.Place), max(t.Rest, locker.LookEvery).Milliseconds(), l.inboxes,
			wantedWord+c.Key, flag(!l.conn.Cluster()), c.Owner+st.about, c.TTL.Milliseconds(), flag(c.Fencing)),
	}
}

// recalled reads the answers to the calls of a recall.
func (l *Locker) recalled(ctx context.Context, send redisconn.Way, t locker.Try, calls []call, answers []command,
) (locker.Answer, error) {
	queues := t.Wait || t.Queued
	if errors.Is(answers[1].Err(), redis.Nil) { // a crowd had ended: the key was freed just now
		answers = run(ctx, send, calls...)
	}
	if n, ok := answers[1].Val().(int64); ok && n == 1 {
		if errors.Is(answers[0].Err(), redis.Nil) { // kept between the two
			answers = run(ctx, send, calls[0])
		}
		return l.found(queues, answers[0])
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

// found reads a record. If it has ended meanwhile, the next try finds that out.
func (l *Locker) found(queued bool, answer command) (locker.Answer, error) {
	text, err := answer.Text()
	if err == nil && len(text) <= locker.OwnerLen {
		err = errNoAnswer
	}
	if err != nil {
		return locker.Answer{Queued: queued}, unclear(err)
	}
	return locker.Answer{Record: text[locker.OwnerLen:]}, nil
}

// Keep is [Locker.Release] with a record, in one round trip. With
// [WithReplicas] it then waits until they have the record.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	st := l.state(c)
	again := l.keepCall(c, "", r)
	st.keep = &again
	keep := again
	if next != nil {
		l.inbox.open()
		keep = l.keepCall(c, l.queued(next), r)
	}
	l.recent.note(c.Key, c.Owner, c.TTL)
	if l.settings.replicas == 0 {
		return kept(l.run(ctx, keep)[0])
	}
	send, done, err := l.conn.OneConn(ctx, l.lockName(c.Key))
	if err != nil {
		return locker.Released{}, leaseError(err)
	}
	defer done()
	released, err := kept(run(ctx, send, keep)[0])
	if err == nil {
		err = l.awaitReplicas(ctx, send)
	}
	if short := new(ReplicasError); errors.As(err, &short) {
		err = unclear(short)
	}
	return released, err
}

// keepCall is the request of a Keep.
func (l *Locker) keepCall(c *locker.Claim, next any, r locker.Record) call {
	st, told := l.state(c), r.Value
	if len(told) > maxTold {
		told = ""
	}
	k := st.keys
	return newCall(keepScript, 6, k.lock, k.wait, k.due, k.fence, k.crowd, k.recordName(),
		st.owner, "", next, l.inboxes, flag(!l.conn.Cluster()), c.Key,
		c.Owner+r.Value, r.TTL.Milliseconds(), told)
}

// kept reads the answer of keep.lua.
func kept(answer command) (locker.Released, error) {
	if n, ok := answer.Val().(int64); ok && answer.Err() == nil && n == keptBefore {
		return locker.Released{}, nil
	}
	return freed(answer)
}

// Forget deletes the record of key, in one round trip.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	n, err := l.run(ctx, call{line: []any{"del", l.keys(key).recordName()}})[0].Int()
	if err != nil {
		return false, unclear(err)
	}
	return n == 1, nil
}

// readKept reads a kept message.
func readKept(text string) (key, owner, value string, ok bool) {
	rest, ok := strings.CutPrefix(text, keptWord)
	owner, rest, _ = strings.Cut(rest, " ")
	key, value, cut := strings.Cut(rest, "\n") // a key has no control bytes
	return key, owner, value, ok && cut && len(owner) == locker.OwnerLen
}
