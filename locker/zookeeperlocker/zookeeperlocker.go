package zookeeperlocker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// store names this package in errors.
const store = "zookeeperlocker"

// Locker is a [locker.Locker] on ZooKeeper, for one guard. A Locker is safe for
// concurrent use.
//
// A Locker has two goroutines from the first Acquire on, one for each key that
// it waits for, and one for each key that it has owned for some milliseconds.
// All end with Close.
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

// New returns a Locker that keeps leases by conn. New sends nothing. The caller
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

type settings struct {
	root string
	acl  []zk.ACL
}

// Option changes a setting of a [Locker]. guard.New reports a wrong one as
// ErrInvalidOption.
type Option func(*settings)

// WithPrefix sets the node under which all nodes of the Locker stand. Processes
// exclude each other if they have the same prefix. The Locker makes the node
// and those above it. The default is "/guard".
func WithPrefix(path string) Option { return func(s *settings) { s.root = path } }

// WithACL sets who may do what with the nodes that the Locker makes. All
// processes need all rights but admin. By default everybody has them.
func WithACL(acl ...zk.ACL) Option { return func(s *settings) { s.acl = acl } }

func (s *settings) check() error {
	for name := range strings.SplitSeq(strings.TrimPrefix(s.root, "/"), "/") {
		if name == "" || name == "." || name == ".." || strings.ContainsFunc(name, isControl) || s.root[0] != '/' {
			return lockerkit.Invalid(store, "WithPrefix: want a path of ZooKeeper such as /guard")
		}
	}
	if len(s.acl) == 0 || slices.ContainsFunc(s.acl, func(a zk.ACL) bool { return a.Scheme == "" }) {
		return lockerkit.Invalid(store, "WithACL: nobody has rights")
	}
	return nil
}

func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// Open keeps w, and checks the settings. Open returns an ErrInvalidOption if
// one is wrong, or if the locker was opened before.
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
		l.life.Serve((&janitor{l: l, version: anyVersion}).sweep)
	})
	return nil
}

// Close ends the goroutines of l, and leaves the connection open, unless
// [locker.FromDSN] has made it. Keys that are owned stay until their TTL ends.
// Close blocks until all calls have returned and what Abandon has left to do is
// done, or until ctx ends. If ctx ends first, Close returns its error, and goes
// on in the background for half a minute at most.
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

// Limits returns how late leases end if their process has died.
//
// A process that waits for a key looks at it at least every [locker.LookEvery],
// and measures the TTL of a dead holder from its first look after the last
// renewal. A process that never looked before finds the key until the janitor
// frees it. If no process was there to be the janitor, both times begin with
// the first process that is.
func (*Locker) Limits() locker.Limits {
	return locker.Limits{Late: locker.LookEvery, LateForOthers: 5 * sweepEvery}
}

// Acquire makes c the owner of its key, or puts it into the queue. Acquire
// takes one request if nobody owns the key, two at once to look at a key that
// is held, and another to join a queue. An answer that stays until somebody
// changes something, such as a missing right, is an error of its own.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	if err := l.begin(); err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	defer l.life.Leave()
	try := attempt{l: l, c: c, st: l.book.Page(c), dir: l.dir(c.Key), Try: t}
	var a locker.Answer
	var err error
	if !try.st.Ended() {
		a, err = try.run(ctx)
	}
	switch {
	case try.st.Ended():
		return try.st.AnswerEnded(t)
	case err != nil:
		return locker.Answer{Queued: t.Queued || try.st.MayQueue()}, tryError(err)
	}
	return a, nil
}

// state is what the locker keeps of a claim.
type state = lockerkit.Page[data]

// data is what a Book has of a claim for ZooKeeper.
type data struct {
	watched bool // a watch of the entry was begun; only calls of the claim use it
}

// watchEntry waits in the background until the claim's entry is gone, unless
// that is under way. A hand-over and the end of the session delete the entry.
// The claim's own end deletes it too, and ends the watch.
func (l *Locker) watchEntry(st *state) {
	if st.Data.watched {
		return
	}
	st.Data.watched = true
	ctx, cancel := context.WithCancel(l.life.Context())
	st.OnLeave(cancel)
	entry := st.Entry()
	l.life.Serve(func() {
		defer cancel()
		if l.awaitEnd(ctx, entry) == nil {
			l.lookForGrant(ctx, st)
		}
	})
}

// awaitEnd waits until there is no node at path.
func (l *Locker) awaitEnd(ctx context.Context, path string) error {
	for {
		w, err := l.watchSurely(ctx, path)
		if err != nil || w.stat == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-w.changed:
			if e.Type == zk.EventNodeDeleted {
				return nil
			}
		}
	}
}

// lookForGrant tells the guard if the claim owns its key.
func (l *Locker) lookForGrant(ctx context.Context, st *state) {
	key := st.Claim.Key
	n, err := l.get(ctx, l.dir(key)+ownerNode)
	if err != nil || n.stat == nil {
		return
	}
	if owner, r, ok := parse(n.value); ok && owner == st.Claim.Owner {
		l.granted(key, st, r, n.stat)
	}
}

// granted notes a grant before the guard hears of it, because the guard may
// release the key at once. A grant that nobody knows is given back (law 3).
func (l *Locker) granted(key string, st *state, r record, node *zk.Stat) {
	o := locker.Offer{Length: r.ttl(), Waiting: r.Waiting}
	if r.Fence {
		o.Token = token(node.Mzxid)
	}
	owner := st.Claim.Owner
	if !l.book.Granted(owner, o.Length) {
		return // an Acquire has found it first, or it was given up
	}
	l.sights.Forget(key)
	l.lines.own(key, owner, node.Version, view{
		known: len(r.Queue) == r.Waiting, version: r.Version, zxid: node.Mzxid, queue: r.Queue,
	})
	if l.waker.Granted(key, owner, o) || l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	l.abandon(false, key, owner, "")
}

// Release ends c's hold and hands the key over, in one request if this process
// knows the queue.
func (l *Locker) Release(ctx context.Context, c, next *locker.Claim) (locker.Released, error) {
	if err := l.begin(); err != nil {
		return locker.Released{}, err
	}
	defer l.life.Leave()
	st := l.book.Page(c)
	over := st.Over()
	st.Leave()
	if over { // ZooKeeper may still name c, so the key is freed all the same
		next = nil
	}
	r, err := l.free(ctx, c.Key, c.Owner, next)
	if over && err == nil {
		return locker.Released{}, errNotOwner
	}
	return r, err
}

// free takes the key from owner, if it has it, and gives it to the first in the
// queue. free does the latter too if nobody has the key.
func (l *Locker) free(ctx context.Context, key, owner string, next *locker.Claim) (locker.Released, error) {
	h := handover{l: l, dir: l.dir(key), owner: owner, next: next}
	h.node, h.view = l.lines.disown(key, owner)
	if next != nil {
		h.nextState = l.book.Page(next)
	}
	r, err := h.run(ctx)
	switch {
	case err == nil && h.nobodys, errors.Is(err, errNotOwner):
		return locker.Released{}, errNotOwner
	case err != nil:
		return r, unclear(err)
	}
	return r, nil
}

// Abandon takes c out of key and queue, in the background. Abandon takes two
// requests or three.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	entry := ""
	if st, ok := c.State.(*state); ok {
		entry = st.Leave()
	}
	l.abandon(late, c.Key, c.Owner, entry)
}

// abandon leaves nothing of an owner id behind. Without rights it cannot.
func (l *Locker) abandon(late bool, key, owner, entry string) {
	l.lines.disown(key, owner)
	l.life.Abandon(late, func(ctx context.Context) bool {
		err := l.leave(ctx, key, owner, entry)
		return err == nil || lacksRights(err)
	})
}

// leave takes an owner id out of the queue. If it owns the key, or nobody does,
// the key goes to the first in the queue, and badges that have no owner go.
func (l *Locker) leave(ctx context.Context, key, owner, entry string) error {
	if entry != "" {
		if err := l.delete(ctx, entry); err != nil {
			return err
		}
	}
	if _, err := l.free(ctx, key, owner, nil); !errors.Is(err, locker.ErrLeaseLost) {
		return err
	}
	return nil
}

const (
	renewBatch   = 25 // claims in one request
	renewFlights = 8  // requests of one Renew at a time
)

// Renew gives each claim its full TTL again, 25 in a request.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	if err := l.begin(); err != nil {
		for i := range cs {
			answered(i, err)
		}
		return
	}
	defer l.life.Leave()
	var alive []int
	for i, c := range cs {
		if l.book.Page(c).Over() {
			answered(i, errNotOwner)
			continue
		}
		alive = append(alive, i)
	}
	turns := make(chan struct{}, renewFlights)
	var all sync.WaitGroup
	for batch := range slices.Chunk(alive, renewBatch) {
		turns <- struct{}{} // a request ends with ctx
		all.Go(func() {
			defer func() { <-turns }()
			l.renew(ctx, cs, batch, answered)
		})
	}
	all.Wait()
}

// renew renews some of the claims. A transaction is done as a whole or not at
// all, so it is sent again without each claim that has lost its key.
//
// The owner node is written over the version that this process knows. A hand
// may have deleted it, and another claim may own the key now.
func (l *Locker) renew(ctx context.Context, cs []*locker.Claim, batch []int, answered func(i int, err error)) {
	const opsEach = 2
	for len(batch) > 0 {
		ops := make([]any, 0, opsEach*len(batch))
		for _, i := range batch {
			c, dir := cs[i], l.dir(cs[i].Key)
			value := ownerValue(c.Owner, recordOf(c))
			ops = append(ops, exists(dir+badgePrefix+c.Owner), write(dir+ownerNode, value, l.lines.nodeOf(c)))
		}
		r, err := l.multi(ctx, ops...)
		if err == nil && r.refused != nil {
			at := r.at / opsEach
			if err := l.relearn(ctx, cs[batch[at]], r); err != nil {
				answered(batch[at], err)
				batch = slices.Delete(batch, at, at+1)
			}
			continue
		}
		for at, i := range batch {
			if err != nil {
				answered(i, unclear(err))
				continue
			}
			l.lines.noteNode(cs[i], r.stats[opsEach*at+1].Version)
			if !l.book.Page(cs[i]).Own(cs[i].TTL) { // its key is being given back
				answered(i, errNotOwner)
				continue
			}
			answered(i, nil)
		}
		return
	}
}

// relearn is called when the badge or the version of the owner node of c was
// refused. relearn returns nil if the node still names c, and the transaction
// is to be repeated. An earlier request that had no answer may have changed the
// version.
func (l *Locker) relearn(ctx context.Context, c *locker.Claim, r result) error {
	if !errors.Is(r.refused, zk.ErrBadVersion) {
		return errNotOwner
	}
	n, err := l.get(ctx, l.dir(c.Key)+ownerNode)
	if err != nil {
		return unclear(err)
	}
	if owner, _, _ := parse(n.value); owner != c.Owner || !l.lines.noteNode(c, n.stat.Version) {
		return errNotOwner
	}
	return nil
}

// Fence reserves a block of tokens, in one request unless the version of the
// owner node is not known.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	defer l.life.Leave()
	if l.book.Page(c).Over() {
		return 0, errNotOwner
	}
	dir := l.dir(c.Key)
	for range maxTries {
		r, err := l.multi(ctx, exists(dir+badgePrefix+c.Owner), unchanged(dir+ownerNode, l.lines.nodeOf(c)),
			write(l.fenceNode(), nil, anyVersion))
		if err != nil {
			return 0, unclear(err)
		}
		if r.refused == nil {
			return token(r.stats[2].Mzxid), nil
		}
		if err := l.relearn(ctx, c, r); err != nil {
			return 0, err
		}
	}
	return 0, unclear(errChanging)
}
