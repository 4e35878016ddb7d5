package postgreslocker

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] in PostgreSQL, made by [New] and opened by
// guard.New. Its methods block for as long as their requests, at most until the
// context ends. After Close they return [locker.ErrClosed]. A Locker is safe
// for concurrent use.
type Locker struct {
	config   *pgxpool.Config // of the locker's own connections
	listenAt *pgxpool.Config // of the connection that listens; nil: it polls only
	sql      *statements
	wrong    error // the first wrong setting
	instance string
	gate     lockerkit.Gate

	// Set by Open, before any other method but Migrate and Schema.
	waker  locker.Waker
	pool   *pgxpool.Pool
	ctx    context.Context // of the locker's goroutines
	cancel context.CancelFunc
	own    sync.WaitGroup  // the goroutines that end with ctx; none begins after Close
	wire   context.Context // of the connections, which end with it
	cut    context.CancelFunc

	calls   chan *call    // to the workers
	groups  chan *group   // to the workers
	beside  chan struct{} // has an element for each connection in use that is no worker's
	bell    chan struct{} // has one element if there is something to poll for
	closing chan struct{} // closed by Close
	hears   atomic.Bool   // the connection that listens has heard itself

	mu        sync.Mutex // guards what follows; never held across I/O or a callback
	listening bool       // the goroutine that listens was started
	queued    map[string]*locker.Claim
	owned     map[string]owned // by owner id, until somebody waits
}

var (
	_ locker.Locker       = (*Locker)(nil)
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Migrator     = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
)

var _ locker.Marker = (*Locker)(nil)

var _ locker.Sharer = (*Locker)(nil)

var _ locker.Several = (*Locker)(nil)

// New returns a locker for the server of pool. It only keeps its settings.
// guard.New opens it, and returns an error if a setting is wrong. The locker
// opens connections of its own as pool would. pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Locker {
	if pool == nil {
		return &Locker{wrong: invalid("the pool is nil"), gate: lockerkit.Gate{Store: "postgreslocker"}}
	}
	return newLocker(pool.Config(), opts...)
}

// newLocker owns config.
func newLocker(config *pgxpool.Config, opts ...Option) *Locker {
	l := &Locker{
		config: config, instance: lockerkit.NewID(), gate: lockerkit.Gate{Store: "postgreslocker"},
		calls: make(chan *call, 1024), groups: make(chan *group),
		beside: make(chan struct{}, besides), bell: make(chan struct{}, 1),
		closing: make(chan struct{}), queued: make(map[string]*locker.Claim), owned: make(map[string]owned),
	}
	s := settings{table: "guard_lease"}
	for _, o := range opts {
		if lockerkit.IsNil(o) {
			s.nilOpt = true
			continue
		}
		o.apply(&s)
	}
	l.wrong = l.prepare(&s)
	return l
}

// prepare checks the settings.
func (l *Locker) prepare(s *settings) (err error) {
	if s.nilOpt {
		return invalid("an option is nil")
	}
	if s.pollOnly && s.listen != "" {
		return invalid("WithPollOnly and WithListen exclude each other")
	}
	if l.sql, err = statementsFor(s.table, version); err != nil {
		return err
	}
	l.config.MaxConns, l.config.MinConns, l.config.MinIdleConns = workers+besides+dying, 0, 0
	conn := l.config.ConnConfig
	complete(conn)
	switch {
	case s.listen != "":
		if l.listenAt, err = pgxpool.ParseConfig(s.listen); err != nil {
			return invalid("the address of WithListen is wrong") // pgx's error may show a password
		}
		complete(l.listenAt.ConnConfig)
	case !s.pollOnly && !s.pooler:
		l.listenAt = l.config.Copy()
	}
	if s.pooler {
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	}
	return nil
}

// Open checks the settings and starts the locker's goroutines. It sends
// nothing. A wrong setting is a [locker.ErrInvalidOption], and so is a second
// Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.gate.Open(func() (err error) {
		if l.wrong != nil {
			return l.wrong
		}
		l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the locker, until Close
		l.wire, l.cut = context.WithCancel(context.Background())   //nolint:forbidigo // of the locker, until Close
		if l.listenAt != nil {
			l.listenAt = l.wired(l.listenAt)
		}
		if l.pool, err = pgxpool.NewWithConfig(l.ctx, l.wired(l.config)); err != nil {
			l.cancel()
			l.cut()
			return invalid("the pool cannot be made")
		}
		l.waker = w
		for range workers {
			l.own.Go(l.work)
		}
		l.own.Go(l.poll)
		l.own.Go(l.sweep)
		return nil
	})
}

// Close ends the locker and closes its own connections. It does at once all
// that is left to clean up, and takes its claims out of the queues. If the
// server gives no answer, that takes about half a minute. If ctx ends first,
// Close returns ctx's error, and gives up what is left. Keys then end at their
// TTL. Close is idempotent.
func (l *Locker) Close(ctx context.Context) error {
	err := l.gate.Close(ctx, l.shutDown)
	if err != nil {
		l.cancel()
	}
	return err
}

func (l *Locker) shutDown() {
	close(l.closing)
	l.gate.Wait()
	var leaving sync.WaitGroup
	for _, c := range l.waiting() {
		leaving.Go(func() { l.insist(ending{key: c.Key, owner: c.Owner}, time.Now().Add(leaveMax)) })
	}
	leaving.Wait()
	l.cancel()
	l.own.Wait()
	defer l.cut()
	defer time.AfterFunc(closeMax, l.cut).Stop()
	l.pool.Close()
}

// waiting returns the claims that are in a queue.
func (l *Locker) waiting() (cs []*locker.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.queued {
		cs = append(cs, c)
	}
	return cs
}

// pause waits for d and reports true, unless the locker ends or, if hurry, is
// closed.
func (l *Locker) pause(d time.Duration, hurry <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-hurry:
		return false
	case <-l.ctx.Done():
		return false
	}
}

// renewMax is the number of claims that one request renews.
const renewMax = 1000

// Acquire makes c the owner of its key if nobody owns it. Otherwise it returns
// the owner and, if t.Wait, queues c. It takes one request.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.gate.Leave()
	k := &call{
		ctx: ctx, op: "a", key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds(), short: c.ShortOffer().Microseconds(),
		long: c.LongOffer().Microseconds(), fence: c.Fencing, holder: l.describe(c), channel: l.channelNow(),
		place: int64(t.Place), limit: limitOf(c),
	}
	for flag, set := range map[int32]bool{
		flagWait: t.Wait, flagHeld: t.Held, flagQueued: t.Queued, flagRecall: c.Recall,
	} {
		if set {
			k.flags |= flag
		}
	}
	if t.Wait || t.Queued {
		l.remember(c) // before the message can come
	}
	r, err := l.send(k)
	switch {
	case errors.Is(err, locker.ErrUnsent):
		if !t.Queued {
			l.forget(c.Owner)
		}
		return locker.Answer{Queued: t.Queued}, err
	case err != nil:
		return locker.Answer{Queued: t.Wait || t.Queued}, err
	case r.ok:
		l.owns(c.Key, c.Owner, k.channel)
		return locker.Answer{Acquired: true, Token: tokenOf(c, r.token)}, nil
	case !r.queued:
		l.forget(c.Owner)
	}
	if r.record != nil {
		return locker.Answer{Record: string(r.record)}, nil
	}
	return locker.Answer{
		Holder: holderOf(r.holder), Remaining: microseconds(r.remain), Queued: r.queued, Place: locker.Place(r.place),
	}, nil
}

// Fence reserves a block of fencing tokens for c, if it owns its key, and
// returns the first. It takes one request.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	if err := l.gate.Enter(); err != nil {
		return 0, err
	}
	defer l.gate.Leave()
	r, err := l.send(&call{ctx: ctx, op: "f", key: c.Key, owner: c.Owner, limit: limitOf(c)})
	switch {
	case err != nil:
		return 0, unclear(err)
	case !r.ok:
		return 0, errNotOwner
	}
	return uint64(r.token), nil
}

// Release gives the key of c to the claim that has waited longest, if c owns
// it. It queues next behind the others. It takes one request.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	r, err := l.release(ctx, endOf(c), next)
	return r, unclear(err)
}

// ending is what ends a claim, or the hold of an owner.
type ending struct {
	key, owner string
	keep       *locker.Record // to be kept in the same step
	flags      int32
}

func (l *Locker) release(ctx context.Context, e ending, next *locker.Claim) (locker.Released, error) {
	k := l.releasing(ctx, e, next)
	r, err := l.send(k)
	return l.released(k, r, next, err)
}

// releasing returns the call of a release.
func (l *Locker) releasing(ctx context.Context, e ending, next *locker.Claim) *call {
	if e.flags&flagTell == 0 { // else it may be another's, or wait here
		l.forget(e.owner)
	}
	k := &call{ctx: ctx, op: "r", key: e.key, owner: e.owner, channel: l.channelNow(), flags: e.flags, limit: 1}
	if e.keep != nil {
		k.op, k.ttl, k.value = "k", e.keep.TTL.Microseconds(), []byte(e.keep.Value)
	}
	if next != nil {
		k.next, k.fence, k.holder, k.limit = next.Owner, next.Fencing, l.describe(next), limitOf(next)
		k.short, k.long = next.ShortOffer().Microseconds(), next.LongOffer().Microseconds()
		l.remember(next)
	}
	return k
}

// released reads the answer to a release.
func (l *Locker) released(k *call, r result, next *locker.Claim, err error) (locker.Released, error) {
	if err != nil {
		return locker.Released{Queued: next != nil}, err
	}
	if next != nil && !r.queued {
		l.forget(next.Owner)
	}
	if r.owner != "" { // a claim of this process
		l.granted(k.key, r.owner, "", locker.Offer{
			Length: microseconds(r.offer), Token: uint64(r.token), Waiting: int(r.behind),
		})
	}
	if !r.ok && !r.kept {
		err = errNotOwner
	}
	return locker.Released{
		Waiting: int(r.waiting), Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place),
	}, err
}

// Renew gives each claim its full TTL again, or answers ErrLeaseLost. It takes
// one request for each 1,000 claims, and another one if some claims have a
// limit.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	var alone, shares []int // places in cs
	for i, c := range cs {
		if limitOf(c) == 1 {
			alone = append(alone, i)
		} else {
			shares = append(shares, i)
		}
	}
	slices.SortFunc(shares, func(i, j int) int { return strings.Compare(cs[i].Key, cs[j].Key) })
	var parts sync.WaitGroup
	defer parts.Wait()
	for sql, all := range map[string][]int{l.sql.renew: alone, l.sql.stay: shares} {
		for at := range slices.Chunk(all, renewMax) {
			parts.Go(func() { l.renewPart(ctx, sql, cs, at, answered) })
		}
	}
}

// renewPart renews the claims at some places of cs, in one request.
func (l *Locker) renewPart(ctx context.Context, sql string, cs []*locker.Claim, at []int,
	answered func(i int, err error),
) {
	got, err := l.renewAll(ctx, sql, cs, at)
	for _, i := range at {
		waits, ok := got[cs[i].Owner]
		switch {
		case err != nil:
			answered(i, unclear(translate(err)))
		case !ok:
			answered(i, errNotOwner)
		default:
			answered(i, nil)
			if waits {
				l.wanted(cs[i].Key, cs[i].Owner)
			}
		}
	}
}

// renewAll returns the owner ids that still own their keys, and whether others
// wait for those.
func (l *Locker) renewAll(ctx context.Context, sql string, cs []*locker.Claim, at []int,
) (got map[string]bool, err error) {
	keys, owners, ttls := make([][]byte, len(at)), make([]string, len(at)), make([]int64, len(at))
	for n, i := range at {
		keys[n], owners[n], ttls[n] = []byte(cs[i].Key), cs[i].Owner, cs[i].TTL.Microseconds()
	}
	channel := l.channelNow()
	err = l.retry(ctx, func() error {
		return l.aside(ctx, func(conn *pgxpool.Conn) error {
			got = make(map[string]bool, len(at))
			rows, err := conn.Query(ctx, sql, keys, owners, ttls, channel)
			if err != nil {
				return err
			}
			var owner string
			var waits bool
			_, err = pgx.ForEachRow(rows, []any{&owner, &waits, nil}, func() error {
				got[owner] = waits
				return nil
			})
			return err
		})
	})
	if err == nil {
		l.renewed(got, channel)
	}
	return got, err
}

// describe returns the text of c's Holder.
func (l *Locker) describe(c *locker.Claim) string {
	if c.Holder.Instance == "" {
		c.Holder.Instance = l.instance
	}
	h := c.Holder
	text, err := json.Marshal(h)
	if err != nil { // a year beyond 9999
		h.Since = time.Time{}
		text, _ = json.Marshal(h)
	}
	return string(text)
}

func holderOf(text string) (h locker.Holder) {
	_ = json.Unmarshal([]byte(text), &h) // a stranger's text describes nobody
	return h
}

func tokenOf(c *locker.Claim, token int64) uint64 {
	if !c.Fencing {
		return 0
	}
	return uint64(token)
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// AcquireAll takes one request.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.gate.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave()
	g := &group{
		ctx: ctx, cs: cs, holders: make([]string, len(cs)), channel: l.channelNow(), prefix: prefix,
		done: make(chan taken, 1),
	}
	for i, c := range cs {
		g.holders[i] = l.describe(c)
	}
	t := l.sendGroup(g)
	if t.err != nil {
		return nil, 0, t.err
	}
	as = make([]locker.Answer, len(cs))
	for i, token := range t.tokens {
		l.owns(cs[i].Key, cs[i].Owner, g.channel)
		as[i] = locker.Answer{Acquired: true, Token: tokenOf(cs[i], token)}
	}
	if held = int(t.held); held < len(cs) {
		as[held].Holder, as[held].Remaining = holderOf(t.holder), microseconds(t.remain)
	}
	return as, held, nil
}

// ReleaseAll takes one request, or a few if other calls come at the same time.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(i int, r locker.Released, err error),
) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, locker.Released{}, err)
		}
		return
	}
	defer l.gate.Leave()
	calls := make([]*call, len(cs))
	for i, c := range cs {
		calls[i] = l.releasing(ctx, endOf(c), nexts[i])
	}
	posted := make([]error, len(cs))
	for i, k := range calls {
		posted[i] = l.post(k)
	}
	for i, k := range calls {
		r, err := result{}, posted[i]
		if err == nil {
			r, err = l.answer(k)
		}
		released, err := l.released(k, r, nexts[i], err)
		answered(i, released, unclear(err))
	}
}

// claimState is the locker's own part of a claim. The guard never has two calls
// in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// stateOf returns the state of c, for changes.
func stateOf(c *locker.Claim) *claimState {
	s, ok := c.State.(*claimState)
	if !ok {
		s = new(claimState)
		c.State = s
	}
	return s
}

// endOf returns what Release and Abandon of c do.
func endOf(c *locker.Claim) ending {
	e := ending{key: c.Key, owner: c.Owner}
	if s, ok := c.State.(*claimState); ok {
		e.keep = s.keep
		if s.unmark {
			e.flags = flagUnmark
		}
	}
	return e
}

// Keep is Release of c with a record. It takes one request.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	released, err := l.release(ctx, ending{key: c.Key, owner: c.Owner, keep: &r}, next)
	err = unclear(err)
	if errors.Is(err, locker.ErrUnavailable) {
		stateOf(c).keep = &r // for Abandon
	}
	return released, err
}

// Begin marks the key of c. It takes one request.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.gate.Enter(); err != nil {
		return "", err
	}
	defer l.gate.Leave()
	got, err := l.send(&call{
		ctx: ctx, op: "b", key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value), limit: 1,
	})
	switch {
	case err != nil:
		return "", unclear(err)
	case !got.kept:
		return "", errNotOwner
	}
	return string(got.record), nil
}

// Unmark lets the Release or Abandon of c remove its mark. It sends nothing.
func (*Locker) Unmark(c *locker.Claim) { stateOf(c).unmark = true }

// Forget deletes the record of key, and reports whether there was one. The first
// of two requests finds out which record is meant, so that a Forget that arrives
// late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	r, err := l.forgetOf(ctx, key, "")
	if err == nil && r.kept {
		r, err = l.forgetOf(ctx, key, string(r.record))
	}
	return r.kept, unclear(err)
}

// forgetOf deletes the record of key that owner has left. Without an owner it
// deletes nothing, and returns the owner of the record that counts.
func (l *Locker) forgetOf(ctx context.Context, key, owner string) (result, error) {
	return l.send(&call{ctx: ctx, op: "d", key: key, owner: owner, limit: 1})
}

// kept tells the guard that owner, a claim that waited, will find a record.
func (l *Locker) kept(key, owner string) {
	if j, ok := l.waker.(locker.Joiner); ok {
		j.Recorded(key, owner, "")
	}
}

// Shares reports true: a key's row keeps its owners, see crowd.sql.
func (*Locker) Shares(int) bool { return true }

// limitOf returns how many claims may own the key of c at once.
func limitOf(c *locker.Claim) int64 { return int64(max(c.Limit, 1)) }

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
