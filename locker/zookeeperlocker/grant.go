package zookeeperlocker

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker"
)

// watchEntry waits in the background until the claim's entry is gone, unless
// that is under way. A hand-over deletes the entry. So do the end of the
// session and the claim's own end, which ends the watch.
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
