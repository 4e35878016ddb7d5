package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// store names this package in errors.
const store = "etcdlocker"

// Locker is a [locker.Locker] on etcd, for one guard. A Locker is safe for
// concurrent use.
//
// A Locker has one goroutine that watches its inbox from the first Acquire on,
// one for each etcd lease in use, and at most two that send transactions. All
// end with Close.
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
	_ locker.Several      = (*Locker)(nil)
	_ locker.Sharer       = (*Locker)(nil)
)

// New returns a Locker that keeps leases by client. New sends nothing. The
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
	l.batcher.life, l.batcher.txn = l.life, l.servers.txn
	l.book = lockerkit.NewBook[data](l.life, l.instance, func(c *locker.Claim, entry string) {
		l.abandon(false, c.Key, c.Owner, entry, nil)
	})
	return l
}

type settings struct {
	prefix  string
	members []*clientv3.Client // New's first
}

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

// WithPrefix sets the beginning of all keys in etcd. Processes exclude each
// other if they have the same prefix. The default is "guard/".
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithMembers names clients of single members, each made with one endpoint. The
// Locker uses one of all its clients at a time, New's first. If that gives no
// answer, it goes on with the next.
//
// A client of several endpoints sends requests to all in turn. If a member
// hangs, it needs 10 s and more to find out, and until then some requests get
// no answer. A silent member is then not told from a silent etcd, so that calls
// do not learn early of an outage, and guard.WithFailOpen has no effect.
func WithMembers(clients ...*clientv3.Client) Option {
	return func(s *settings) { s.members = append(s.members, clients...) }
}

// Open keeps w, and checks the settings. Open returns an ErrInvalidOption if
// one is wrong, or if the locker was opened before.
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
// [locker.FromDSN] has made it. Keys that are owned stay until their TTL ends.
// Close blocks until all calls have returned and what Abandon has left to do is
// done, or until ctx ends. If ctx ends first, Close returns its error, and goes
// on in the background for half a minute at most.
func (l *Locker) Close(ctx context.Context) error {
	return l.life.Close(ctx, l.tidy, l.servers.close)
}

// tidy takes this process out of all queues, and deletes its inbox. The etcd
// lease of its places ends by itself, because keys that were offered stand
// under it too.
func (l *Locker) tidy() {
	ctx, cancel := context.WithTimeout(l.life.Context(), time.Second)
	defer cancel()
	paths := l.book.LeaveAll()
	if l.newest.Load() > 0 {
		paths = append(paths, l.inboxOf(l.instance))
	}
	for some := range slices.Chunk(paths, tripsMax) {
		var deletes []clientv3.Op
		for _, path := range some {
			deletes = append(deletes, clientv3.OpDelete(path))
		}
		_, _ = l.txn(ctx, nil, deletes, nil)
	}
}

// granularity is how much later etcd may end a lease. TTLs are whole seconds,
// and etcd looks for ended leases twice a second.
const granularity = 3 * time.Second

// Limits returns how late leases end if their process has died.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and every 250 ms with guard's default backoff. The process measures the TTL
// of a dead holder from its first look after the last renewal.
//
// A process that never looked before finds the key until etcd deletes it. With
// a TTL of more than 50 minutes, a thousandth of the TTL is added. An election
// of a new leader prolongs all etcd leases, and may add the TTL once more.
func (*Locker) Limits() locker.Limits {
	return locker.Limits{Late: locker.LookEvery, LateForOthers: rotation + granularity}
}

// Shares reports true: the store keeps shared claims and permits.
func (*Locker) Shares(int) bool { return true }

// Held returns comparisons that hold while the lease in ctx owns its key, for
// the If of the caller's own transaction:
//
//	r, err := client.Txn(ctx).If(l.Held(ctx)...).Then(clientv3.OpPut("x", "1")).Commit()
//
// If r.Succeeded is false, the lease was lost and nothing was written. ctx is
// that of the function under the lease. With several leases of the guard of l
// in ctx, such as those of DoAll, all of them must hold.
//
// If ctx carries no such lease, or one of them was released, the comparison
// never holds. Held sends nothing, does not block, and is safe for concurrent
// use.
func (l *Locker) Held(ctx context.Context) []clientv3.Cmp {
	holds, ok := lockerkit.Holds(ctx, l)
	if !ok {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(l.prefix), "<", 0)}
	}
	var all []clientv3.Cmp
	for _, h := range holds {
		all = append(all, l.isOwner(h.Key, h.Owner, h.Limit)...)
	}
	return all
}

// Acquire makes c the owner of its key, or puts it into the queue. Acquire
// takes one request if nobody owns the key, one to look at a key that is held,
// and two to join a queue. An answer that stays until somebody changes
// something, such as a missing right, is an error of its own.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.life.Leave()
	l.inbox.open()
	try := attempt{l: l, c: c, st: l.book.Page(c), Try: t, wide: c.Limit > 1}
	var a locker.Answer
	var err error
	if c.Recall || !try.st.Ended() {
		a, err = try.run(ctx)
	}
	switch {
	case err == nil && a.Record != "": // whatever became of the claim
	case try.st.Ended():
		return try.st.AnswerEnded(t)
	case err != nil:
		return locker.Answer{Queued: t.Queued || try.st.MayQueue()}, l.tryError(err)
	}
	return a, nil
}

// gotKey notes that the claim owns its key. gotKey gives back the key of a
// claim that has ended, and returns false.
func (l *Locker) gotKey(st *state) bool {
	c := st.Claim
	if !st.Own(c.TTL) {
		l.abandon(true, c.Key, c.Owner, "", st)
		return false
	}
	if c.Limit <= 1 {
		l.sights.Forget(c.Key)
		l.lines.own(c.Key, c.Owner)
	}
	return true
}

// AcquireAll makes each claim the owner of its key, or only those in front of
// the first key that is held if prefix, or none. AcquireAll takes one request
// if all keys are free, one more if some are held and prefix is set, and one
// more if a lease has ended by its TTL.
func (l *Locker) AcquireAll(ctx context.Context, cs []*locker.Claim, prefix bool) (
	as []locker.Answer, held int, err error,
) {
	if err := l.life.Enter(); err != nil {
		return nil, 0, err
	}
	defer l.life.Leave()
	l.inbox.open()
	t := together{l: l, cs: cs, prefix: prefix, mine: make([]bool, len(cs))}
	for _, c := range cs {
		l.book.Page(c)
	}
	if err := t.run(ctx); err != nil {
		return nil, 0, l.tryError(err)
	}
	return t.as, t.held, nil
}

const (
	shownMax = 4  // entries that travel in a message
	readMax  = 64 // entries that a Release reads
)

// Release ends c's hold and hands the key over, in one request if this process
// knows the first claim in the queue, and in two if not.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.life.Enter(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	st := l.book.Page(c)
	over := st.Over()
	st.Leave()
	if over { // etcd may still name c, so the key is freed all the same
		next = nil
	}
	r, err := l.freeOf(ctx, st, next)
	if over && err == nil {
		return locker.Released{}, errNotOwner
	}
	return r, err
}

// ReleaseAll is Release for each claim. The requests travel together, see
// batcher.
func (l *Locker) ReleaseAll(
	ctx context.Context, cs, nexts []*locker.Claim, answered func(i int, r locker.Released, err error),
) {
	var all sync.WaitGroup
	for i, c := range cs {
		all.Go(func() {
			r, err := l.Release(ctx, c, nexts[i])
			answered(i, r, err)
		})
	}
	all.Wait()
}

// freeOf is free for the key of a claim. If nothing was done under the claim,
// it removes the claim's mark.
func (l *Locker) freeOf(ctx context.Context, st *state, next *locker.Claim) (locker.Released, error) {
	c := st.Claim
	st.Data.mu.Lock()
	unmark := st.Data.unmark
	st.Data.mu.Unlock()
	if c.Limit > 1 {
		return (&step{l: l, key: c.Key, owner: c.Owner, limit: c.Limit, next: next}).leave(ctx)
	}
	if !unmark {
		return l.free(ctx, c.Key, c.Owner, next)
	}
	r, err := (&handover{l: l, key: c.Key, owner: c.Owner, next: next, unmark: true}).handOver(ctx)
	if !errors.Is(err, locker.ErrLeaseLost) {
		return r, err
	}
	// The claim has lost the key before, but nothing was done all the same.
	rec := l.recordKey(c.Key)
	if _, gone := l.txn(ctx, owns(rec, c.Owner), []clientv3.Op{clientv3.OpDelete(rec)}, nil); gone != nil {
		return locker.Released{}, l.unclear(gone)
	}
	return r, err
}

// free takes the key from owner, if it has it, and gives it to the first in the
// queue. free does the latter too if nobody has the key.
func (l *Locker) free(ctx context.Context, key, owner string, next *locker.Claim) (locker.Released, error) {
	return (&handover{l: l, key: key, owner: owner, next: next}).handOver(ctx)
}

// Abandon takes c out of key and queue, in the background. Abandon takes one
// request or two.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	st, _ := c.State.(*state)
	entry := ""
	if st != nil {
		entry = st.Leave()
	}
	l.abandon(late, c.Key, c.Owner, entry, st)
}

// abandon leaves nothing of an owner id behind. Without rights it cannot. st is
// nil if nothing of the claim may have been recorded.
func (l *Locker) abandon(late bool, key, owner, entry string, st *state) {
	l.lines.disown(key, owner)
	l.life.Abandon(late, func(ctx context.Context) bool {
		if st != nil {
			if err := l.endRecorded(ctx, st); err != nil && !refused(err) {
				return false
			}
			st = nil // once
		}
		err := l.leave(ctx, key, owner, entry)
		return err == nil || lacksRights(err)
	})
}

// leave takes an owner id out of the queue. If it owns the key, or nobody does,
// the key goes to the first in the queue.
func (l *Locker) leave(ctx context.Context, key, owner, entry string) error {
	var then []clientv3.Op
	if entry != "" {
		then = append(then, clientv3.OpDelete(entry))
	}
	n := len(then)
	then = append(then, l.owners(key), prefixed(l.queueOf(key), clientv3.WithCountOnly()))
	r, err := l.txn(ctx, nil, then, nil)
	if err != nil {
		return err
	}
	owners, waiting := rangeOf(r, n).Kvs, rangeOf(r, n+1).Count
	mine := slices.ContainsFunc(owners, func(kv *mvccpb.KeyValue) bool {
		return strings.HasPrefix(string(kv.Value), owner+"/")
	})
	switch {
	case mine:
	case waiting == 0:
		return nil
	case len(owners) > 0 && string(owners[0].Key) == l.lockKey(key):
		return nil
	}
	if len(owners) > 0 && string(owners[0].Key) != l.lockKey(key) {
		_, err = (&step{l: l, key: key, owner: owner}).leave(ctx)
	} else {
		_, err = l.free(ctx, key, owner, nil)
	}
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	return err
}

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

// Fence reserves a block of tokens in one request. Fence writes to the inbox of
// l, for a revision of its own.
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
