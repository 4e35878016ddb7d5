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

// maxTold is the length of the longest record that messages carry. Processes
// ask for a longer one.
const maxTold = 4 << 10

// markSign stands in front of a mark. No owner id begins with it.
const markSign = "*"

// keptBefore is the answer of keep.lua for a record that is there already.
const keptBefore = 2

var _ locker.Marker = (*Locker)(nil)

// recall is Acquire for a claim that recalls. It takes one round trip, whether
// there is a record, or the key is free or held. It takes two if there was a
// record lately that has gone since.
func (l *Locker) recall(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if record, err := l.read(ctx, c.Key, t); record != "" || err != nil {
		return locker.Answer{Record: record}, err
	}
	t.Rest = l.rest(t)
	calls := l.recallCalls(c, t)
	if l.settings.replicas > 0 {
		return l.replicated(ctx, c, func(own redisconn.Way) (locker.Answer, error) {
			return l.recalled(ctx, own, c, t, calls, run(ctx, own, calls...))
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
	record := l.recordName(c.Key)
	return []call{
		{line: []any{"get", record}},
		newCall(recallScript, 6, st.keys.lock, st.keys.wait, st.keys.due, st.keys.fence, st.keys.crowd, record,
			st.owner, entry, flag(t.Queued), int64(t.Place), max(t.Rest, locker.LookEvery).Milliseconds(), l.inboxes,
			wantedWord+c.Key, flag(!l.conn.Cluster()), c.Owner+st.about, c.TTL.Milliseconds(), flag(c.Fencing)),
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
			l.noteRecorded(c.Key)
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

// errForeignRecord is the error of a record that no guard has kept.
var errForeignRecord = errors.New("redislocker: something else has written the record of this key: Forget it, or " +
	"choose another prefix with WithPrefix")

// found is the answer for a record. If it has made way for a mark, the next try
// finds that out.
func found(text string, queued bool) (locker.Answer, error) {
	switch {
	case strings.HasPrefix(text, markSign):
		return locker.Answer{Queued: queued}, unclear(errNoAnswer)
	case len(text) <= locker.OwnerLen:
		return locker.Answer{Queued: queued}, errForeignRecord
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
	var released locker.Released
	err := l.confirmed(ctx, c.Key, keep, func(answer command) (err error) {
		released, err = kept(answer)
		return err
	})
	if err == nil {
		l.noteRecorded(c.Key)
	}
	return released, err
}

// confirmed sends a call for key whose answer read reads. If that succeeds, it
// waits for the replicas that [WithReplicas] asks for.
func (l *Locker) confirmed(ctx context.Context, key string, c call, read func(command) error) error {
	if l.settings.replicas == 0 {
		return read(l.run(ctx, c)[0])
	}
	send, done, err := l.conn.OneConn(ctx, l.lockName(key))
	if err != nil {
		return leaseError(err)
	}
	defer done()
	if err = read(run(ctx, send, c)[0]); err == nil {
		err = l.awaitReplicas(ctx, send)
	}
	if short := new(ReplicasError); errors.As(err, &short) {
		err = unclear(short)
	}
	return err
}

// keepCall is the request of a Keep.
func (l *Locker) keepCall(c *locker.Claim, next any, r locker.Record) call {
	st, told := l.state(c), r.Value
	if len(told) > maxTold {
		told = ""
	}
	k := st.keys
	return newCall(keepScript, 6, k.lock, k.wait, k.due, k.fence, k.crowd, l.recordName(c.Key),
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

// Begin marks the key of c, in one round trip. With [WithReplicas] it then waits
// until they have the mark.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.gate.Enter(); err != nil {
		return "", err
	}
	defer l.gate.Leave()
	st := l.state(c)
	begin := newCall(beginScript, 2, st.keys.lock, l.recordName(c.Key),
		st.owner, markSign+c.Owner+r.Value, r.TTL.Milliseconds())
	err = l.confirmed(ctx, c.Key, begin, func(answer command) (err error) {
		record, err = begun(answer)
		return err
	})
	return record, err
}

// begun reads the answer of begin.lua.
func begun(answer command) (record string, err error) {
	if answer.Err() != nil {
		return "", leaseError(answer.Err())
	}
	switch v := answer.Val().(type) {
	case int64:
		if v == 1 {
			return "", nil
		}
		return "", errNotOwner
	case string:
		if v = strings.TrimPrefix(v, markSign); len(v) > locker.OwnerLen {
			return v[locker.OwnerLen:], nil
		}
		return "", unclear(errForeignRecord)
	}
	return "", unclear(errNoAnswer)
}

// Unmark lets the end of c remove its mark.
func (l *Locker) Unmark(c *locker.Claim) { l.state(c).unmark = true }

// Forget deletes the record of key, in two round trips. The first finds out which
// record is meant, so that a Forget that arrives late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	k, record := l.keys(key), l.recordName(key)
	start, err := l.run(ctx, call{line: []any{"getrange", record, 0, locker.OwnerLen}})[0].Text()
	if err != nil {
		return false, unclear(err)
	}
	if start == "" {
		return false, nil
	}
	n, err := l.run(ctx, newCall(forgetScript, 2, k.lock, record, locker.OwnerLen, start))[0].Int()
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
