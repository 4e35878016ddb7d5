package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

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
