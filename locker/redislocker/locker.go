package redislocker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/internal/redisnode"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] in Redis, made by [New] and opened by
// [guard.New]. Each locker is an instance of its own, even within one process.
// Its methods block for as long as their requests, at most until the context
// ends. After Close they return [locker.ErrClosed]. A Locker is safe for
// concurrent use.
type Locker struct {
	settings settings
	self     describer
	life     lockerkit.Life

	// Set by Open, before any other method.
	*server

	inbox     *inbox
	repeater  *repeater             // nil on a server that never changes
	atomicity atomic.Pointer[error] // what checkAtomicity found; nil before
}

var _ locker.Locker = (*Locker)(nil)

// New returns a locker for the server that rdb talks to. New only keeps its
// settings. [guard.New] opens it, and returns an error if a setting is wrong.
// rdb is a *redis.Client (Sentinel included) or a *redis.ClusterClient, and
// stays the caller's. See [WithClient] for any other type.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{
		settings: settings{conn: redisconn.Settings{Client: rdb, Name: "guard"}, prefix: "guard"},
		self:     describer{instance: lockerkit.NewID()}, life: lockerkit.Life{Store: "redislocker"},
	}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			l.settings.absent = "option"
			continue
		}
		o.apply(&l.settings)
	}
	return l
}

// Capabilities return all there are.
func (*Locker) Capabilities() locker.Capabilities {
	return locker.Capabilities{
		Shares: true, Several: true, Records: true, Inspects: true, Lingers: true, Findings: findings,
	}
}

// Open checks the settings and makes the locker's own client, and sends
// nothing. A wrong setting is a [locker.ErrInvalidOption], and so is a second
// Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error { return l.ready(w) })
}

func (l *Locker) ready(w locker.Waker) error {
	if err := l.settings.check(); err != nil {
		return err
	}
	if n, ok := w.(redisnode.Node); ok {
		l.self.votes, l.self.instance, l.settings.conn.Admit = true, n.Instance(), n.Admit
		n.SetFence(l.fenceFrom)
	}
	conn := redisconn.New(&l.settings.conn)
	l.server = newServer(conn, newNames(&l.settings, conn.Cluster()))
	if l.settings.replicas > 0 {
		w = replicaWaker{w, l}
	}
	l.inbox = &inbox{client: l.conn, channel: l.names.inbox(l.self.instance), waker: w, life: &l.life}
	if l.conn.Sentinel() {
		l.inbox.where = l.conn.Elected
	}
	if l.conn.Cluster() || l.conn.Sentinel() {
		l.repeater = &repeater{primary: l.primary, ask: l.ask, free: w.Orphaned, life: &l.life, trip: &l.conn.Trip}
	}
	return nil
}

// Close ends the locker and closes its own connections. Calls under way end by
// their contexts. If ctx ends first, Close returns ctx's error, and the rest
// goes on in the background. Close is idempotent.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, func() {
		l.life.Wait()
		l.life.End()
		l.conn.Close() // when nobody uses it
	})
}

// state returns the locker's own part of c.
func (l *Locker) state(c *locker.Claim) *state {
	st, ok := c.State.(*state)
	if !ok {
		value, ttl := l.self.describe(c)
		st = &state{claim: c, keys: l.names.keys(c.Key), owner: c.Owner, value: value, ttl: ttl}
		c.State, c.Holder.Instance = st, l.self.instance
	}
	return st
}

// attempt returns an attempt to acquire c.
func (l *Locker) attempt(c *locker.Claim, t locker.Try) *attempt {
	return &attempt{Locker: l, claim: c, state: l.state(c), try: t, queues: t.Wait || t.Queued, send: l.send}
}

// Acquire tries once. An Acquire takes one round trip, or two if the key is
// held. The second finds the holder and queues the claim. A claim that is in
// the queue, or whose key is likely to be held, looks first.
//
// A claim with a limit above 1 takes one round trip, whether or not somebody
// owns the key. A claim that recalls takes one as well, whether there is a
// record, or the key is free or held, and two if there was a record lately that
// has gone since.
//
// See [locker.Locker] for the errors. A refusal by the server that a new try
// cannot change is none of those errors, and says what to do. Missing rights
// and a key of another type are such refusals.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{}, err
	}
	defer l.life.Leave()
	ctx, probe := l.conn.Probe(ctx, l.Node(c.Key), t.Wait)
	answer, err := l.acquire(ctx, c, t)
	probe.End(err)
	return answer, err
}

func (l *Locker) acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.names.fits(c.Key); err != nil {
		return locker.Answer{}, err
	}
	if err := l.awaitConnection(ctx, c.Key); err != nil {
		if t.Wait {
			l.inbox.open() // opens its connection meanwhile
		}
		return locker.Answer{Queued: t.Queued}, err
	}
	a := l.attempt(c, t)
	switch {
	case c.Limit > 1:
		return a.take(ctx)
	case c.Recall:
		if record, err := a.remembered(ctx); record != "" || err != nil {
			return locker.Answer{Record: record}, err
		}
		return a.take(ctx)
	case l.settings.replicas == 0 && l.conn.Trip.Tight(ctx):
		return a.readTake(a.takeOrLook(ctx)[0]) // there is time for only one round trip
	}
	if !t.Held && !t.Queued {
		if answer, err := a.take(ctx); err != nil || answer.Acquired {
			return answer, err
		}
	}
	answer, free, err := a.look(ctx)
	if free {
		return a.take(ctx) // the claim has left the queue, even if this fails (law 2)
	}
	return answer, err
}

// Fence reserves a block of tokens in one round trip.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	return l.fenceFrom(ctx, c, 0)
}

// fenceFrom is [Locker.Fence] with no token below floor.
func (l *Locker) fenceFrom(ctx context.Context, c *locker.Claim, floor uint64) (uint64, error) {
	if err := l.life.Enter(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	k := l.names.keys(c.Key)
	fence := newCall(fenceScript, 3, k.lock, k.fence, k.crowd, c.Owner, block, counterLife, floor)
	text, err := l.runCalls(ctx, fence)[0].Text()
	switch {
	case errors.Is(err, redis.Nil):
		return 0, errNotOwner
	case err != nil:
		return 0, leaseError(err)
	}
	token, err := parseToken(text)
	return token, leaseError(err)
}

// AcquireAll takes one round trip. In a cluster it takes one for each node, all
// at the same time. With replicas it takes the keys one after the other.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.life.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.life.Leave()
	for _, c := range cs {
		if err := l.names.fits(c.Key); err != nil {
			return nil, 0, err
		}
	}
	if err := l.awaitConnection(ctx, cs[0].Key); err != nil {
		return nil, 0, err
	}
	return several{l, cs, prefix}.acquire(ctx)
}

// Release frees the key, or hands it to the first waiter, in one round trip. It
// does so by owner id alone, and takes c out of the queue if e says so.
// With a record and [WithReplicas] it then waits until they have the record.
func (l *Locker) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	end := l.endCall(c, e)
	if e.Record.Value != "" {
		return l.keep(ctx, c, end)
	}
	return readFreed(l.runOne(ctx, end))
}

// endCall is the request of a release.
func (l *Locker) endCall(c *locker.Claim, e locker.End) call {
	st, own, next := l.state(c), "", ""
	if e.Queued || c.Limit > 1 {
		own = st.entry // with a limit, its share is found sooner
	}
	if e.Next != nil {
		next = l.state(e.Next).queued(l.inbox.open())
	}
	l.repeater.note(c.Key, c.Owner, c.TTL)
	switch r := e.Record; {
	case r.Value != "":
		told := r.Value
		if len(told) > maxTold {
			told = ""
		}
		return l.recordCall(keepScript, st, own, next, c.Owner+r.Value, r.TTL.Milliseconds(), told)
	case e.Unmark:
		return l.recordCall(unmarkScript, st, own, next)
	}
	return l.releaseCall(c.Key, st.keys, st.owner, own, next)
}

// keep sends the end of c, which has a record.
func (l *Locker) keep(ctx context.Context, c *locker.Claim, end call) (released locker.Released, err error) {
	err = l.confirmed(ctx, c.Key, end, func(answer command) (err error) {
		released, err = readKept(answer)
		return err
	})
	if err == nil {
		l.names.noteRecorded(c.Key)
	}
	return released, err
}

// ReleaseAll takes one round trip. In a cluster it takes one for each node, all
// at the same time.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs []*locker.Claim, ends []locker.End, answered func(i int, r locker.Released, err error),
) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, locker.Released{}, err)
		}
		return
	}
	defer l.life.Leave()
	results, errs := make([]locker.Released, len(cs)), make([]error, len(cs))
	l.runPerNode(ctx, cs, func(i int) call { return l.endCall(cs[i], ends[i]) },
		func(i int, answer command) { results[i], errs[i] = readFreed(answer) })
	for i := range cs {
		answered(i, results[i], errs[i])
	}
}

// Begin marks the key of c, in one round trip. With [WithReplicas] it then
// waits until they have the mark.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.life.Enter(); err != nil {
		return "", err
	}
	defer l.life.Leave()
	st := l.state(c)
	begin := newCall(beginScript, 2, st.keys.lock, l.names.record(c.Key),
		st.owner, markSign+c.Owner+r.Value, r.TTL.Milliseconds())
	err = l.confirmed(ctx, c.Key, begin, func(answer command) (err error) {
		record, err = readBegun(answer)
		return err
	})
	return record, err
}

// Forget deletes the record of key, in two round trips. The first finds out
// which record is meant, so that a Forget that arrives late deletes no later
// one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.life.Enter(); err != nil {
		return false, err
	}
	defer l.life.Leave()
	k, record := l.names.keys(key), l.names.record(key)
	start, err := l.runCalls(ctx, call{line: []any{"getrange", record, 0, locker.OwnerLen}})[0].Text()
	if err != nil {
		return false, unclear(err)
	}
	if start == "" {
		return false, nil
	}
	n, err := l.runCalls(ctx, newCall(forgetScript, 2, k.lock, record, locker.OwnerLen, start))[0].Int()
	if err != nil {
		return false, unclear(err)
	}
	return n == 1, nil
}

// Inspect returns the holder of key and its waiters, in one round trip. The
// value may be from somebody else, such as a plain redislock user. The owner id
// is then the beginning of the value. The queue may still name a process that
// has died, which keeps its place for as long as others look there.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	s := locker.KeyState{Key: key}
	if err := l.life.Enter(); err != nil {
		return s, err
	}
	defer l.life.Leave()
	if err := l.names.fits(key); err != nil {
		return s, err
	}
	return l.readInspected(key, l.runCalls(ctx, l.inspectCall(key))[0])
}

// List goes through the keys of every primary with SCAN, a page at a time. It
// inspects each lock and each queue under the prefix. A page takes two round
// trips. Keys under names of their own are not listed, see [WithKeyNames].
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.life.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.life.Leave()
		nodes, err := l.conn.Primaries(ctx)
		if err != nil {
			yield(locker.KeyState{}, l.tryError(err))
			return
		}
		for _, node := range nodes {
			if !l.listNode(ctx, node, yield) {
				return
			}
		}
	}
}

// ForceRelease ends the hold of owner on key and hands the key on, as
// [Locker.Release] does. The owner's process is told if it listens.
// ForceRelease takes three round trips.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen {
		return invalid("an owner id has %d characters", locker.OwnerLen)
	}
	s, err := l.Inspect(ctx, key) // for the id of its inbox
	if err != nil {
		return err
	}
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	answer := l.runCalls(ctx, l.releaseCall(key, l.names.keys(key), owner, "", ""))[0]
	if answer.Err() != nil {
		return l.tryError(answer.Err())
	}
	_, owned, err := readRelease(answer.Val())
	switch {
	case err != nil:
		return err
	case !owned:
		return fmt.Errorf("redislocker: %w: that owner does not hold the key", locker.ErrLeaseLost)
	}
	// The message is a hint. Without the right to publish, or without a
	// listener, the holder renews in vain.
	for _, o := range append(s.Owners, locker.Waiter{Owner: s.Owner, Holder: s.Holder}) {
		if o.Owner == owner && o.Holder.Instance != "" {
			_ = l.conn.Publish(ctx, l.names.inbox(o.Holder.Instance), revokedWord+" "+owner+" "+key)
		}
	}
	return nil
}
