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
// model/README.md. NTP clients step by less than 17 minutes of their own
// accord.
const fenceLife = 20 * time.Minute

// crowdMark is the start of a lock that several claims own, see crowd.lua. It
// is as long as an owner id, and is none.
const crowdMark = "*guard:several-own-it*"

// attempt is one Acquire, and belongs to the goroutine of that call.
type attempt struct {
	*Locker

	claim *locker.Claim
	state *state
	try   locker.Try

	// rest is for how long the claim may go unseen after the look that is under
	// way. A claim without a rest (0) must keep the usual pace.
	rest time.Duration
	own  redisconn.Way // the connection that waits for replicas; nil: the way of all requests
}

// acquire takes the key, or looks who has it.
//
// A claim with a limit above 1 takes one round trip, whether or not somebody
// owns the key. A claim that recalls takes one as well, whether there is a
// record, or the key is free or held, and two if there was a record lately that
// has gone since.
func (a *attempt) acquire(ctx context.Context) (locker.Answer, error) {
	switch {
	case a.claim.Limit > 1:
		return a.take(ctx)
	case a.claim.Recall:
		if record, err := a.remembered(ctx); record != "" || err != nil {
			return locker.Answer{Record: record}, err
		}
		return a.take(ctx)
	case a.replicas.want == 0 && a.conn.Trip.Tight(ctx):
		return a.takeAndLook(ctx)
	}
	if !a.try.Held && !a.try.Queued {
		start := time.Now()
		answer, err := a.take(ctx)
		if err == nil {
			a.conn.NoteTrip(start)
		}
		if err != nil || answer.Acquired {
			return answer, err
		}
	}
	answer, free, err := a.look(ctx)
	if free {
		return a.take(ctx) // the claim has left the queue, even if this fails (law 2)
	}
	return answer, err
}

// take sends the request that may take the key. If that succeeds, it waits for
// the replicas. An empty answer means that somebody else holds the key.
func (a *attempt) take(ctx context.Context) (answer locker.Answer, err error) {
	if a.replicas.want == 0 {
		return a.request(ctx)
	}
	send, done, err := a.conn.OneConn(ctx, a.names.lock(a.claim.Key))
	if err != nil {
		return answer, a.tryError(err)
	}
	defer done()
	a.own = send
	answer, err = a.request(ctx)
	if err != nil || !answer.Acquired {
		return answer, err
	}
	if err := a.replicas.await(ctx, send); err != nil {
		// Free the key now, not in the background: the next try may have the
		// same owner id. A release without an answer may arrive after that try,
		// so there must be no such try. Queued makes the guard give the claim
		// up.
		answers := run(ctx, send, a.releaseCall(a.claim.Key, a.state.keys, a.state.owner, "", ""), infoReplication)
		if short := new(ReplicasError); errors.As(err, &short) {
			short.Connected = connected(answers[1])
			err = unclear(short)
		}
		return locker.Answer{Queued: answers[0].Err() != nil}, err
	}
	return answer, nil
}

// request is take without replicas.
//
// The first request of a claim is SET with NX, which costs the server a tenth
// of redislock's script. But it refuses a claim that owns its key already, so
// every later request goes through redislock.
func (a *attempt) request(ctx context.Context) (locker.Answer, error) {
	switch {
	case a.claim.Limit > 1:
		return a.enter(ctx)
	case a.claim.Recall:
		return a.recall(ctx)
	case a.state.asked:
		return a.obtain(ctx)
	}
	return a.first(ctx)
}

// first makes the claim the owner of its key by SET with NX. The value is the
// one that redislock sets, so that plain users of redislock exclude each other
// with us.
func (a *attempt) first(ctx context.Context) (locker.Answer, error) {
	a.state.asked = true
	set := a.state.first()
	if !a.claim.Fencing {
		return a.taken(a.runOne(ctx, a.own, set), nil)
	}
	answers := run(ctx, a.way(), set, fenceCall(a.claim, a.state.keys, 0))
	return a.taken(answers[0], answers[1:])
}

// way is the way of the attempt's requests.
func (a *attempt) way() redisconn.Way {
	if a.own != nil {
		return a.own
	}
	return a.conn.Send
}

// taken reads the answer to SET with NX, and to the request for tokens.
func (a *attempt) taken(set command, fence []command) (locker.Answer, error) {
	switch err := set.Err(); {
	case errors.Is(err, redis.Nil):
		return locker.Answer{}, nil
	case err != nil:
		return locker.Answer{}, a.tryError(err)
	}
	return a.owned(fence)
}

// obtain makes the claim the owner of its key by redislock.
func (a *attempt) obtain(ctx context.Context) (locker.Answer, error) {
	if a.own == nil && !a.claim.Fencing {
		taken, err := a.lock(ctx, a.locks)
		return locker.Answer{Acquired: taken}, err
	}
	tr := &travel{server: a.server, own: a.own}
	if a.claim.Fencing {
		tr.behind = []call{fenceCall(a.claim, a.state.keys, 0)}
	}
	if taken, err := a.lock(ctx, redislock.New(tr)); !taken {
		return locker.Answer{}, err
	}
	return a.owned(tr.answers)
}

// lock makes the claim the owner of its key by a client of redislock.
func (a *attempt) lock(ctx context.Context, by *redislock.Client) (taken bool, err error) {
	a.state.asked = true
	lock, _ := a.state.keys.lock.(string)
	_, err = by.Obtain(ctx, lock, a.claim.TTL, &redislock.Options{Token: a.claim.Owner, Metadata: a.state.about()})
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, a.tryError(err)
}

// takeAndLook is acquire if there is time for only one round trip. One request
// obtains the key and looks at it. A claim in the queue may become the owner
// one command before it leaves the queue. Nobody can release the key in between
// (law 2).
func (a *attempt) takeAndLook(ctx context.Context) (locker.Answer, error) {
	conn, name := a.conn, a.names.lock(a.claim.Key)
	over := func(ctx context.Context, cmds ...command) []command { return conn.SendPooled(ctx, name, cmds) }
	tr := &travel{server: a.server, own: over, whole: true, behind: []call{a.lookCall()}}
	if a.claim.Fencing {
		tr.behind = append(tr.behind, fenceCall(a.claim, a.state.keys, 0))
	}
	start := time.Now()
	taken, err := a.lock(ctx, redislock.New(tr))
	if err != nil {
		return locker.Answer{Queued: a.queues()}, err
	}
	a.conn.NoteTrip(start)
	if taken {
		return a.owned(tr.answers[1:])
	}
	answer, free, err := a.seen(tr.answers[0])
	if free {
		return a.take(ctx)
	}
	return answer, err
}

// owned is the answer of an attempt that took the key, with the fencing token
// that it asked for. Without a token the whole attempt has failed. If no other
// will follow, owned gives the key back.
func (a *attempt) owned(fence []command) (locker.Answer, error) {
	if !a.claim.Fencing {
		return locker.Answer{Acquired: true}, nil
	}
	token, err := token(fence[0])
	switch {
	case err == nil:
		return locker.Answer{Acquired: true, Token: token}, nil
	case errors.Is(err, redis.Nil):
		return locker.Answer{}, unclear(errors.New("the key was deleted at once"))
	case a.refused(err):
		a.Abandon(a.claim, false)
	}
	return locker.Answer{}, a.tryError(err)
}

// queues reports whether the attempt may queue the claim.
func (a *attempt) queues() bool { return a.try.Wait || a.try.Queued }

// look finds the holder of the key, and queues the claim if it waits. free
// reports that the key has no holder, or that the claim itself holds it, as
// after a lost message.
func (a *attempt) look(ctx context.Context) (answer locker.Answer, free bool, err error) {
	look := a.lookCall()
	start := time.Now()
	seen := a.runOne(ctx, nil, look)
	if seen.Err() == nil {
		a.conn.NoteTrip(start)
	}
	return a.seen(seen)
}

func (a *attempt) lookCall() call { return a.looking(lookScript, a.bid(), nil) }

// bid decides for how long the claim may rest, and returns its entry if the
// attempt queues it. A message must be sure to find the claim's process, and in
// a cluster nobody knows whom a message reaches (laws 5 and 7).
func (a *attempt) bid() any {
	a.rest = 0
	if !a.conn.Cluster() && a.inbox.live.Load() {
		a.rest = min(a.try.Rest, locker.MaxRest)
	}
	if !a.queues() {
		return ""
	}
	return a.queued(a.claim)
}

// looking is a run of a script that looks at the key, and queues the claim by
// its entry. record is the name of the key's record, or nil. more are the
// arguments that only this script has.
func (a *attempt) looking(s *script, entry, record any, more ...any) call {
	k, line := &a.state.keys, make([]any, 0, 17+len(more))
	line = append(line, evalSHA, s.sha, 5, k.lock, k.wait, k.due, k.fence, k.crowd)
	if record != nil {
		line[2], line = 6, append(line, record)
	}
	line = append(line, a.state.owner, entry, flag(a.try.Queued), int64(a.try.Place),
		max(a.rest, locker.LookEvery).Milliseconds(), a.inboxes, wantedWord+a.claim.Key, a.known)
	return call{s, append(line, more...)}
}

// seen reads the answer to a look. There is no rest if the holder is not a
// guard, because it will not hand the key over.
func (a *attempt) seen(look command) (answer locker.Answer, free bool, err error) {
	parts, err := look.Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return answer, true, nil
	case err == nil && len(parts) == 2:
		return answer, false, newerError{"above " + strconv.Itoa(entryVersion)}
	case err == nil && len(parts) != 3:
		err = errNoAnswer
	}
	if err != nil {
		return locker.Answer{Queued: a.queues()}, false, a.tryError(err)
	}
	ttl, _ := parts[0].(int64)
	value, _ := parts[1].(string)
	answer.Remaining, answer.Holder = time.Duration(max(ttl, 0))*time.Millisecond, holder(value)
	answer.Place, answer.Queued = place(parts[2])
	if answer.Queued && answer.Holder.Instance != "" {
		answer.Rest = a.rest
	}
	return answer, false, nil
}

// send sends the calls as one request, and notes how long that takes.
func (a *attempt) send(ctx context.Context, calls ...call) (answers []command) {
	if a.own != nil {
		return run(ctx, a.own, calls...)
	}
	start := time.Now()
	if a.conn.Trip.Tight(ctx) { // no time to learn that the server does not know the script
		whole := make([]command, len(calls))
		for i := range calls {
			whole[i] = calls[i].whole(ctx)
		}
		answers = a.conn.SendPooled(ctx, a.names.lock(a.claim.Key), whole)
	} else {
		answers = a.run(ctx, calls...)
	}
	if answers[len(answers)-1].Err() == nil {
		a.conn.NoteTrip(start)
	}
	return answers
}

// enter takes a share of the key. Such a claim never rests, because it may get
// a share that nobody gives back.
func (a *attempt) enter(ctx context.Context) (locker.Answer, error) {
	if a.queues() {
		a.inbox.open()
	}
	enter := a.looking(enterScript, a.state.queued(a.inbox.live.Load()), nil, flag(a.queues()),
		a.claim.TTL.Milliseconds())
	entered := a.send(ctx, enter)[0]
	if entered.Err() != nil {
		return locker.Answer{Queued: a.queues()}, a.tryError(entered.Err())
	}
	if text, ok := entered.Val().(string); ok {
		return granted(text)
	}
	answer, _, err := a.seen(entered)
	return answer, err
}

// granted is the answer for a key that a script has taken with this token.
func granted(text string) (locker.Answer, error) {
	token, err := parseToken(text)
	if err != nil {
		return locker.Answer{}, unclear(errors.Join(errNoAnswer, err))
	}
	return locker.Answer{Acquired: true, Token: token}, nil
}

// remembered returns the record of a key that had one lately. An empty record
// means that a recall must follow. Only a recall can say whether a mark counts,
// and only it takes a claim out of the queue.
//
// A GET alone costs a key that has a record half of a recall, so a locker
// remembers which keys had one lately. A locker may forget that at any time, or
// remember a key whose record has gone.
func (a *attempt) remembered(ctx context.Context) (record string, err error) {
	place := a.names.place(a.claim.Key)
	last := place.Load()
	if last == nil || last.key != a.claim.Key || last.record == nil || a.try.Queued || a.conn.Trip.Tight(ctx) {
		return "", nil
	}
	text, err := a.run(ctx, call{line: []any{"get", last.record}})[0].Text()
	switch {
	case err == nil && len(text) > locker.OwnerLen && !strings.HasPrefix(text, markSign):
		return text[locker.OwnerLen:], nil
	case err == nil, errors.Is(err, redis.Nil):
		place.CompareAndSwap(last, &knownKey{key: last.key, keys: last.keys})
		return "", nil
	}
	return "", a.tryError(err)
}

// recall finds the record, or else takes the key, by a GET of the record and
// the script.
func (a *attempt) recall(ctx context.Context) (locker.Answer, error) {
	entry, record := a.bid(), any(a.names.record(a.claim.Key))
	get := call{line: []any{"get", record}}
	recall := a.looking(recallScript, entry, record, a.state.value, a.claim.TTL.Milliseconds(), flag(a.claim.Fencing))
	answers := a.send(ctx, get, recall)
	if errors.Is(answers[1].Err(), redis.Nil) { // a crowd had ended: the key was freed just now
		answers = run(ctx, a.way(), get, recall)
	}
	switch v := answers[1].Val().(type) {
	case string:
		return found(strings.TrimPrefix(v, markSign), a.queues())
	case int64:
		if v == 1 {
			return a.found(ctx, get, answers[0])
		}
	case []any:
		if len(v) == 1 {
			text, _ := v[0].(string)
			return granted(text)
		}
	}
	answer, free, err := a.seen(answers[1])
	if free {
		err = unclear(errNoAnswer)
	}
	return answer, err
}

// found reads the record that the script has found. The command in front of the
// script may have come too early for it.
func (a *attempt) found(ctx context.Context, get call, got command) (locker.Answer, error) {
	text, err := got.Text()
	if errors.Is(err, redis.Nil) || strings.HasPrefix(text, markSign) { // recorded between the two
		text, err = run(ctx, a.way(), get)[0].Text()
	}
	if err != nil {
		return locker.Answer{Queued: a.queues()}, unclear(err)
	}
	answer, err := found(text, a.queues())
	if err == nil {
		a.names.noteRecorded(a.claim.Key)
	}
	return answer, err
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
