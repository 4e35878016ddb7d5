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

// fenceLife is how far the server's clock may step back before a fencing token
// could fall behind. The counter outlives its last token by this time, see
// model/fence.pml. NTP clients step by less than 17 minutes of their own
// accord.
const fenceLife = 20 * time.Minute

// crowdMark is the start of a lock that several claims own, see crowd.lua. It
// is as long as an owner id, and is none.
const crowdMark = "*guard:several-own-it*"

// attempt is one Acquire, and belongs to the goroutine of that call.
type attempt struct {
	*Locker

	claim  *locker.Claim
	state  *state
	try    locker.Try
	queues bool               // the attempt may queue the claim
	send   redisconn.SendFunc // of its requests; with replicas the connection that waits for them

	// rest is for how long the claim may go unseen after the look that is under
	// way. A claim without a rest (0) must keep the usual pace.
	rest time.Duration
}

// take sends the request that may take the key. An empty answer means that
// somebody else holds the key. With replicas, take waits for them.
func (a *attempt) take(ctx context.Context) (answer locker.Answer, err error) {
	if a.settings.replicas == 0 {
		return a.request(ctx)
	}
	send, done, err := a.conn.OneConn(ctx, a.names.lock(a.claim.Key))
	if err != nil {
		return answer, a.tryError(err)
	}
	defer done()
	a.send = send
	answer, err = a.request(ctx)
	if err != nil || !answer.Acquired {
		return answer, err
	}
	if err := a.awaitReplicas(ctx, send); err != nil {
		// Free the key now, not in the background: the next try may have the
		// same owner id. A release without an answer may arrive after that try,
		// so there must be no such try. Queued makes the guard give the claim
		// up.
		answers := a.over(ctx, send, a.releaseCall(a.claim.Key, a.state.keys, a.state.owner, "", ""),
			call{line: []any{"info", "replication"}})
		if short := new(ReplicasError); errors.As(err, &short) {
			text, _ := answers[1].Text()
			short.Connected = replicasIn(redisconn.ReadInfo(text))
			err = unclear(short)
		}
		return locker.Answer{Queued: answers[0].Err() != nil}, err
	}
	return answer, nil
}

// request is take without replicas.
//
// The first request of a claim is SET with NX, which costs the server a tenth
// of redislock's script. The value is the one that redislock sets, so that
// plain users of redislock exclude each other with us. But SET with NX refuses
// a claim that owns its key already, so every later request goes through
// redislock. A claim that wants fencing tokens gets them together with the key.
func (a *attempt) request(ctx context.Context) (locker.Answer, error) {
	st := a.state
	switch {
	case a.claim.Limit > 1:
		return a.enter(ctx)
	case a.claim.Recall:
		return a.recall(ctx)
	case a.claim.Fencing:
		return a.fenced(ctx)
	case st.asked:
		return a.obtain(ctx)
	}
	st.asked = true
	st.line = [...]any{set, st.keys.lock, st.value, px, st.ttl, nx}
	switch err := a.one(ctx, call{line: st.line[:]}).Err(); {
	case errors.Is(err, redis.Nil):
		return locker.Answer{}, nil
	case err != nil:
		return locker.Answer{}, a.tryError(err)
	}
	return locker.Answer{Acquired: true}, nil
}

// one runs a call over the attempt's connections.
func (a *attempt) one(ctx context.Context, c call) command {
	if a.settings.replicas > 0 {
		return a.over(ctx, a.send, c)[0]
	}
	return a.runOne(ctx, c)
}

// obtain makes the claim the owner of its key by redislock.
func (a *attempt) obtain(ctx context.Context) (locker.Answer, error) {
	by := a.locks
	if a.settings.replicas > 0 {
		by = redislock.New(&scripter{to: a.send})
	}
	lock, _ := a.state.keys.lock.(string)
	value, _ := a.state.value.(string)
	_, err := by.Obtain(ctx, lock, a.claim.First(), &redislock.Options{
		Token: a.claim.Owner, Metadata: value[len(a.claim.Owner):],
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return locker.Answer{}, nil
	}
	return locker.Answer{Acquired: err == nil}, a.tryError(err)
}

// fenced makes the claim the owner of its key, and reserves its tokens.
func (a *attempt) fenced(ctx context.Context) (locker.Answer, error) {
	take := several{Locker: a.Locker}.call([]*locker.Claim{a.claim}, false)
	as, _, err := a.readAll(a.one(ctx, take), 1)
	if err != nil || !as[0].Acquired {
		return locker.Answer{}, err
	}
	return as[0], nil
}

// look finds the holder of the key, and queues the claim if it waits. free
// reports that the key has no holder, or that the claim itself holds it, as
// after a lost message.
func (a *attempt) look(ctx context.Context) (answer locker.Answer, free bool, err error) {
	return a.readLook(a.runOne(ctx, a.lookCall(lookScript)))
}

// lookCall is a run of a script that looks at the key, and queues the claim if
// the attempt does. more are the arguments that only this script has. A message
// must be sure to find the process of a claim that rests, and in a cluster
// nobody knows whom a message reaches (laws 5 and 6). A claim that shares its
// key never rests, because it may get a share that nobody gives back.
func (a *attempt) lookCall(s *script, more ...any) call {
	heard, entry := a.inbox.live.Load(), any("")
	a.rest = 0
	if heard && !a.conn.Cluster() && s != takeShareScript {
		a.rest = min(a.try.Rest, locker.MaxRest)
	}
	if a.queues {
		heard = a.inbox.open()
	}
	if a.queues || s == takeShareScript {
		entry = a.state.queued(heard)
	}
	k, line := &a.state.keys, make([]any, 0, 17+len(more))
	line = append(line, evalSHA, s.sha, 5, k.lock, k.wait, k.due, k.fence, k.crowd)
	if s == takeScript && a.claim.Recall {
		line[2], line = 6, append(line, a.names.record(a.claim.Key))
	}
	line = append(line, a.state.owner, entry, flag(a.try.Queued), int64(a.try.Place),
		max(a.rest, locker.LookEvery).Milliseconds(), a.inboxes, wantedWord+" "+a.claim.Key, a.known)
	return call{s, append(line, more...)}
}

// readLook reads the answer to a look. There is no rest if the holder is not a
// guard, because it will not hand the key over. A single part, or a text, is
// the token of a key that the script has taken.
func (a *attempt) readLook(look command) (answer locker.Answer, free bool, err error) {
	parts := []any{look.Val()}
	if _, ok := parts[0].(string); !ok {
		parts, err = look.Slice()
	}
	switch {
	case errors.Is(err, redis.Nil):
		return answer, true, nil
	case err == nil && len(parts) == 1:
		text, _ := parts[0].(string)
		if answer.Token, err = parseToken(text); err != nil {
			return answer, false, unclear(errors.Join(errNoAnswer, err))
		}
		answer.Acquired = true
		return answer, false, nil
	case err == nil && len(parts) == 2:
		return answer, false, newerError{"above " + strconv.Itoa(entryVersion)}
	case err == nil && len(parts) != 3:
		err = errNoAnswer
	}
	if err != nil {
		return locker.Answer{Queued: a.queues}, false, a.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	answer.Remaining, answer.Holder = time.Duration(max(ttl, 0))*time.Millisecond, readHolder(value)
	answer.Lingers = lingers(value)
	answer.Place, answer.Queued = readPlace(parts[2])
	if answer.Queued && answer.Holder.Instance != "" {
		answer.Rest = a.rest
	}
	return answer, false, nil
}

// enter takes a share of the key.
func (a *attempt) enter(ctx context.Context) (locker.Answer, error) {
	enter := a.lookCall(takeShareScript, flag(a.queues), a.claim.TTL.Milliseconds())
	return a.readTake(a.over(ctx, a.send, enter)[0])
}

// readTake reads the answer of a script that takes a free key.
func (a *attempt) readTake(answer command) (locker.Answer, error) {
	taken, free, err := a.readLook(answer)
	if free {
		err = unclear(errNoAnswer)
	}
	return taken, err
}

// remembered returns the record of a key that had one lately. An empty record
// means that a recall must follow. Only a recall can say whether a mark counts,
// and only it takes a claim out of the queue.
//
// A GET alone costs a key that has a record half of a recall, so a locker
// remembers which keys had one lately. A locker may forget that at any time, or
// remember a key whose record has gone.
func (a *attempt) remembered(ctx context.Context) (record string, err error) {
	slot := a.names.slot(a.claim.Key)
	last := slot.Load()
	if last == nil || last.key != a.claim.Key || last.record == nil || a.try.Queued || a.conn.Trip.Tight(ctx) {
		return "", nil
	}
	text, err := a.runCalls(ctx, call{line: []any{"get", last.record}})[0].Text()
	switch {
	case err == nil && len(text) > locker.OwnerLen && !strings.HasPrefix(text, markSign):
		return text[locker.OwnerLen:], nil
	case err == nil, errors.Is(err, redis.Nil):
		slot.CompareAndSwap(last, &knownKey{key: last.key, keys: last.keys})
		return "", nil
	}
	return "", a.tryError(err)
}

// takeOrLook takes the key if it is free, and looks at it otherwise. Other
// calls may go before.
func (a *attempt) takeOrLook(ctx context.Context, before ...call) (answers []command) {
	a.state.asked = true
	calls := append(before, a.lookCall(takeScript, a.state.value, a.state.ttl, flag(a.claim.Fencing)))
	answers = a.over(ctx, a.send, calls...)
	if errors.Is(answers[len(before)].Err(), redis.Nil) { // a crowd had ended: the key was freed just now
		answers = a.over(ctx, a.send, calls...)
	}
	return answers
}

// recall finds the record, or else takes the key, by a GET of the record and
// the script.
func (a *attempt) recall(ctx context.Context) (locker.Answer, error) {
	get := call{line: []any{"get", a.names.record(a.claim.Key)}}
	answers := a.takeOrLook(ctx, get)
	switch v := answers[1].Val().(type) {
	case string:
		return recordAnswer(strings.TrimPrefix(v, markSign), a.queues)
	case int64:
		if v == 1 {
			return a.readRecord(ctx, get, answers[0])
		}
	}
	return a.readTake(answers[1])
}

// readRecord reads the record that the script has found. The command in front
// of the script may have come too early for it.
func (a *attempt) readRecord(ctx context.Context, get call, got command) (locker.Answer, error) {
	text, err := got.Text()
	if errors.Is(err, redis.Nil) || strings.HasPrefix(text, markSign) { // recorded between the two
		text, err = a.over(ctx, a.send, get)[0].Text()
	}
	if err != nil {
		return locker.Answer{Queued: a.queues}, unclear(err)
	}
	answer, err := recordAnswer(text, a.queues)
	if err == nil {
		a.names.noteRecorded(a.claim.Key)
	}
	return answer, err
}

// readPlace reads a place in the queue as scripts return it.
func readPlace(part any) (locker.Place, bool) {
	text, _ := part.(string)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return locker.Place(n), err == nil
}

func parseToken(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fencing token: %w", err)
	}
	return n, nil
}
