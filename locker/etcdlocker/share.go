package etcdlocker

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// squeeze is one try of a claim to own a key beside others.
type squeeze struct {
	*attempt
	found *found
	at    *crowd

	run   []waiter // who comes in; the claim may be one of them
	owns  bool     // the claim has its share, or gets it
	again bool     // it has it already
	joins bool     // it goes into the queue
	entry string   // its key there
	lease clientv3.LeaseID
	place clientv3.LeaseID
}

// find finds out who comes in.
func (s *squeeze) find() {
	c, at := s.c, s.at
	for _, o := range at.owners {
		if o.id == c.Owner {
			s.owns, s.again = true, true
			s.run = at.run()
			return
		}
	}
	me := s.line()
	if len(at.owners) == 0 { // law 8: a free key is anybody's
		at.queue = append([]waiter{me}, at.queue...)
	} else {
		at.insert(me)
	}
	s.run = at.run()
	for i, w := range s.run {
		if w.ours {
			s.owns, s.nth = true, i
		}
	}
	s.joins = !s.owns && !s.found.queued && s.Wait && !s.Queued
}

// line takes the claim out of the queue, or makes the entry that it would have
// there.
func (s *squeeze) line() waiter {
	s.entry = s.st.Entry()
	for i, w := range s.at.queue {
		if s.found.queued && string(w.Key) == s.entry {
			s.at.queue = slices.Delete(s.at.queue, i, i+1)
			w.ours = true
			return w
		}
	}
	place := s.Place
	if place <= 0 {
		place = locker.Place(s.found.revision)
	}
	s.entry = s.l.entryKey(s.c.Key, place, s.found.revision, s.c.Owner)
	return waiter{queued: queued{Key: []byte(s.entry)}, ours: true, limit: max(s.c.Limit, 1)}
}

// moves reports whether there is anything to do.
func (s *squeeze) moves() bool { return s.owns || s.joins || len(s.run) > 0 }

// behind returns those that wait behind the run.
func (s *squeeze) behind() (ws []waiter) {
	for _, w := range s.at.queue {
		if !w.ours || s.joins || s.found.queued {
			ws = append(ws, w)
		}
	}
	return ws
}

// plan makes the transaction.
func (s *squeeze) plan(ctx context.Context) (b *draft, err error) {
	b = &draft{l: s.l, key: s.c.Key}
	switch {
	case s.again && len(s.run) == 0:
	case s.owns || len(s.run) > 0:
		b.ifs = s.at.same(s.l, s.c.Key)
		b.settle(s.at)
	}
	if s.owns {
		if s.lease, err = s.l.keyLease(ctx, s.c.TTL); err != nil {
			return nil, err
		}
		own := s.l.ownKey(s.c.Key, s.c.Owner, s.c.Limit)
		if s.again {
			b.ifs = append(b.ifs, exists(own))
		}
		if s.found.queued {
			b.dels = append(b.dels, s.entry)
		}
		b.puts = append(b.puts, put{own, lockValue(s.c.Owner, recordOf(s.c, s.c.TTL)), s.lease})
	}
	if s.joins {
		if err := s.join(ctx, b); err != nil {
			return nil, err
		}
	}
	if s.owns && !s.again || s.joins {
		b.ifs = s.unrecorded(b.ifs...)
	}
	first := 0
	if s.again { // it is the first itself
		first = 1
	}
	for i, w := range s.run {
		if !w.ours {
			b.hand(w, first+i, s.behind())
		}
	}
	return b, nil
}

// join puts the claim into the queue, and tells the owners of it if it is the
// first there. The others heard of those in front of it.
func (s *squeeze) join(ctx context.Context, b *draft) (err error) {
	if s.place, err = s.l.placeLease(ctx); err != nil {
		return err
	}
	e := queued{Key: []byte(s.entry), Value: []byte(encode(entryOf(s.c, s.place)))}
	for i := range s.at.queue {
		if s.at.queue[i].ours {
			s.at.queue[i].queued = e
		}
	}
	queue(s.st, s.entry, s.place)
	b.ifs = append(b.ifs, s.at.stay()...)
	b.puts = append(b.puts, put{s.entry, string(e.Value), s.place})
	if len(s.at.queue) > 1 {
		return nil
	}
	m, told := message{Kind: wanted, Key: []byte(s.c.Key), Queue: []queued{e}}, map[string]bool{}
	for _, o := range s.at.owners[:min(len(s.at.owners), toldMax)] {
		if o.holder.Instance != "" && !told[o.holder.Instance] {
			told[o.holder.Instance] = true
			b.mail = append(b.mail, letter{o.holder.Instance, m, s.place})
		}
	}
	return nil
}

// send carries the transaction out.
func (s *squeeze) send(ctx context.Context, a *locker.Answer) (*found, error) {
	b, err := s.plan(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.l.batcher.carry(ctx, b.writes(), b.ifs, b.ops(), s.looks())
	switch {
	case noLease(err):
		s.undo()
		s.l.sessionFor(s.c.TTL).lost(s.lease)
		s.l.places.lost(s.place)
		if err := s.l.dropDead(ctx, s.run); err != nil {
			return nil, err
		}
		return s.look(ctx)
	case errors.Is(err, locker.ErrUnsent):
		s.undo()
		return nil, err
	case err != nil:
		return nil, err
	case !r.Succeeded:
		s.undo()
		return s.foundIn(r), nil
	}
	s.revision = r.Header.Revision
	a.Acquired, a.Queued = s.owns, s.joins || s.found.queued && !s.owns
	if a.Queued {
		a.Place, a.Remaining = placeOf(s.entry), s.at.left()
	}
	return nil, nil
}

// undo notes that the claim has not joined the queue.
func (s *squeeze) undo() {
	if s.joins {
		s.st.Unqueue()
	}
}

// step is the end of an owner's share of a key, and what follows for those who
// wait. A step takes one request if nobody waits, and two if somebody does.
type step struct {
	l     *Locker
	key   string
	owner string        // whose share ends; nobody's, if it has none
	limit int           // of owner; 0 if that is not known
	next  *locker.Claim // to be queued behind the others
	also  []clientv3.Op

	at        *crowd
	nextState *state
	held      bool     // owner had its share
	run       []waiter // who comes in
	queues    bool     // next goes into the queue, or comes in
	place     clientv3.LeaseID
}

// leave carries s out.
func (s *step) leave(ctx context.Context) (locker.Released, error) {
	s.l.lines.disown(s.key, s.owner)
	if s.next != nil {
		s.nextState = s.l.book.Page(s.next)
	}
	r, err := s.carry(ctx)
	if err == nil || err == errNotOwner { //nolint:errorlint // itself
		return r, err
	}
	return r, s.l.unclear(err)
}

func (s *step) carry(ctx context.Context) (r locker.Released, err error) {
	if s.limit > 1 && s.next == nil {
		done, err := s.quick(ctx, &r)
		if done || err != nil {
			return r, err
		}
	}
	for range maxTries {
		if s.at == nil {
			if err = s.look(ctx); err != nil {
				return r, err
			}
		}
		r = locker.Released{}
		done, err := s.try(ctx, &r)
		if done || err != nil {
			return r, err
		}
	}
	return locker.Released{}, errChanging
}

func (s *step) looks() []clientv3.Op {
	return []clientv3.Op{s.l.owners(s.key), prefixed(s.l.queueOf(s.key))}
}

func (s *step) look(ctx context.Context) error {
	r, err := s.l.txn(ctx, nil, s.looks(), nil)
	if err == nil {
		s.learn(r)
	}
	return err
}

func (s *step) learn(r *clientv3.TxnResponse) {
	s.at = crowdOf(s.l, s.key, rangeOf(r, 0).Kvs, rangeOf(r, 1).Kvs, r.Header.Revision)
}

// quick ends the share if nobody waits.
func (s *step) quick(ctx context.Context, r *locker.Released) (done bool, err error) {
	own, queue := s.l.ownKey(s.key, s.owner, s.limit), s.l.queueOf(s.key)
	answer, err := s.l.batcher.carry(ctx, []string{s.l.lockKey(s.key)},
		[]clientv3.Cmp{exists(own), none(queue, endOf(queue))},
		[]clientv3.Op{clientv3.OpDelete(own), clientv3.OpGet(s.l.lockKey(s.key),
			clientv3.WithRange(s.l.ownersEnd(s.key)), clientv3.WithCountOnly())}, s.looks())
	switch {
	case err != nil:
		return false, err
	case !answer.Succeeded:
		s.learn(answer)
		return false, nil
	}
	r.Handed = rangeOf(answer, 1).Count > 0
	return true, nil
}

// try makes and sends one transaction.
func (s *step) try(ctx context.Context, r *locker.Released) (done bool, err error) {
	if len(s.at.ended) > endedMax {
		err = s.l.drop(ctx, s.at.ended)
		s.at = nil
		return false, err
	}
	b, err := s.plan(ctx, r)
	if err != nil {
		return false, err
	}
	if !s.held && len(s.run) == 0 {
		return true, errNotOwner
	}
	answer, err := s.l.batcher.carry(ctx, b.writes(), b.ifs, b.ops(), s.looks())
	switch {
	case noLease(err):
		s.undo()
		s.l.places.lost(s.place)
		s.at = nil
		return false, s.l.dropDead(ctx, s.run)
	case err != nil:
		r.Queued = s.queues
		return false, err
	case !answer.Succeeded:
		s.undo()
		s.learn(answer)
		return false, nil
	case len(s.run) == runMax: // there may be more
		_, _ = (&step{l: s.l, key: s.key}).leave(ctx)
	}
	if !s.held {
		return true, errNotOwner
	}
	return true, nil
}

// plan makes the transaction of a try.
func (s *step) plan(ctx context.Context, r *locker.Released) (*draft, error) {
	b := &draft{l: s.l, key: s.key, also: s.also}
	own, held := s.at.without(s.owner)
	if s.held = held; held {
		b.ifs, b.dels = s.l.isOwner(s.key, s.owner, own.limit), []string{own.path}
	}
	r.Waiting = len(s.at.queue)
	s.queues = s.held && s.next != nil && r.Waiting+len(s.at.owners) > 0
	if s.queues {
		if err := s.queueNext(ctx, r); err != nil {
			return nil, err
		}
	}
	b.ifs = append(b.ifs, s.at.same(s.l, s.key)...)
	b.ifs = append(b.ifs, s.at.stay()...)
	b.settle(s.at)
	s.run = s.at.run()
	r.Handed = len(s.run)+len(s.at.owners) > 0
	for i, w := range s.run {
		b.hand(w, i, s.at.queue)
	}
	for _, w := range s.at.queue {
		if w.ours {
			b.puts = append(b.puts, put{string(w.Key), string(w.Value), s.place})
		}
	}
	return b, nil
}

// queueNext puts next behind all others (law 9).
func (s *step) queueNext(ctx context.Context, r *locker.Released) (err error) {
	if s.place, err = s.l.placeLease(ctx); err != nil {
		return err
	}
	r.Queued, r.Place = true, locker.Place(s.at.revision)
	if n := len(s.at.queue); n > 0 {
		r.Place = max(r.Place, placeOf(string(s.at.queue[n-1].Key))+1)
	}
	w := waiterOf(queued{
		Key:   []byte(s.l.entryKey(s.key, r.Place, int64(r.Place), s.next.Owner)),
		Value: []byte(encode(entryOf(s.next, s.place))),
	})
	w.ours = true
	s.at.queue = append(s.at.queue, w)
	queue(s.nextState, string(w.Key), s.place)
	return nil
}

// undo notes that next has not joined the queue.
func (s *step) undo() {
	if s.queues {
		s.nextState.Unqueue()
	}
}
