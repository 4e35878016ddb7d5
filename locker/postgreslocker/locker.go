package postgreslocker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
	wrong    error // the first wrong setting
	instance string
	life     *lockerkit.Life
	server   *server
	batcher  *batcher
	book     *book
	inbox    *inbox
}

var (
	_ locker.Locker       = (*Locker)(nil)
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Marker       = (*Locker)(nil)
	_ locker.Migrator     = (*Locker)(nil)
	_ locker.Sharer       = (*Locker)(nil)
	_ locker.Several      = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
)

// New returns a locker for the server of pool, and only keeps its settings.
// guard.New opens it, and returns an error if a setting is wrong. The locker
// opens connections of its own as pool would. pool stays the caller's.
func New(pool *pgxpool.Pool, opts ...Option) *Locker {
	if pool == nil {
		return &Locker{wrong: invalid("the pool is nil"), life: lockerkit.NewLife("postgreslocker"), server: &server{}}
	}
	return newLocker(pool.Config(), opts...)
}

// newLocker owns config.
func newLocker(config *pgxpool.Config, opts ...Option) *Locker {
	l := &Locker{instance: lockerkit.NewID(), life: lockerkit.NewLife("postgreslocker"), server: newServer(config)}
	l.book = newBook(l.instance)
	l.inbox = &inbox{life: l.life, server: l.server, book: l.book, giveBack: l.giveBack}
	l.book.used = l.inbox.begin
	l.batcher = newBatcher(l.server, l.inbox)
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
	if l.server.sql, err = statementsFor(s.table, version); err != nil {
		return err
	}
	l.server.config.MaxConns, l.server.config.MinConns, l.server.config.MinIdleConns = workers+besides+dying, 0, 0
	conn := l.server.config.ConnConfig
	complete(conn)
	switch {
	case s.listen != "":
		if l.inbox.listenAt, err = pgxpool.ParseConfig(s.listen); err != nil {
			return invalid("the address of WithListen is wrong") // pgx's error may show a password
		}
		complete(l.inbox.listenAt.ConnConfig)
	case !s.pollOnly && !s.pooler:
		l.inbox.listenAt = l.server.config.Copy()
	}
	if s.pooler {
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	}
	return nil
}

// Open checks the settings and starts the locker's goroutines, and sends
// nothing. A wrong setting is a [locker.ErrInvalidOption], and so is a second
// Open.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		if l.wrong != nil {
			return l.wrong
		}
		if l.inbox.listenAt != nil {
			l.inbox.listenAt = l.server.wired(l.inbox.listenAt)
		}
		if err := l.server.open(l.life.Context()); err != nil {
			return err
		}
		l.inbox.waker = w
		for range workers {
			l.life.Serve(func() { l.batcher.work(l.life.Context()) })
		}
		l.life.Serve(l.inbox.poll)
		l.life.Serve(func() { l.server.sweep(l.life) })
		return nil
	})
}

// Close ends the locker and closes its own connections. All that is left to
// clean up is done at once, and the locker's claims leave the queues. If the
// server gives no answer, that takes about half a minute. If ctx ends first,
// Close returns ctx's error, and gives up what is left. Keys then end at their
// TTL. Close is idempotent.
func (l *Locker) Close(ctx context.Context) error {
	err := l.life.Close(ctx, l.leaveAll, l.server.close)
	if err != nil {
		l.life.Stop()
	}
	return err
}

// leaveAll takes the claims that wait here out of their queues.
func (l *Locker) leaveAll() {
	until := time.Now().Add(locker.QueueLife)
	var leaving sync.WaitGroup
	for _, c := range l.book.waiting() {
		leaving.Go(func() { l.life.Insist(until, l.ends(ending{key: c.Key, owner: c.Owner})) })
	}
	leaving.Wait()
}

// renewMax is the number of claims that one request renews.
const renewMax = 1000

// Acquire makes c the owner of its key if nobody owns it. Otherwise it returns
// the owner and, if t.Wait, queues c. An Acquire is one request.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.life.Leave()
	q := request{
		op: "a", key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds(), short: c.ShortOffer().Microseconds(),
		long: c.LongOffer().Microseconds(), fence: c.Fencing, holder: l.describe(c), channel: l.book.channelNow(),
		place: int64(t.Place), limit: limitOf(c),
	}
	for flag, set := range map[int32]bool{
		flagWait: t.Wait, flagHeld: t.Held, flagQueued: t.Queued, flagRecall: c.Recall,
	} {
		if set {
			q.flags |= flag
		}
	}
	if t.Wait || t.Queued {
		l.book.remember(c) // before the message can come
	}
	r, err := l.batcher.do(ctx, q)
	switch {
	case errors.Is(err, locker.ErrUnsent):
		if !t.Queued {
			l.book.forget(c.Owner)
		}
		return locker.Answer{Queued: t.Queued}, err
	case err != nil:
		return locker.Answer{Queued: t.Wait || t.Queued}, err
	case r.ok:
		l.book.owns(c.Key, c.Owner, q.channel)
		return locker.Answer{Acquired: true, Token: tokenOf(c, r.token)}, nil
	case !r.queued:
		l.book.forget(c.Owner)
	}
	if r.record != nil {
		return locker.Answer{Record: string(r.record)}, nil
	}
	return locker.Answer{
		Holder: lockerkit.HolderOf([]byte(r.holder)), Remaining: microseconds(r.remain),
		Queued: r.queued, Place: locker.Place(r.place),
	}, nil
}

// Fence reserves a block of fencing tokens for c, if it owns its key, and
// returns the first, by one request.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	if err := l.life.Enter(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	r, err := l.batcher.do(ctx, request{op: "f", key: c.Key, owner: c.Owner, limit: limitOf(c)})
	switch {
	case err != nil:
		return 0, unclear(err)
	case !r.ok:
		return 0, errNotOwner
	}
	return uint64(r.token), nil
}

// Release gives the key of c to the claim that has waited longest, if c owns
// it, and queues next behind the others. A Release is one request.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
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
	r, err := l.batcher.do(ctx, l.releasing(e, next))
	return l.released(e.key, r, next, err)
}

// releasing returns the request of a release.
func (l *Locker) releasing(e ending, next *locker.Claim) request {
	if e.flags&flagTell == 0 { // else it may be another's, or wait here
		l.book.forget(e.owner)
	}
	q := request{op: "r", key: e.key, owner: e.owner, channel: l.book.channelNow(), flags: e.flags, limit: 1}
	if e.keep != nil {
		q.op, q.ttl, q.value = "k", e.keep.TTL.Microseconds(), []byte(e.keep.Value)
	}
	if next != nil {
		q.next, q.fence, q.holder, q.limit = next.Owner, next.Fencing, l.describe(next), limitOf(next)
		q.short, q.long = next.ShortOffer().Microseconds(), next.LongOffer().Microseconds()
		l.book.remember(next)
	}
	return q
}

// released reads the answer to a release.
func (l *Locker) released(key string, r result, next *locker.Claim, err error) (locker.Released, error) {
	if err != nil {
		return locker.Released{Queued: next != nil}, err
	}
	if next != nil && !r.queued {
		l.book.forget(next.Owner)
	}
	if to := r.heir; to.owner != "" { // a claim of this process
		l.inbox.granted(key, to.owner, "", locker.Offer{
			Length: microseconds(to.offer), Token: uint64(r.token), Waiting: int(to.behind),
		})
	}
	if !r.ok && !r.recorded {
		err = errNotOwner
	}
	return locker.Released{
		Waiting: int(r.waiting), Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place),
	}, err
}

// Renew gives each claim its full TTL again, or answers ErrLeaseLost, by one
// request for each 1,000 claims. It takes another one for claims with a limit,
// and for those in rows that are locked or not theirs any more.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
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
	renew := func(free, others string, all []int) {
		for at := range slices.Chunk(all, renewMax) {
			parts.Go(func() { l.renewParts(ctx, free, others, cs, at, answered) })
		}
	}
	renew(l.server.sql.renewFree, l.server.sql.renew, alone)
	renew(l.server.sql.stayFree, l.server.sql.stay, shares)
}

// renewParts renews the claims at some places of cs: first those whose rows are
// free, by one statement, and then the others, by another.
func (l *Locker) renewParts(ctx context.Context, free, others string, cs []*locker.Claim, at []int,
	answered func(i int, err error),
) {
	for _, sql := range []string{free, others} {
		if at = l.renewPart(ctx, sql, cs, at, answered); len(at) == 0 {
			return
		}
	}
	for _, i := range at {
		answered(i, errNotOwner)
	}
}

// renewPart renews the claims at some places of cs, in one request, and returns
// the places of those that the request did not find.
func (l *Locker) renewPart(ctx context.Context, sql string, cs []*locker.Claim, at []int,
	answered func(i int, err error),
) (rest []int) {
	channel := l.book.channelNow()
	got, err := l.server.renew(ctx, sql, channel, cs, at)
	if err == nil {
		l.book.renewed(got, channel)
	}
	for _, i := range at {
		waits, ok := got[cs[i].Owner]
		switch {
		case err != nil:
			answered(i, unclear(translate(err)))
		case !ok:
			rest = append(rest, i)
		default:
			answered(i, nil)
			if waits {
				l.inbox.wanted(cs[i].Key, cs[i].Owner)
			}
		}
	}
	return rest
}

// describe returns the text of c's Holder.
func (l *Locker) describe(c *locker.Claim) string { return string(lockerkit.Describe(c, l.instance)) }

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
	if err := l.life.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.life.Leave()
	g := group{cs: cs, holders: make([]string, len(cs)), channel: l.book.channelNow(), prefix: prefix}
	for i, c := range cs {
		g.holders[i] = l.describe(c)
	}
	t, err := l.batcher.doGroup(ctx, g)
	if err != nil {
		return nil, 0, err
	}
	as = make([]locker.Answer, len(cs))
	for i, token := range t.tokens {
		l.book.owns(cs[i].Key, cs[i].Owner, g.channel)
		as[i] = locker.Answer{Acquired: true, Token: tokenOf(cs[i], token)}
	}
	if held = int(t.held); held < len(cs) {
		as[held].Holder, as[held].Remaining = lockerkit.HolderOf([]byte(t.holder)), microseconds(t.remain)
	}
	return as, held, nil
}

// ReleaseAll takes one request, or a few if other calls come at the same time.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(i int, r locker.Released, err error),
) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, locker.Released{}, err)
		}
		return
	}
	defer l.life.Leave()
	posted := make([]*call, len(cs)) // nil if ctx has ended
	for i, c := range cs {
		posted[i], _ = l.batcher.calls.Post(ctx, l.releasing(endOf(c), nexts[i]))
	}
	for i, k := range posted {
		r, err := l.batcher.answer(k)
		released, err := l.released(cs[i].Key, r, nexts[i], err)
		answered(i, released, unclear(err))
	}
}

// claimState is the locker's own part of a claim: its State, if it has one. The
// guard never has two calls in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// endOf returns what Release and Abandon of c do.
func endOf(c *locker.Claim) ending {
	s, _ := c.State.(claimState)
	e := ending{key: c.Key, owner: c.Owner, keep: s.keep}
	if s.unmark {
		e.flags = flagUnmark
	}
	return e
}

// Keep is Release of c with a record, by one request.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	released, err := l.release(ctx, ending{key: c.Key, owner: c.Owner, keep: &r}, next)
	err = unclear(err)
	if errors.Is(err, locker.ErrUnavailable) {
		s, _ := c.State.(claimState)
		s.keep = &r // for Abandon
		c.State = s
	}
	return released, err
}

// Begin marks the key of c, by one request.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.life.Enter(); err != nil {
		return "", err
	}
	defer l.life.Leave()
	got, err := l.batcher.do(ctx, request{
		op: "b", key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value), limit: 1,
	})
	switch {
	case err != nil:
		return "", unclear(err)
	case !got.recorded:
		return "", errNotOwner
	}
	return string(got.record), nil
}

// Unmark lets the Release or Abandon of c remove its mark, and sends nothing.
func (*Locker) Unmark(c *locker.Claim) {
	s, _ := c.State.(claimState)
	s.unmark = true
	c.State = s
}

// Forget deletes the record of key, and reports whether there was one. The first
// of two requests finds out which record is meant, so that a Forget that arrives
// late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.life.Enter(); err != nil {
		return false, err
	}
	defer l.life.Leave()
	r, err := l.forgetOf(ctx, key, "")
	if err == nil && r.recorded {
		r, err = l.forgetOf(ctx, key, string(r.record))
	}
	return r.recorded, unclear(err)
}

// forgetOf deletes the record of key that owner has left. Without an owner it
// deletes nothing, and returns the owner of the record that counts.
func (l *Locker) forgetOf(ctx context.Context, key, owner string) (result, error) {
	return l.batcher.do(ctx, request{op: "d", key: key, owner: owner, limit: 1})
}

// Shares reports true: a key's row keeps its owners, see crowd.sql.
func (*Locker) Shares(int) bool { return true }

// limitOf returns how many claims may own the key of c at once.
func limitOf(c *locker.Claim) int64 { return int64(max(c.Limit, 1)) }

// Abandon takes c out of key and queue, in the background, by one request or
// two.
func (l *Locker) Abandon(c *locker.Claim, late bool) { l.abandon(endOf(c), late) }

// giveBack releases a key that was granted to a claim which nobody knows.
func (l *Locker) giveBack(key, owner string) { l.abandon(ending{key: key, owner: owner}, false) }

func (l *Locker) abandon(e ending, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	l.book.forget(e.owner)
	l.life.Abandon(late, l.ends(e))
}

// ends returns what carries out e. Its error is final unless the server is
// unavailable.
func (l *Locker) ends(e ending) func(ctx context.Context) (done bool) {
	return func(ctx context.Context) bool {
		_, err := l.release(ctx, e, nil)
		return !errors.Is(err, locker.ErrUnavailable)
	}
}
