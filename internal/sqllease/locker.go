package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

var _ locker.Marker = (*Locker)(nil)

var _ locker.Several = (*Locker)(nil)

// Locker is a [locker.Locker] on a table. It serves one guard.
type Locker struct {
	table    table
	opener   driver.Connector // of a database that Open opens and Close closes; or nil
	gate     lockerkit.Gate
	instance string
	waker    locker.Waker // set by Open
	lanes    *lanes

	closing chan struct{}      // closed by Close, ends the pauses of Abandon
	ctx     context.Context    // of the background, ended when Close has done all
	cancel  context.CancelFunc // ends it
	service sync.WaitGroup     // workers, the poller and the sweeper; joined by Close

	bell chan struct{} // wakes the poller; has room for one

	mu     sync.Mutex          // guards the maps below; never held across I/O or a callback
	queued map[string]*waiting // by owner id: claims that may wait in the table
	owned  map[string]string   // by owner id: keys owned here, for which nobody was seen to wait
}

// waiting is a claim that may be in a queue. It is replaced, never changed.
type waiting struct {
	claim *locker.Claim
	// sent is when the last look was sent, or the Release that queued the
	// claim.
	sent time.Time
}

// New returns a Locker on the table of that name. It sends nothing.
func New(d *Dialect, db *sql.DB, name string) *Locker {
	l := &Locker{
		table: table{d, db, name}, gate: lockerkit.Gate{Store: d.Name}, instance: lockerkit.NewID(),
		closing: make(chan struct{}), bell: make(chan struct{}, 1),
		queued: map[string]*waiting{}, owned: map[string]string{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // of the locker, until Close
	l.lanes = newLanes(&l.table)
	return l
}

// NewOwner is New with a database that belongs to the Locker: Open opens it by
// opener, and Close closes it.
func NewOwner(d *Dialect, opener driver.Connector, name string) *Locker {
	l := New(d, nil, name)
	l.opener = opener
	return l
}

// maxConns is how many connections a Locker uses at a time.
const maxConns = 4

// openOwn opens the database of an owner.
func (l *Locker) openOwn() *sql.DB {
	db := sql.OpenDB(l.opener)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(time.Minute)
	return db
}

// Schema returns the statement that makes the table.
func (l *Locker) Schema() string { return l.table.schema() }

// Migrate makes the table, unless it is there. It may be called before Open and
// by several processes at once. It blocks until the database has answered or
// ctx ends.
func (l *Locker) Migrate(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	db := l.table.db
	if l.opener != nil {
		db = l.openOwn() // beside the one of Open, which may not have been called
		defer db.Close()
	}
	for n := 0; ; n++ {
		_, err := db.ExecContext(ctx, l.table.schema())
		if err == nil {
			return nil
		}
		if l.table.verdict(err) != Again || !pause(ctx, n) {
			return l.sorted(err)
		}
	}
}

func (l *Locker) check() error {
	if l.table.db == nil && lockerkit.IsNil(l.opener) {
		return lockerkit.Invalid(l.table.Name, "the database is nil")
	}
	if !tableName.MatchString(l.table.name) {
		return lockerkit.Invalid(l.table.Name, "WithTable(%q): a table is named by letters, digits and _, "+
			"with its schema and a dot in front if need be", l.table.name)
	}
	return nil
}

// Open checks the settings, and starts what serves the calls.
func (l *Locker) Open(w locker.Waker) error {
	return l.gate.Open(func() error {
		if err := l.check(); err != nil {
			return err
		}
		l.waker = w
		if l.opener != nil {
			l.table.db = l.openOwn()
		}
		for _, lane := range l.lanes.all {
			l.service.Go(func() { lane.work(l.ctx) })
		}
		l.service.Go(l.poll)
		l.service.Go(l.sweep)
		return nil
	})
}

// Close takes the claims that wait here out of their queues, does what Abandon
// has left to do, and ends the goroutines of l. The database stays open, unless
// l opened it. Keys that are owned stay until their TTL ends.
//
// Close blocks until that is done or ctx ends. Then it returns ctx's error, and
// goes on in the background for about half a minute.
func (l *Locker) Close(ctx context.Context) error {
	return l.gate.Close(ctx, func() {
		close(l.closing)
		l.gate.Wait()
		l.leaveAll()
		l.cancel()
		l.service.Wait()
		if l.opener != nil {
			_ = l.table.db.Close()
		}
	})
}

// Limits returns the shortest TTL. A lease ends on time, for all processes.
func (*Locker) Limits() locker.Limits { return locker.Limits{MinTTL: 200 * time.Millisecond} }

// Shares reports true: the table keeps shared claims and permits.
func (*Locker) Shares(int) bool { return true }

// Acquire makes c an owner of its key if law 13 allows it. It takes a read, and
// a write if something changes.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.gate.Leave()
	if t.Wait || t.Queued {
		l.looks(c)
	}
	r := l.lanes.do(ctx, *l.acquiring(c, t))
	if r.err != nil {
		return locker.Answer{Queued: t.Queued || t.Wait && !r.unsent}, l.unclear(r)
	}
	if !r.queued {
		l.forget(c.Owner)
	}
	if r.ok {
		l.owns(c.Key, c.Owner)
	}
	return r.answer(), nil
}

// acquiring returns the request of an Acquire.
func (l *Locker) acquiring(c *locker.Claim, t locker.Try) *request {
	return &request{
		verb: acquire, key: c.Key, owner: c.Owner, limit: c.Limit, ttl: c.TTL.Microseconds(),
		offer: c.ShortOffer().Microseconds(), fencing: c.Fencing, holder: l.describe(c), recall: c.Recall,
		place: int64(t.Place), wait: t.Wait, wasInQueue: t.Queued,
	}
}

// answer returns the answer of an Acquire.
func (r *result) answer() locker.Answer {
	switch {
	case r.record != nil:
		return locker.Answer{Record: string(r.record)}
	case r.ok:
		return locker.Answer{Acquired: true, Token: uint64(r.token)}
	}
	return locker.Answer{
		Holder: holderOf(r.holder), Remaining: time.Duration(r.remains) * time.Microsecond,
		Queued: r.queued, Place: locker.Place(r.place),
	}
}

// Release hands the key of c to the first in the queue, and to those behind it
// that may own it too.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	return l.release(ctx, request{verb: release, key: c.Key, owner: c.Owner, unmark: claimStateOf(c).unmark}, next)
}

// release sends q, which ends the hold of its owner and queues next.
func (l *Locker) release(ctx context.Context, q request, next *locker.Claim) (locker.Released, error) {
	return l.released(l.lanes.do(ctx, *l.releasing(q, next)), next)
}

// releasing completes q before it is sent.
func (l *Locker) releasing(q request, next *locker.Claim) *request {
	l.forget(q.owner)
	if next != nil {
		q.next, q.offer, q.fencing = next.Owner, next.ShortOffer().Microseconds(), next.Fencing
		q.limit, q.holder = next.Limit, l.describe(next)
		l.looks(next)
	}
	return &q
}

// released returns what Release answers.
func (l *Locker) released(r reply, next *locker.Claim) (locker.Released, error) {
	if r.err != nil {
		return locker.Released{Queued: next != nil && !r.unsent}, l.unclear(r)
	}
	if next != nil && !r.queued {
		l.forget(next.Owner)
	}
	out := locker.Released{Waiting: r.waiting, Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place)}
	if !r.ok {
		return out, l.lost()
	}
	return out, nil
}

// Fence reserves a block of tokens for c.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.gate.Enter(); err != nil {
		return 0, err
	}
	defer l.gate.Leave()
	r := l.lanes.do(ctx, request{verb: fence, key: c.Key, owner: c.Owner})
	if r.err != nil {
		return 0, l.unclear(r)
	}
	if !r.ok {
		return 0, l.lost()
	}
	return uint64(r.token), nil
}

// describe signs c, once, and returns its holder as it is kept in the table.
func (l *Locker) describe(c *locker.Claim) []byte {
	if c.Holder.Instance == "" {
		c.Holder.Instance = l.instance
	}
	text, _ := json.Marshal(c.Holder) // cannot fail: plain fields
	return text
}

func holderOf(text []byte) (h locker.Holder) {
	if json.Unmarshal(text, &h) != nil {
		return locker.Holder{}
	}
	return h
}

// unclear returns the error of a reply.
func (l *Locker) unclear(r reply) error {
	err := l.sorted(r.err)
	if r.unsent && errors.Is(err, locker.ErrUnavailable) {
		return errors.Join(err, locker.ErrUnsent)
	}
	return err
}

// renewPage is how many leases are renewed in one statement.
const renewPage = 500

// Renew gives each claim its full TTL again. For each 500 claims of one TTL
// that own their keys alone it takes two requests.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.gate.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.gate.Leave()
	byTTL := map[time.Duration][]int{}
	var shares []int
	for i, c := range cs {
		if c.Limit > 1 {
			shares = append(shares, i)
			continue
		}
		byTTL[c.TTL] = append(byTTL[c.TTL], i)
	}
	for ttl, which := range byTTL {
		for len(which) > 0 {
			n := min(len(which), renewPage)
			l.renewSome(ctx, cs, which[:n], ttl, answered)
			which = which[n:]
		}
	}
	l.renewShares(ctx, cs, shares, answered)
}

// renewShares renews the claims which, each one of several owners of its key.
func (l *Locker) renewShares(ctx context.Context, cs []*locker.Claim, which []int, answered func(i int, err error)) {
	replies := make([]reply, len(which))
	var all sync.WaitGroup
	for n, i := range which { // they travel together
		all.Go(func() {
			c := cs[i]
			replies[n] = l.lanes.do(ctx, request{verb: renew, key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds()})
		})
	}
	all.Wait()
	for n, i := range which {
		switch r := replies[n]; {
		case r.err != nil:
			answered(i, l.unclear(r))
		case !r.ok:
			answered(i, l.lost())
		default:
			answered(i, nil)
		}
	}
}

// renewSome renews the claims which, all of one TTL.
func (l *Locker) renewSome(
	ctx context.Context, cs []*locker.Claim, which []int, ttl time.Duration, answered func(i int, err error),
) {
	var keys, owners []string
	for _, i := range which {
		keys, owners = append(keys, cs[i].Key), append(owners, cs[i].Owner)
	}
	renewed, err := l.table.renew(ctx, keys, owners, ttl)
	for n := 0; err != nil && l.table.verdict(err) == Again && pause(ctx, n); n++ {
		renewed, err = l.table.renew(ctx, keys, owners, ttl)
	}
	for _, i := range which {
		switch {
		case err != nil:
			answered(i, l.sorted(err))
		case renewed[cs[i].Owner]:
			answered(i, nil)
		default:
			answered(i, l.lost())
		}
	}
}

// AcquireAll makes each claim the owner of its key, or only those in front of
// the first key that is held if prefix, or none. It takes a read and a write.
func (l *Locker) AcquireAll(
	ctx context.Context, cs []*locker.Claim, prefix bool,
) (as []locker.Answer, held int, err error) {
	if err := l.gate.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.gate.Leave()
	var results []result
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.acquiring(c, locker.Try{})
	}
	unsent, err := l.table.change(ctx, batch, func(rows map[string]*row) {
		results, held = acquireAll(rows, batch, prefix)
	})
	if err != nil {
		return nil, 0, l.unclear(reply{err: err, unsent: unsent})
	}
	as = make([]locker.Answer, len(cs))
	for i, r := range results {
		if as[i] = r.answer(); r.ok {
			l.owns(cs[i].Key, cs[i].Owner)
		}
	}
	return as, held, nil
}

// ReleaseAll is Release for each claim. It takes a read and a write.
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
	if err := l.gate.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.gate.Leave()
	released, err := l.release(ctx, keeping(c, r), next)
	if errors.Is(err, locker.ErrUnavailable) {
		claimStateOf(c).keep = &r // for Abandon
	}
	return released, err
}

func keeping(c *locker.Claim, r locker.Record) request {
	return request{verb: keep, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value)}
}

// ending returns the request that leaves nothing of c behind (law 19).
func ending(c *locker.Claim) request {
	s := claimStateOf(c)
	if s.keep != nil {
		return keeping(c, *s.keep)
	}
	return request{verb: release, key: c.Key, owner: c.Owner, unmark: s.unmark}
}

// Begin marks the key of c.
func (l *Locker) Begin(ctx context.Context, c *locker.Claim, r locker.Record) (record string, err error) {
	if err := l.gate.Enter(); err != nil {
		return "", err
	}
	defer l.gate.Leave()
	answer := l.lanes.do(ctx, request{
		verb: begin, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value),
	})
	switch {
	case answer.err != nil:
		return "", l.unclear(answer)
	case !answer.ok:
		return "", l.lost()
	}
	return string(answer.record), nil
}

// Unmark lets the Release or Abandon of c remove its mark. It sends nothing.
func (*Locker) Unmark(c *locker.Claim) { claimStateOf(c).unmark = true }

// Forget deletes the record of key, and reports whether there was one. The first
// of two requests finds out which record is meant, so that a Forget that arrives
// late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.gate.Enter(); err != nil {
		return false, err
	}
	defer l.gate.Leave()
	r := l.lanes.do(ctx, request{verb: forget, key: key})
	if r.err == nil && r.ok {
		r = l.lanes.do(ctx, request{verb: forget, key: key, owner: string(r.record)})
	}
	if r.err != nil {
		return false, l.unclear(r)
	}
	return r.ok, nil
}

// claimState is the locker's own part of a claim that recalls. The guard never
// has two calls in flight that use it.
type claimState struct {
	keep   *locker.Record // of a Keep without an answer
	unmark bool           // see Unmark
}

// claimStateOf returns the state of c. Changes to it last only if c recalls.
func claimStateOf(c *locker.Claim) *claimState {
	s, ok := c.State.(*claimState)
	if !ok {
		s = new(claimState)
		if c.Recall {
			c.State = s
		}
	}
	return s
}

const (
	lateAfter  = time.Second      // when an Abandon with late is done again
	insistMax  = 30 * time.Second // for which the requests of an Abandon are repeated without an answer
	leaveMax   = locker.QueueLife // the same for a claim that waits when the locker is closed
	insistTry  = time.Second      // limit of one request
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Abandon takes c out of key and queue, in the background.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	l.forget(c.Owner)
	q := ending(c)
	l.gate.Go(func() {
		end := time.Now().Add(insistMax)
		l.insist(q, end)
		if late {
			l.pause(lateAfter)
			l.insist(q, end)
		}
	})
}

// giveBack releases a key that was granted to a claim which nobody knows (law
// 3). After Close it does nothing: Close has released all claims that waited.
func (l *Locker) giveBack(key, owner string) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	l.forget(owner)
	l.gate.Go(func() { l.insist(request{verb: release, key: key, owner: owner}, time.Now().Add(insistMax)) })
}

// pause waits for d, or until the locker is closed.
func (l *Locker) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closing:
	}
}

// insist sends q until that is answered, or until end. Close ends the first of
// its pauses.
func (l *Locker) insist(q request, end time.Time) {
	closing, wait := l.closing, firstPause
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(l.ctx, insistTry)
		r := l.lanes.do(ctx, q)
		cancel()
		if r.err == nil {
			return
		}
		if !errors.Is(l.sorted(r.err), locker.ErrUnavailable) {
			return // it would fail again
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-closing:
			closing, wait = nil, firstPause // once
		}
		t.Stop()
		wait = min(2*wait, lastPause)
	}
}

// leaveAll takes the claims that wait here out of their queues.
func (l *Locker) leaveAll() {
	l.mu.Lock()
	keys := make(map[string]string, len(l.queued))
	for owner, w := range l.queued {
		keys[owner] = w.claim.Key
	}
	clear(l.queued)
	l.mu.Unlock()
	var all sync.WaitGroup
	for owner, key := range keys {
		all.Go(func() { l.insist(request{verb: release, key: key, owner: owner}, time.Now().Add(leaveMax)) })
	}
	all.Wait()
}

func (l *Locker) lost() error { return fmt.Errorf("%s: %w", l.table.Name, locker.ErrLeaseLost) }

// sorted returns an error of a statement as an error of package locker, or as
// one that says what to do.
func (l *Locker) sorted(err error) error {
	switch l.table.verdict(err) {
	case NoRight, NoTable, Other:
		return fmt.Errorf("%s: %w%s", l.table.Name, err, l.table.advice(err))
	case Unavailable, Again, ReadOnly:
	}
	return fmt.Errorf("%s: %w: %w%s", l.table.Name, locker.ErrUnavailable, err, l.table.advice(err))
}
