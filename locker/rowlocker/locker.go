package rowlocker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

var _ locker.Locker = (*Locker)(nil)

// Locker is a [locker.Locker] on rows, for one guard.
type Locker struct {
	rows     Rows
	traits   Traits
	life     *lockerkit.Life
	instance string
	listen   func() // begins to hear messages, once
	desk     *desk
	book     *book
	lookout  *lookout
}

// New returns a Locker on rows, and sends nothing. Close closes the rows. Keys
// can linger if the rows have [Ears].
func New(rows Rows) *Locker {
	t := rows.Traits()
	t.Workers, t.Batch = max(t.Workers, 1), max(t.Batch, 1)
	l := &Locker{rows: rows, traits: t, instance: lockerkit.NewID(), book: newBook()}
	l.life = &lockerkit.Life{Store: t.Name}
	l.desk = newDesk(rows, t, l.instance)
	l.lookout = &lookout{desk: l.desk, book: l.book, life: l.life}
	l.lookout.deaf.Store(&time.Time{})
	l.listen = func() {}
	if ears, ok := rows.(Ears); ok {
		l.desk.told = l.lookout.told
		l.listen = sync.OnceFunc(func() {
			now := time.Now()
			l.lookout.deaf.Store(&now)
			l.life.Serve(func() { l.lookout.listen(ears) })
		})
	}
	return l
}

// Capabilities return what a Locker on these rows can do.
func (l *Locker) Capabilities() locker.Capabilities {
	_, ears := l.rows.(Ears)
	return locker.Capabilities{
		Limits: l.traits.Limits, Shares: true, Several: !l.traits.Single, Records: true, Inspects: true,
		Lingers: ears, Findings: l.traits.Findings,
	}
}

// Listens reports whether the messages of other processes arrive here now, and
// sees to it that they will. It does not block.
func (l *Locker) Listens() bool {
	if l.life.Enter() == nil {
		l.listen()
		l.life.Leave()
	}
	return l.lookout.hears()
}

// Node returns the same for all keys, which count as one node's.
func (*Locker) Node(string) string { return "" }

// Open checks the settings, and starts what serves the calls.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		if err := l.rows.Open(); err != nil {
			return err
		}
		l.lookout.waker = w
		l.desk.serve(l.life)
		l.life.Serve(l.lookout.poll)
		if l.desk.pulse != nil || !l.traits.Clock {
			l.life.Serve(l.lookout.mind)
		}
		if rows, ok := l.rows.(Worker); ok {
			l.life.Serve(func() { rows.Work(l.life.Context()) })
		}
		return nil
	})
}

// Close takes the claims that wait here out of their queues, and ends the
// goroutines of l. The database stays open, unless l opened it. Keys that are
// owned stay until their TTL ends.
//
// Close blocks until that is done or ctx ends. If ctx ends first, Close returns
// its error, and goes on in the background for about [locker.QueueLife].
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, func() {
		l.life.Wait()
		l.leaveAll()
		l.life.End()
		l.rows.Close()
	})
}

// leaveAll takes the claims that wait here out of their queues, with one try.
// What that does not reach ends by itself within [locker.QueueLife].
func (l *Locker) leaveAll() {
	ctx, cancel := context.WithTimeout(l.life.Context(), limits.Apart(locker.QueueLife))
	defer cancel()
	var leaving []request
	for _, e := range l.book.leave() {
		leaving = append(leaving, request{verb: release, key: e.key, owner: e.owner})
	}
	l.desk.all(ctx, l.desk.calls, leaving, func(int, reply) {})
}

// Acquire makes c an owner of its key if law 9 allows it. An Acquire takes a
// read, and a write if something changes.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.life.Leave()
	l.listen()
	ended := l.book.hasEnded(c.Owner)
	switch {
	case ended && !c.Recall:
		return locker.Answer{}, nil
	case ended:
		t.Wait = false
	case t.Wait || t.Queued:
		l.book.looks(c)
	}
	sent := time.Now()
	r := l.desk.do(ctx, *l.acquiring(c, t))
	if r.err != nil {
		if r.unsent && !t.Queued { // nobody gives it up
			l.book.forget(c.Owner)
		}
		return locker.Answer{Queued: t.Queued || t.Wait && !r.unsent}, r.err
	}
	if l.book.saw(c.Owner, r.now); !r.queued {
		l.book.forget(c.Owner)
	}
	if r.ok && !l.owns(c, sent) {
		return locker.Answer{}, nil
	}
	l.wanted(c, &r.result)
	return r.answer(), nil
}

// wanted tells the guard of claims that wait behind c. A message may have told
// another process of them: the one that owned the key before, or none. Without
// messages the lookout tells, a moment later: those who wait here come first
// then, and the key changes hands for more of them.
func (l *Locker) wanted(c *locker.Claim, r *result) {
	if !r.ok || r.waiting == 0 || l.lookout.polls() {
		return
	}
	if _, news := l.book.found(c.Owner, true, time.Time{}); news {
		l.lookout.waker.Wanted(c.Key)
	}
}

// owns notes that c owns its key, by a request that was sent at that time. If
// the claim was over before, owns gives the key back, and returns false.
func (l *Locker) owns(c *locker.Claim, sent time.Time) bool {
	if !l.book.owns(c.Key, c.Owner, l.desk.over(sent.Add(c.First()))) {
		l.lookout.waker.Orphaned(c.Key, c.Owner)
		return false
	}
	return true
}

func (l *Locker) lost() error { return fmt.Errorf("%s: %w", l.traits.Name, locker.ErrLeaseLost) }

// unclear returns err for a holder: a refusal leaves as much in doubt as
// silence does.
func unclear(err error) error {
	if err == nil || errors.Is(err, locker.ErrLeaseLost) || errors.Is(err, locker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", locker.ErrUnavailable, err)
}

// acquiring returns the request of an Acquire.
func (l *Locker) acquiring(c *locker.Claim, t locker.Try) *request {
	return &request{
		verb: acquire, key: c.Key, owner: c.Owner, inst: l.instance, limit: c.Limit, ttl: c.First().Microseconds(),
		offer: c.ShortOffer().Microseconds(), fencing: c.Fencing, holder: lockerkit.Describe(c, l.instance),
		recall: c.Recall, lingers: c.Lingers, try: t, lapsed: l.book.lapsed(c.Owner),
	}
}

// Release hands the key of c to the first in the queue, and to those behind it
// that may own it too.
func (l *Locker) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	r := l.desk.do(ctx, *l.releasing(ending(c, e), e.Next))
	if e.Queued && e.Record.Value != "" && r.err != nil && !errors.Is(r.err, locker.ErrUnavailable) {
		// The store does not take the record, and the key must be free.
		r = l.desk.do(ctx, *l.releasing(request{verb: release, key: c.Key, owner: c.Owner}, nil))
	}
	return l.released(r, e.Next)
}

// ending returns the request that ends c.
func ending(c *locker.Claim, e locker.End) request {
	if r := e.Record; r.Value != "" {
		return request{verb: keep, key: c.Key, owner: c.Owner, ttl: r.TTL.Microseconds(), value: []byte(r.Value)}
	}
	return request{verb: release, key: c.Key, owner: c.Owner, unmark: e.Unmark}
}

// releasing completes q before it is sent.
func (l *Locker) releasing(q request, next *locker.Claim) *request {
	q.inst, q.lapsed = l.instance, l.book.lapsed(q.owner)
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
		return locker.Released{Queued: next != nil && !r.unsent}, unclear(r.err)
	}
	if next != nil {
		if l.book.saw(next.Owner, r.now); !r.queued {
			l.book.forget(next.Owner)
		}
	}
	out := locker.Released{Waiting: r.waiting, Handed: r.handed, Queued: r.queued, Place: locker.Place(r.place)}
	if !r.ok {
		return out, l.lost()
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
	q.lapsed = l.book.lapsed(q.owner)
	r := l.desk.do(ctx, q)
	switch {
	case r.err != nil:
		return result{}, r.err
	case !r.ok:
		return result{}, l.lost()
	}
	return r.result, nil
}

// Renew gives each claim its full TTL again. The requests travel together.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	sent := time.Now()
	qs := make([]request, len(cs))
	for i, c := range cs {
		qs[i] = request{
			verb: renew, key: c.Key, owner: c.Owner, ttl: c.TTL.Microseconds(), lapsed: l.book.lapsed(c.Owner),
		}
	}
	l.desk.all(ctx, l.desk.renewals, qs, func(i int, r reply) {
		switch c := cs[i]; {
		case r.err != nil:
			answered(i, unclear(r.err))
		case !r.ok, !l.book.renewed(c.Owner, l.desk.over(sent.Add(c.TTL))):
			answered(i, l.lost())
		default:
			l.wanted(c, &r.result)
			answered(i, nil)
		}
	})
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
	l.listen()
	batch := make([]*request, len(cs))
	for i, c := range cs {
		batch[i] = l.acquiring(c, locker.Try{})
	}
	sent := time.Now()
	results, held, err := l.desk.together(ctx, batch, prefix)
	if err != nil {
		return nil, 0, err
	}
	as = make([]locker.Answer, len(cs))
	for i, c := range cs {
		if as[i] = results[i].answer(); results[i].ok && l.owns(c, sent) {
			l.wanted(c, &results[i])
		}
	}
	return as, held, nil
}

// ReleaseAll is Release for each claim, by a read and a write.
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
	qs := make([]request, len(cs))
	for i, c := range cs {
		qs[i] = *l.releasing(ending(c, ends[i]), ends[i].Next)
	}
	replies := make([]reply, len(cs))
	l.desk.all(ctx, l.desk.calls, qs, func(i int, r reply) { replies[i] = r })
	for i, r := range replies {
		released, err := l.released(r, ends[i].Next)
		answered(i, released, err)
	}
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

// Forget deletes the record of key, and reports whether there was one. The
// first of two requests finds out which record is meant, so that a Forget that
// arrives late deletes no later one.
func (l *Locker) Forget(ctx context.Context, key string) (bool, error) {
	if err := l.life.Enter(); err != nil {
		return false, err
	}
	defer l.life.Leave()
	r := l.desk.do(ctx, request{verb: forget, key: key})
	if r.err == nil && r.ok {
		r = l.desk.do(ctx, request{verb: forget, key: key, owner: string(r.record)})
	}
	if r.err != nil {
		return false, unclear(r.err)
	}
	return r.ok, nil
}
