// Package memlocker keeps leases in the memory of one process. It is for tests,
// for development, and for a service that will only ever run as one process.
//
// It excludes nobody in another process. If two instances of a service each use
// it, both run at once. A restart forgets every lease. For such a service, use
// package redislocker.
//
// Apart from that it keeps the same promises as a locker on Redis, from expiry
// to fencing tokens. It passes the same suite, package lockertest.
//
//	g, err := guard.New(memlocker.New())
//
// Time is [time.Now], so leases follow the virtual clock of a testing/synctest
// bubble. There are no goroutines and no timers. The next call forgets what has
// expired.
package memlocker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// Locker is a [locker.Locker] in memory. It serves one guard, and [Locker.Peer]
// makes another on the same leases. None of its methods blocks. It is safe for
// concurrent use.
type Locker struct {
	store *store
	id    string

	// Guarded by store.mu.
	state state
	mute  int          // how many Deafens are not mended
	deaf  int          // those of them that l knows of
	waker locker.Waker // set by Open, and never changed afterwards
}

var _ locker.Locker = (*Locker)(nil)

type state int

const (
	fresh state = iota
	open
	closed
)

// New returns a Locker on a store of its own.
func New() *Locker { return on(&store{keys: make(map[string]*entry)}) }

// Peer returns another Locker on the store of l. It stands for a second process
// on the same Redis. It has an instance id of its own, and is opened and closed
// by itself.
func (l *Locker) Peer() *Locker { return on(l.store) }

func on(s *store) *Locker { return &Locker{store: s, id: lockerkit.NewID()} }

// Open keeps w, to tell it what peers do. A second Open is an ErrInvalidOption.
func (l *Locker) Open(w locker.Waker) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.state != fresh {
		return lockerkit.Invalid("memlocker", "the locker was opened before: each guard.New needs one of its own")
	}
	l.state, l.waker = open, w
	return nil
}

// Acquire makes c an owner of its key if the limits of c and of all owners
// allow it. Otherwise it returns the owner and, if t.Wait, queues c.
func (l *Locker) Acquire(ctx context.Context, c *locker.Claim, t locker.Try) (locker.Answer, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return locker.Answer{Queued: t.Queued}, err
	}
	l.sign(c)
	if record := l.store.recall(c, now); record != "" {
		return locker.Answer{Record: record}, nil
	}
	e := l.store.at(c.Key)
	if e.held(now) { // a share may have ended, and left room for those who wait
		l.store.serve(c.Key, e, now)
	}
	owned := e.share(c.Owner, now) != nil
	if owned || e.room(c) && (len(e.owners) == 0 || !e.behind(c, t.Place, now)) { // law 7: a free key is anybody's
		e.remove(c.Owner, now)
		return locker.Answer{Acquired: true, Token: l.store.grant(e, l, c, now.Add(c.First()), now)}, nil
	}
	a := e.answer(now)
	l.queue(e, c, t, now, &a)
	return a, nil
}

// Renew gives each claim its full TTL again, or answers ErrLeaseLost.
func (l *Locker) Renew(ctx context.Context, cs []*locker.Claim, answered func(i int, err error)) {
	for i, err := range l.renew(ctx, cs) {
		answered(i, err)
	}
}

func (l *Locker) renew(ctx context.Context, cs []*locker.Claim) []error {
	errs := make([]error, len(cs))
	now, err := l.enter(ctx)
	defer l.store.leave()
	for i, c := range cs {
		switch own := l.store.owned(c, now); {
		case err != nil:
			errs[i] = err
		case own == nil:
			errs[i] = locker.ErrLeaseLost
		default:
			own.expires = now.Add(c.TTL)
		}
	}
	return errs
}

// Fence reserves a block of fencing tokens for c, if it owns its key, and
// returns the first.
func (l *Locker) Fence(ctx context.Context, c *locker.Claim) (token uint64, err error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return 0, err
	}
	if l.store.owned(c, now) == nil {
		return 0, locker.ErrLeaseLost
	}
	return l.store.fence(now), nil
}

// Release gives the key of c to the claim that has waited longest, if c owns
// it, and to those behind it that may own it too. It queues e.Next behind the
// others.
func (l *Locker) Release(ctx context.Context, c *locker.Claim, e locker.End) (locker.Released, error) {
	now, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return locker.Released{}, err
	}
	return l.end(c, e, now)
}

// Capabilities return all there are.
func (*Locker) Capabilities() locker.Capabilities {
	return locker.Capabilities{
		Shares: true, Several: true, Records: true, Inspects: true, Lingers: true, Findings: findings,
	}
}

// Node names the one node.
func (*Locker) Node(string) string { return "" }

// Listens reports true while l is open, unless it knows of a [Locker.Deafen].
func (l *Locker) Listens() bool {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return l.state == open && l.deaf == 0
}

// FindingProcess names the finding that [Locker.Check] always has, see
// [guard.WithAcceptedFindings].
const FindingProcess = "process" // other processes are not excluded

// findings has the names of redislocker and redlock too, because a Locker
// stands in for those in tests, with the same options.
var findings = []string{
	FindingProcess, "client", "eviction", "restart-delay", "list", "messages", "node", "replicas",
	"rights", "round-trip", "scripts", "twin", "writers",
}

// Check warns that the leases of l are of one process only, while l is open.
func (l *Locker) Check(ctx context.Context, _ time.Duration) error {
	_, err := l.enter(ctx)
	defer l.store.leave()
	if err != nil {
		return err
	}
	return &locker.Finding{Name: FindingProcess, Severity: locker.Warn, Text: "memlocker: one process only: " +
		"a second instance of the service is not excluded, use redislocker where there may be one"}
}

// Close ends the use of l, but not of its peers. Claims that wait on l leave
// the queues. Keys that l holds end at their TTL. Close is idempotent.
func (l *Locker) Close(context.Context) error {
	l.store.mu.Lock()
	defer l.store.leave()
	l.state = closed
	now, reached := time.Now(), l.store.broken == 0
	for key, e := range l.store.keys {
		e.removeAll(l)
		if reached && e.held(now) { // those behind the claims of l may own it too
			l.store.serve(key, e, now)
		}
	}
	return nil
}

// sign puts the id of l into c, once. Afterwards others may be reading it.
func (l *Locker) sign(c *locker.Claim) {
	if c.Holder.Instance == "" {
		c.Holder.Instance = l.id
	}
}

// enter locks the store, even if it returns an error. It returns the store's
// time.
func (l *Locker) enter(ctx context.Context) (now time.Time, err error) {
	l.store.mu.Lock()
	now = time.Now()
	switch {
	case l.state != open:
		return now, fmt.Errorf("memlocker: %w", locker.ErrClosed)
	case ctx.Err() != nil:
		return now, fmt.Errorf("memlocker: %w: %w", locker.ErrUnavailable, ctx.Err())
	case l.store.broken > 0:
		return now, fmt.Errorf("memlocker: %w: %w: broken for a test", locker.ErrUnavailable, locker.ErrSilent)
	}
	l.store.tidy(now)
	return now, nil
}
