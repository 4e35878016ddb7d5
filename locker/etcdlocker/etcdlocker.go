package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// store names this package in errors.
const store = "etcdlocker"

// Locker is a [locker.Locker] on etcd. It serves one guard. It is safe for
// concurrent use.
//
// It has one goroutine that watches its inbox from the first Acquire on, one
// for each etcd lease in use, and at most two that send transactions. All end
// with Close.
type Locker struct {
	settings
	life     *lockerkit.Life
	instance string
	waker    locker.Waker // set by Open
	single   bool         // set by Open: each client has one endpoint
	member   atomic.Int32 // counts the changes of the member in use
	answered atomic.Int32 // member at the last answer of a server
	listen   sync.Once    // the first Acquire starts the watch of the inbox
	lane     lane
	book     *lockerkit.Book[data]
	sights   lockerkit.Sights // of Claim.Keys, and of shares by their keys in etcd
	dial     func() error     // makes the clients, of which the locker is then the owner; nil: they are the caller's

	reconnected atomic.Int64 // when doubt last made a client connect, in ns
	places      *session     // of this process in queues, and for offers

	mu       sync.Mutex         // guards what follows; never held across I/O or a callback
	sessions map[int64]*session // for keys, by the seconds that they live
	sweepAt  int                // the number of sessions at which those that have ended are forgotten
	owned    map[string]*line   // what is known of the queues of owned keys, by Claim.Key
	newest   int64              // the highest revision that this process has heard of
	rewatch  context.CancelFunc // ends the present watch, to begin it anew; nil before the first
}

var (
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Limiter      = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
	_ locker.Marker       = (*Locker)(nil)
	_ locker.Sharer       = (*Locker)(nil)
)

// line is what the owner of a key knows of its queue: the first claims, in
// their order. It may be wrong, and the transaction of a Release finds that
// out.
type line struct {
	owner string
	queue []queued
}

// New returns a Locker that keeps leases by client. It sends nothing. The
// caller closes client, after the Locker.
func New(client *clientv3.Client, opts ...Option) *Locker {
	s := settings{prefix: "guard/", members: []*clientv3.Client{client}}
	for _, o := range opts {
		o(&s)
	}
	l := &Locker{
		settings: s, life: lockerkit.NewLife(store), instance: lockerkit.NewID(),
		sessions: map[int64]*session{}, owned: map[string]*line{},
	}
	l.book = lockerkit.NewBook[data](l.life, l.instance, func(c *locker.Claim, entry string) {
		l.abandon(false, c.Key, c.Owner, entry, nil)
	})
	l.lane.locker = l
	l.places = placesOf(l)
	return l
}

// Open keeps w, and checks the settings. It returns an ErrInvalidOption if one
// is wrong, or if the locker was opened before.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		l.waker = w
		if l.dial != nil {
			if err := l.dial(); err != nil {
				return err
			}
		}
		if err := l.check(); err != nil {
			l.closeOwned()
			return err
		}
		l.single = !slices.ContainsFunc(l.members, func(c *clientv3.Client) bool { return len(c.Endpoints()) > 1 })
		return nil
	})
}

// Close ends the goroutines of l, and leaves the client open, unless
// [locker.FromDSN] has made it. Keys that are
// owned stay until their TTL ends. Close blocks until all calls have returned
// and what Abandon has left to do is done, or until ctx ends. Then it returns
// ctx's error, and goes on in the background for half a minute at most.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, l.tidy, l.closeOwned)
}

// tidy takes this process out of all queues, and deletes its inbox.
func (l *Locker) tidy() {
	ctx, cancel := context.WithTimeout(l.life.Context(), time.Second)
	defer cancel()
	if id := l.places.current(); id != 0 {
		_, _ = l.client().Revoke(ctx, id)
	}
	l.mu.Lock()
	used := l.newest > 0
	l.mu.Unlock()
	if used {
		_, _ = l.client().Delete(ctx, l.inboxOf(l.instance))
	}
}

// client returns the client of the member in use.
func (l *Locker) client() *clientv3.Client { return l.members[int(l.member.Load())%len(l.members)] }

// reconnectPause is the shortest time between two attempts to reach a server
// that cannot be reached.
const reconnectPause = time.Second

// fair is how long a member has at least to answer. A request whose caller gave
// it less says nothing about the member.
const fair = 200 * time.Millisecond

// doubt is told of each request that was sent by c and failed. It changes to
// the next member if that of c gave no answer. It also sees to it that c
// connects again soon, because gRPC's own pause grows to two minutes.
func (l *Locker) doubt(c *clientv3.Client, err error, sent time.Time) {
	if !unanswered(err) {
		l.answered.Store(l.member.Load())
	}
	if noLease(err) || refused(err) || errors.Is(err, context.Canceled) {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) && time.Since(sent) < fair {
		return
	}
	now := time.Now().UnixNano()
	if last := l.reconnected.Load(); now-last > int64(reconnectPause) && l.reconnected.CompareAndSwap(last, now) {
		c.ActiveConnection().ResetConnectBackoff()
	}
	if len(l.members) == 1 {
		return
	}
	n := l.member.Load()
	if l.members[int(n)%len(l.members)] != c || !l.member.CompareAndSwap(n, n+1) {
		return // another call has done it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rewatch != nil {
		l.rewatch()
	}
}

// txn sends one transaction.
func (l *Locker) txn(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(errUnsent, err)
	}
	c, sent := l.client(), time.Now()
	r, err := c.Txn(ctx).If(ifs...).Then(then...).Else(els...).Commit()
	if err != nil {
		l.doubt(c, err, sent)
		return nil, err
	}
	l.heard(r.Header.Revision)
	return r, nil
}

// heard notes an answer, and keeps the newest revision.
func (l *Locker) heard(revision int64) {
	l.answered.Store(l.member.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, revision)
}

// rangeOf returns the keys that the i-th operation of a transaction has read.
func rangeOf(r *clientv3.TxnResponse, i int) *clientv3.GetResponse {
	return (*clientv3.GetResponse)(r.Responses[i].GetResponseRange())
}

// prefixed returns an operation that reads the queue whole, or as opts say.
func prefixed(prefix string, opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(prefix, slices.Concat([]clientv3.OpOption{clientv3.WithPrefix()}, opts)...)
}
