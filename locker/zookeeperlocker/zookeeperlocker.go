package zookeeperlocker

import (
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// store names this package in errors.
const store = "zookeeperlocker"

// Locker is a [locker.Locker] on ZooKeeper. It serves one guard. It is safe for
// concurrent use.
//
// It has two goroutines from the first Acquire on, one for each key that it
// waits for, and one for each key that it has owned for some milliseconds. All
// end with Close.
type Locker struct {
	servers

	life     *lockerkit.Life
	instance string
	waker    locker.Waker // set by Open
	start    sync.Once    // the first Acquire starts tend and sweep
	book     *lockerkit.Book[data]
	sights   lockerkit.Sights // of Claim.Keys
	lines    lines
}

var (
	_ locker.Inspector    = (*Locker)(nil)
	_ locker.Limiter      = (*Locker)(nil)
	_ locker.FindingNamer = (*Locker)(nil)
)

// New returns a Locker that keeps leases by conn. It sends nothing. The caller
// closes conn, after the Locker.
func New(conn *zk.Conn, opts ...Option) *Locker {
	l := &Locker{life: lockerkit.NewLife(store), instance: lockerkit.NewID()}
	l.settings, l.conn = settings{root: "/guard", acl: zk.WorldACL(zk.PermAll)}, conn
	l.lines = lines{l: l, owned: map[string]*line{}}
	l.book = lockerkit.NewBook[data](l.life, l.instance, func(c *locker.Claim, entry string) {
		l.abandon(false, c.Key, c.Owner, entry)
	})
	for _, o := range opts {
		o(&l.settings)
	}
	return l
}

// Open keeps w, and checks the settings. It returns an ErrInvalidOption if one
// is wrong, or if the locker was opened before.
func (l *Locker) Open(w locker.Waker) error {
	return l.life.Open(func() error {
		l.waker = w
		return l.servers.open()
	})
}

// begin is the beginning of a call. The call ends with l.life.Leave.
func (l *Locker) begin() error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	l.start.Do(func() {
		l.life.Serve(l.tend)
		l.life.Serve(l.sweep)
	})
	return nil
}

// Close ends the goroutines of l, and leaves the connection open, unless
// [locker.FromDSN] has made it. Keys that are owned stay until their TTL ends.
// Close blocks until all calls have returned and what Abandon has left to do is
// done, or until ctx ends. Then it returns ctx's error, and goes on in the
// background for half a minute at most.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, l.leaveQueues, l.servers.close)
}

// leaveQueues takes this process out of all queues.
func (l *Locker) leaveQueues() {
	ctx, cancel := context.WithTimeout(l.life.Context(), time.Second)
	defer cancel()
	for _, path := range l.book.LeaveAll() {
		_ = l.delete(ctx, path)
	}
}

// tendEvery is how soon a new session is noticed.
const tendEvery = 100 * time.Millisecond

// tend tells the guard of each new session, because the queue entries of the
// old one are gone, with their watches.
func (l *Locker) tend() {
	t := time.NewTicker(tendEvery)
	defer t.Stop()
	last := int64(0)
	for {
		if id := l.conn.SessionID(); id != last && l.conn.State() == zk.StateHasSession {
			last = id
			l.waker.WakeAll()
		}
		select {
		case <-l.life.Context().Done():
			return
		case <-t.C:
		}
	}
}
