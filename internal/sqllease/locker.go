package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

var (
	_ locker.Locker    = (*Locker)(nil)
	_ locker.Inspector = (*Locker)(nil)
	_ locker.Limiter   = (*Locker)(nil)
	_ locker.Marker    = (*Locker)(nil)
	_ locker.Migrator  = (*Locker)(nil)
	_ locker.Sharer    = (*Locker)(nil)
	_ locker.Several   = (*Locker)(nil)
)

// Locker is a [locker.Locker] on a table, for one guard.
type Locker struct {
	table    *table
	life     *lockerkit.Life
	instance string
	batcher  *batcher
	book     *book
	lookout  *lookout
}

// New returns a Locker on the table of that name, and sends nothing.
func New(d *Dialect, db *sql.DB, name string) *Locker {
	t := &table{Dialect: d, db: db, name: name}
	l := &Locker{
		table: t, life: lockerkit.NewLife(d.Name), instance: lockerkit.NewID(), batcher: newBatcher(t), book: newBook(),
	}
	l.lookout = &lookout{table: t, book: l.book, life: l.life, giveBack: l.giveBack}
	return l
}

// NewOwner is New with a database that belongs to the Locker: Open opens it by
// opener, and Close closes it.
func NewOwner(d *Dialect, opener driver.Connector, name string) *Locker {
	l := New(d, nil, name)
	l.table.opener = opener
	return l
}

// Open checks the settings, and starts what serves the calls.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		if err := l.table.check(); err != nil {
			return err
		}
		l.lookout.waker = w
		l.table.open()
		for _, cs := range l.batcher.workers {
			l.life.Serve(func() { l.batcher.work(l.life.Context(), cs) })
		}
		l.life.Serve(l.lookout.poll)
		l.life.Serve(func() { l.table.sweepOften(l.life.Context()) })
		return nil
	})
}

// Close takes the claims that wait here out of their queues, does what Abandon
// has left to do, and ends the goroutines of l. The database stays open, unless
// l opened it. Keys that are owned stay until their TTL ends.
//
// Close blocks until that is done or ctx ends. If ctx ends first, Close returns
// its error, and goes on in the background for about half a minute.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, l.leaveAll, l.table.close)
}

// leaveAll takes the claims that wait here out of their queues.
func (l *Locker) leaveAll() {
	until := time.Now().Add(locker.QueueLife)
	var all sync.WaitGroup
	for owner, key := range l.book.leave() {
		all.Go(func() { l.life.Insist(until, l.ends(request{verb: release, key: key, owner: owner})) })
	}
	all.Wait()
}

// Schema returns the statement that makes the table.
func (l *Locker) Schema() string { return l.table.schema() }

// Migrate makes the table, unless it is there. Several processes may call it at
// once, and before Open. Migrate blocks until the database has answered or ctx
// ends.
func (l *Locker) Migrate(ctx context.Context) error { return l.table.migrate(ctx) }

// Limits returns the shortest TTL. A lease ends on time, for all processes.
func (*Locker) Limits() locker.Limits { return locker.Limits{MinTTL: 200 * time.Millisecond} }

// Shares reports true: the table keeps shared claims and permits.
func (*Locker) Shares(int) bool { return true }

// Acquire makes c an owner of its key if law 13 allows it. An Acquire takes a
// read, and a write if something changes.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.life.Leave()
	if t.Wait || t.Queued {
		l.book.looks(c)
	}
	r := l.batcher.do(ctx, *l.acquiring(c, t))
	if r.err != nil {
		if r.unsent && !t.Queued { // nobody abandons it
			l.book.forget(c.Owner)
		}
		return locker.Answer{Queued: t.Queued || t.Wait && !r.unsent}, l.table.failure(r)
	}
	if !r.queued {
		l.book.forget(c.Owner)
	}
	if r.ok {
		l.book.owns(c.Key, c.Owner)
	}
	return r.answer(), nil
}

// acquiring returns the request of an Acquire.
func (l *Locker) acquiring(c *locker.Claim, t locker.Try) *request {
	return &request{
		verb: acquire, key: c.Key, owner: c.Owner, limit: c.Limit, ttl: c.TTL.Microseconds(),
		offer: c.ShortOffer().Microseconds(), fencing: c.Fencing, holder: lockerkit.Describe(c, l.instance),
		recall: c.Recall, try: t,
	}
}

// Release hands the key of c to the first in the queue, and to those behind it
// that may own it too.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	s, _ := c.State.(claimState)
	return l.release(ctx, request{verb: release, key: c.Key, owner: c.Owner, unmark: s.unmark}, next)
}

// release sends q, which ends the hold of its owner and queues next.
func (l *Locker) release(ctx context.Context, q request, next *locker.Claim) (locker.Released, error) {
	return l.released(l.batcher.do(ctx, *l.releasing(q, next)), next)
}

// releasing completes q before it is sent.
func (l *Locker) releasing(q request, next *locker.Claim) *request {
	l.book.forget(q.owner)
	if next != nil {
		q.next, q.offer, q.fencing = next.Owner, next.ShortOffer().Microseconds(), next.Fencing
		q.limit, q.holder = next.Limit, lockerkit.Describe(next, l.instance)
		l.book.looks(next)
	}
	return &q
}

// released returns what Release answers.
func (l *Locker) released(r reply, next *locker.Claim) (locker.Released, error) {
	if r.err != nil {
		return locker.Released{Queued: next != nil && !r.unsent}, unclear(l.table.failure(r))
	}
	if next != nil && !r.queued {
		l.book.forget(next.Owner)
	}
	out := locker.Released{Waiting: r.waiting, Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place)}
	if !r.ok {
		return out, l.table.lost()
	}
	return out, nil
}

// Fence reserves a block of tokens for c.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.life.Enter(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	r, err := l.asOwner(ctx, request{verb: fence, key: c.Key, owner: c.Owner})
	return uint64(r.token), unclear(err)
}

// asOwner sends q for the owner of a key. The error is ErrLeaseLost if the key
// is not its own any more.
func (l *Locker) asOwner(ctx context.Context, q request) (result, error) {
	r := l.batcher.do(ctx, q)
	switch {
	case r.err != nil:
		return result{}, l.table.failure(r)
	case !r.ok:
		return result{}, l.table.lost()
	}
	return r.result, nil
}

// renewPage is how many leases are renewed in one statement.
const renewPage = 500

// Renew gives each claim its full TTL again. For each 500 claims of one TTL
// that own their keys alone it takes two requests.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	byTTL := map[time.Duration][]int{}
	var shares []int
	for i, c := range cs {
		if c.Limit > 1 {
			shares = append(shares, i)
			continue
		}
		byTTL[c.TTL] = append(byTTL[c.TTL], i)
	}
	var parts sync.WaitGroup // none waits for a row of another that is locked
	defer parts.Wait()
	for ttl, which := range byTTL {
		for page := range slices.Chunk(which, renewPage) {
			parts.Go(func() { l.renewAlone(ctx, cs, page, ttl, answered) })
		}
	}
	l.renewShares(ctx, cs, shares, answered)
}

// renewShares renews the claims which, each one of several owners of its key.
func (l *Locker) renewShares(ctx context.Context, cs []*locker.Claim, which []int, answered func(i int, err error)) {
	errs := make([]error, len(which))
	var all sync.WaitGroup
	for n, i := range which { // they travel together
		all.Go(func() {
			c := cs[i]
			_, errs[n] = l.asOwner(ctx, request{verb: renew, key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds()})
		})
	}
	all.Wait()
	for n, i := range which {
		answered(i, unclear(errs[n]))
	}
}

// renewAlone renews the claims which, all of one TTL, that own their keys
// alone.
func (l *Locker) renewAlone(
	ctx context.Context, cs []*locker.Claim, which []int, ttl time.Duration, answered func(i int, err error),
) {
	var keys, owners []string
	for _, i := range which {
		keys, owners = append(keys, cs[i].Key), append(owners, cs[i].Owner)
	}
	var renewed map[string]bool
	err := l.table.repeat(ctx, func() (err error) {
		renewed, err = l.table.renew(ctx, keys, owners, ttl)
		return err
	})
	for _, i := range which {
		switch {
		case err != nil:
			answered(i, unclear(l.table.sorted(err)))
		case renewed[cs[i].Owner]:
			answered(i, nil)
		default:
			answered(i, l.table.lost())
		}
	}
}

// AcquireAll makes each claim the owner of its key, or only those in front of
// the first key that is held if prefix, or none, by a read and a write.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.life.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.life.Leave()
	var results []result
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.acquiring(c, locker.Try{})
	}
	unsent, err := l.table.change(ctx, batch, func(rows map[string]*row) {
		results, held = acquireAll(rows, batch, prefix)
	})
	if err != nil {
		return nil, 0, l.table.failure(reply{err: err, unsent: unsent})
	}
	as = make([]locker.Answer, len(cs))
	for i, r := range results {
		if as[i] = r.answer(); r.ok {
			l.book.owns(cs[i].Key, cs[i].Owner)
		}
	}
	return as, held, nil
}

// ReleaseAll is Release for each claim, by a read and a write.
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
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.releasing(request{verb: release, key: c.Key, owner: c.Owner}, nexts[i])
	}
	var results []result
	unsent, err := l.table.change(ctx, batch, func(rows map[string]*row) { results = applyAll(rows, batch) })
	for i := range cs {
		r := reply{err: err, unsent: unsent}
		if err == nil {
			r.result = results[i]
		}
		released, err := l.released(r, nexts[i])
		answered(i, released, err)
	}
}

// Keep is Release of c with a record.
func (l *Locker) Keep(ctx context.Context, c, next *locker.Claim, r locker.Record) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	released, err := l.release(ctx, keeping(c, r), next)
	if errors.Is(err, locker.ErrUnavailable) {
		s, _ := c.State.(claimState)
		s.keep = &r // for Abandon
		c.State = s
	}
	return released, err
}

func keeping(c *locker.Claim, r locker.Record) request {
	return request{verb: keep, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value)}
}

// ending returns the request that leaves nothing of c behind (law 19).
func ending(c *locker.Claim) request {
	s, _ := c.State.(claimState)
	if s.keep != nil {
		return keeping(c, *s.keep)
	}
	return request{verb: release, key: c.Key, owner: c.Owner, unmark: s.unmark}
}

// Begin marks the key of c.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.life.Enter(); err != nil {
		return "", err
	}
	defer l.life.Leave()
	answer, err := l.asOwner(ctx, request{
		verb: begin, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value),
	})
	return string(answer.record), unclear(err)
}

// Unmark lets the Release or Abandon of c remove its mark, and sends nothing.
func (*Locker) Unmark(c *locker.Claim) {
	s, _ := c.State.(claimState)
	s.unmark = true
	c.State = s
}

// Forget deletes the record of key, and reports whether there was one. The
// first of two requests finds out which record is meant, so that a Forget that
// arrives late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.life.Enter(); err != nil {
		return false, err
	}
	defer l.life.Leave()
	r := l.batcher.do(ctx, request{verb: forget, key: key})
	if r.err == nil && r.ok {
		r = l.batcher.do(ctx, request{verb: forget, key: key, owner: string(r.record)})
	}
	if r.err != nil {
		return false, unclear(l.table.failure(r))
	}
	return r.ok, nil
}

// claimState is the locker's own part of a claim: its State, if it has one. The
// guard never has two calls in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// Abandon takes c out of key and queue, in the background.
func (l *Locker) Abandon(c *locker.Claim, late bool) { l.abandon(ending(c), late) }

// giveBack releases a key that was granted to a claim which nobody knows (law
// 3). After Close it does nothing: Close has released all claims that waited.
func (l *Locker) giveBack(key, owner string) {
	l.abandon(request{verb: release, key: key, owner: owner}, false)
}

func (l *Locker) abandon(q request, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	l.book.forget(q.owner)
	l.life.Abandon(late, l.ends(q))
}

// ends returns what sends q. Its error is final unless the store is
// unavailable.
func (l *Locker) ends(q request) func(ctx context.Context) (done bool) {
	return func(ctx context.Context) bool {
		r := l.batcher.do(ctx, q)
		return r.err == nil || !errors.Is(l.table.sorted(r.err), locker.ErrUnavailable)
	}
}
