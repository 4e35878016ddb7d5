package etcdlocker

import (
	"context"
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
	names
	servers
	*sessions

	life     *lockerkit.Life
	instance string
	waker    locker.Waker // set by Open
	inbox    inbox
	batcher  batcher
	book     *lockerkit.Book[data]
	sights   lockerkit.Sights // of Claim.Keys, and of shares by their keys in etcd
	lines    lines
}

var (
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Limiter      = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
	_ locker.Marker       = (*Locker)(nil)
	_ locker.Sharer       = (*Locker)(nil)
)

// New returns a Locker that keeps leases by client. It sends nothing. The
// caller closes client, after the Locker.
func New(client *clientv3.Client, opts ...Option) *Locker {
	s := settings{prefix: "guard/", members: []*clientv3.Client{client}}
	for _, o := range opts {
		o(&s)
	}
	l := &Locker{
		names: names{s.prefix}, life: lockerkit.NewLife(store), instance: lockerkit.NewID(),
		lines: lines{owned: map[string]*line{}},
	}
	l.inbox.l = l
	l.members, l.changed = s.members, l.inbox.watchAgain
	l.sessions = newSessions(l.life, &l.servers)
	l.batcher.life, l.batcher.servers = l.life, &l.servers
	l.book = lockerkit.NewBook[data](l.life, l.instance, func(c *locker.Claim, entry string) {
		l.abandon(false, c.Key, c.Owner, entry, nil)
	})
	return l
}

// Open keeps w, and checks the settings. It returns an ErrInvalidOption if one
// is wrong, or if the locker was opened before.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		l.waker = w
		if l.prefix == "" {
			return lockerkit.Invalid(store, "WithPrefix: the prefix is empty")
		}
		return l.servers.open()
	})
}

// Close ends the goroutines of l, and leaves the client open, unless
// [locker.FromDSN] has made it. Keys that are
// owned stay until their TTL ends. Close blocks until all calls have returned
// and what Abandon has left to do is done, or until ctx ends. Then it returns
// ctx's error, and goes on in the background for half a minute at most.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, l.tidy, l.servers.close)
}

// tidy takes this process out of all queues, and deletes its inbox.
func (l *Locker) tidy() {
	ctx, cancel := context.WithTimeout(l.life.Context(), time.Second)
	defer cancel()
	if id := l.places.current(); id != 0 {
		_, _ = l.client().Revoke(ctx, id)
	}
	if l.newest.Load() > 0 {
		_, _ = l.client().Delete(ctx, l.inboxOf(l.instance))
	}
}
