package etcdlocker

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

const (
	renewBatch   = 50 // claims in one request
	renewFlights = 4  // requests of one Renew at a time
)

// Renew gives each claim its full TTL again, 50 in a request.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.life.Enter(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	turns := make(chan struct{}, renewFlights)
	var all sync.WaitGroup
	for _, b := range renewals(l, cs, answered) {
		turns <- struct{}{} // a request ends with ctx
		all.Go(func() {
			defer func() { <-turns }()
			b.run(ctx)
		})
	}
	all.Wait()
}

// renewal is one request of a Renew. Its claims have different keys and one
// session, so that a session that has ended fails no others.
type renewal struct {
	l       *Locker
	session *session
	claims  []*locker.Claim
	keys    map[string]bool
	answer  []func(err error)
}

// renewals makes the requests for the claims whose leases go on. It answers the
// others.
func renewals(l *Locker, cs []*locker.Claim, answered func(i int, err error)) (all []*renewal) {
	filling := map[*session]*renewal{}
	for i, c := range cs {
		if l.book.Page(c).Over() {
			answered(i, errNotOwner)
			continue
		}
		s := l.sessionFor(c.TTL)
		b := filling[s]
		own := l.ownKey(c.Key, c.Owner, c.Limit)
		if b == nil || len(b.claims) == renewBatch || b.keys[own] {
			b = &renewal{l: l, session: s, keys: map[string]bool{}}
			filling[s], all = b, append(all, b)
		}
		b.claims, b.keys[own] = append(b.claims, c), true
		b.answer = append(b.answer, func(err error) { answered(i, err) })
	}
	return all
}

// run sends the request, and again if the session had to be made anew.
func (b *renewal) run(ctx context.Context) {
	var r *clientv3.TxnResponse
	var err error
	for range 3 {
		if r, err = b.send(ctx); !noLease(err) {
			break
		}
	}
	for i, c := range b.claims {
		switch {
		case err != nil:
			b.answer[i](b.l.unclear(err))
		case !r.Responses[i].GetResponseTxn().Succeeded:
			b.answer[i](errNotOwner)
		default:
			b.l.book.Page(c).Own(c.TTL)
			b.answer[i](nil)
		}
	}
}

func (b *renewal) send(ctx context.Context) (*clientv3.TxnResponse, error) {
	need := time.Duration(0)
	for _, c := range b.claims {
		need = max(need, c.TTL)
	}
	lease, err := b.session.lease(ctx, need)
	if err != nil {
		return nil, err
	}
	ops := make([]clientv3.Op, len(b.claims))
	for i, c := range b.claims {
		key := b.l.ownKey(c.Key, c.Owner, c.Limit)
		put := clientv3.OpPut(key, lockValue(c.Owner, recordOf(c, c.TTL)), clientv3.WithLease(lease))
		ops[i] = clientv3.OpTxn(b.l.isOwner(c.Key, c.Owner, c.Limit), []clientv3.Op{put}, nil)
	}
	r, err := b.l.txn(ctx, nil, ops, nil)
	if noLease(err) {
		b.session.lost(lease)
	}
	return r, err
}

// Fence reserves a block of tokens in one request. It writes to the inbox of l,
// for a revision of its own.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.life.Enter(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	if l.book.Page(c).Over() {
		return 0, errNotOwner
	}
	lease, err := l.keyLease(ctx, c.TTL)
	if err != nil {
		return 0, l.unclear(err)
	}
	put := clientv3.OpPut(l.inboxOf(l.instance), encode(message{Kind: nothing}), clientv3.WithLease(lease))
	r, err := l.txn(ctx, l.isOwner(c.Key, c.Owner, c.Limit), []clientv3.Op{put}, nil)
	switch {
	case err != nil:
		return 0, l.unclear(err)
	case !r.Succeeded:
		return 0, errNotOwner
	}
	return token(r.Header.Revision, 0), nil
}
