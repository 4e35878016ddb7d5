package zookeeperlocker

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker"
)

// maxTries bounds the transactions of a call whose key changes each time.
const maxTries = 32

// attempt is one Acquire.
type attempt struct {
	l   *Locker
	c   *locker.Claim
	st  *state
	dir string
	locker.Try
}

// found is what a look at a key has found.
type found struct {
	owner  node
	dir    *zk.Stat // nil: there is none, or the claim is in the queue
	queued bool     // our entry is in the queue
}

// nextVersion is the version of the owner node when the key has been taken.
func (f *found) nextVersion() int32 {
	if f == nil || f.owner.stat == nil {
		return 0
	}
	return f.owner.stat.Version + 1
}

func (t *attempt) run(ctx context.Context) (a locker.Answer, err error) {
	var f *found // nil: nothing is known yet
	entry := t.st.Look()
	if t.Held || entry != "" {
		if f, err = t.look(ctx); err != nil {
			return a, err
		}
	}
	for range maxTries {
		a, take := t.judge(f)
		done := true
		switch {
		case take != nil:
			a, done, err = t.take(ctx, take, f)
		case f.queued:
			t.stay(&a)
		case !t.Wait || t.Queued:
			t.st.Leave()
		default:
			done, err = t.join(ctx, f, &a)
		}
		if done || err != nil {
			return a, err
		}
		if f, err = t.look(ctx); err != nil {
			return a, err
		}
	}
	return a, errChanging
}

// look asks for the owner and our place at once. A claim that was granted its
// key in between is in neither, so the owner is then asked for again.
func (t *attempt) look(ctx context.Context) (*found, error) {
	entry := t.st.Look()
	second := t.dir
	if entry != "" {
		second = entry
	}
	var f found
	var stat *zk.Stat
	asked := make(chan error, 1)
	go func() { // ends with ctx
		var err error
		stat, err = t.l.stat(ctx, second)
		asked <- err
	}()
	var err error
	f.owner, err = t.l.get(ctx, t.dir+ownerNode)
	if other := <-asked; err == nil {
		err = other
	}
	if err != nil {
		return nil, err
	}
	if entry == "" {
		f.dir = stat
		return &f, nil
	}
	f.queued = stat != nil && t.st.MayQueue()
	if stat == nil {
		f.owner, err = t.l.get(ctx, t.dir+ownerNode)
	}
	return &f, err
}

// judge returns the operations by which the key can be taken, or the Answer of
// a key that another claim owns.
func (t *attempt) judge(f *found) (a locker.Answer, take []any) {
	mine, badge := ownerValue(t.c.Owner, recordOf(t.c)), t.dir+badgePrefix+t.c.Owner
	if f == nil || f.owner.stat == nil {
		return a, []any{t.l.create(t.dir+ownerNode, mine, 0), t.l.create(badge, nil, 0)}
	}
	owner, r, ok := parse(f.owner.value)
	if ok && owner == t.c.Owner {
		return a, []any{exists(badge), write(t.dir+ownerNode, mine, f.owner.stat.Version)}
	}
	now := time.Now()
	s := t.l.sights.First(t.c.Key, r.sight(f.owner.stat, ok, now), now)
	if s.Over(now) {
		return a, []any{write(t.dir+ownerNode, mine, f.owner.stat.Version), t.l.create(badge, nil, 0)}
	}
	a.Holder, a.Remaining = r.Holder, s.Left(now)
	return a, nil
}

// take takes the key. done is false if something had changed.
func (t *attempt) take(ctx context.Context, ops []any, f *found) (a locker.Answer, done bool, err error) {
	if f != nil && f.queued {
		ops = append(ops, remove(t.st.Entry()))
	}
	ops = append(ops, write(t.dir, nil, anyVersion)) // the last, so that it tells of the children that are left
	r, err := t.l.multi(ctx, ops...)
	switch {
	case err != nil:
		return a, false, err
	case r.refused == nil:
		return t.won(ctx, r.stats[len(ops)-1], f.nextVersion())
	case r.at == 0 && errors.Is(r.refused, zk.ErrNoNode): // the directory, or what a hand has deleted
		err = t.l.ensure(ctx, t.dir)
	}
	return a, false, err
}

// ownerNodes is the number of children that a directory has for its owner.
const ownerNodes = 2

// won notes that the claim owns its key. dir is the state of the directory
// right after, and version that of the owner node. done is false if the node
// was changed before the claim was its only owner. won gives back the key of a
// claim that has ended.
func (t *attempt) won(ctx context.Context, dir *zk.Stat, version int32) (a locker.Answer, done bool, err error) {
	if dir.NumChildren != ownerNodes {
		done, err = t.removeBadges(ctx, version)
		switch {
		case errors.Is(err, locker.ErrUnsent): // but the claim owns its key
			return a, false, errBadges
		case !done:
			return a, false, err
		}
	}
	if !t.st.Own(t.c.TTL) {
		t.l.abandon(true, t.c.Key, t.c.Owner, "")
		return a, true, nil
	}
	t.l.sights.Forget(t.c.Key)
	t.l.lines.own(t.c.Key, t.c.Owner, version,
		view{known: dir.NumChildren == ownerNodes, version: dir.Version, zxid: dir.Mzxid})
	a.Acquired = true
	if t.c.Fencing {
		a.Token = token(dir.Mzxid)
	}
	return a, true, nil
}

// removeBadges removes the badges of other claims: of one whose lease has
// ended, and of one whose owner node somebody deleted by hand. The latter may
// still run, and while its badge stands it could take a new node with the
// version of its own for its own. done is false if the owner node was changed
// meanwhile.
func (t *attempt) removeBadges(ctx context.Context, version int32) (done bool, err error) {
	c, err := t.l.children(ctx, t.dir)
	if err != nil {
		return false, err
	}
	ops := []any{unchanged(t.dir+ownerNode, version)}
	for _, owner := range badgesIn(c.names) {
		if owner != t.c.Owner {
			ops = append(ops, remove(t.dir+badgePrefix+owner))
		}
	}
	if len(ops) == 1 {
		return true, nil
	}
	r, err := t.l.multi(ctx, ops...)
	return err == nil && r.refused == nil, err
}

// stay answers for a claim that is in the queue.
func (t *attempt) stay(a *locker.Answer) {
	t.l.watchEntry(t.st)
	a.Queued, a.Place = true, placeOf(t.st.Entry())
}

// join puts the claim into the queue. done is false if nobody owns the key any
// more. The owner's process watches the directory.
func (t *attempt) join(ctx context.Context, f *found, a *locker.Answer) (done bool, err error) {
	if f.dir == nil {
		return false, nil // stale
	}
	place := t.Place
	if place <= 0 {
		place = locker.Place(f.dir.Pzxid)
	}
	entry := t.dir + "/" + entryName(place, f.dir.Pzxid, t.c.Owner)
	t.st.Queue(entry)
	r, err := t.l.multi(ctx, exists(t.dir+ownerNode), write(t.dir, nil, anyVersion),
		t.l.create(entry, entryOf(t.c), zk.FlagEphemeral))
	switch {
	case err != nil && !errors.Is(err, locker.ErrUnsent):
		return false, err
	case err == nil && r.refused == nil:
		t.stay(a)
		return true, nil
	}
	t.st.Unqueue()
	return false, err
}
