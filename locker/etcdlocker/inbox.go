package etcdlocker

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// rewatchPause is the pause before a watch that broke is made again.
const rewatchPause = 50 * time.Millisecond

// hear watches the inbox until the locker is closed. A watch that broke goes on
// where it was. If etcd has compacted that, messages are missing, and a new
// watch begins now.
//
// A watch from the present or an older revision is served only every 100 ms
// until it has caught up (etcd's watchResyncPeriod). So it begins once, and
// stays.
func (l *Locker) hear() {
	last := int64(0) // the revision of the last message; 0 begins now
	for l.life.Context().Err() == nil {
		last = l.hearFrom(last)
		lockerkit.Pause(rewatchPause, l.life.Context().Done())
	}
}

// hearFrom watches until the watch breaks. It returns the revision from which
// to go on.
func (l *Locker) hearFrom(last int64) int64 {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(l.life.Context()))
	defer stop()
	l.mu.Lock()
	l.rewatch = stop
	l.mu.Unlock()
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()}
	if last > 0 {
		opts = append(opts, clientv3.WithRev(last+1))
	}
	w := clientv3.NewWatcher(l.client())
	defer func() { _ = w.Close() }()
	for r := range w.Watch(ctx, l.inboxOf(l.instance), opts...) {
		switch {
		case r.CompactRevision > 0:
			return 0
		case r.Err() != nil:
			return last
		case r.Created:
			last = max(last, r.Header.Revision)
			l.waker.WakeAll()
		}
		for _, e := range r.Events {
			last = max(last, e.Kv.ModRevision)
			l.heard(e.Kv.ModRevision)
			var m message
			if json.Unmarshal(e.Kv.Value, &m) == nil {
				l.told(m, e.Kv.ModRevision)
				for _, m := range m.And {
					l.told(m, e.Kv.ModRevision)
				}
			}
		}
	}
	return last
}

// told passes a message on to the guard.
func (l *Locker) told(m message, revision int64) {
	key := string(m.Key)
	switch m.Kind {
	case wanted:
		l.lineUp(key, m.Queue)
		l.waker.Wanted(key)
	case granted:
		l.toldGranted(key, m, revision)
	case revoked:
		if w, ok := l.waker.(locker.Revoker); ok {
			w.Revoked(key, m.Owner)
		}
	case recordKept:
		l.toldKept(m)
	case nothing:
	}
}

// lineUp puts new entries into their places in the line of an owned key.
func (l *Locker) lineUp(key string, entries []queued) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.owned[key]
	if ln == nil {
		return
	}
	for _, e := range entries {
		i, known := slices.BinarySearchFunc(ln.queue, e, func(a, b queued) int {
			return strings.Compare(string(a.Key), string(b.Key))
		})
		if !known {
			ln.queue = slices.Insert(ln.queue, i, e)
		}
	}
}

// toldGranted notes a grant before the guard hears of it, because the guard may
// release the key at once. A grant that nobody knows is given back (law 3).
func (l *Locker) toldGranted(key string, m message, revision int64) {
	o := locker.Offer{Length: time.Duration(m.Offer) * time.Millisecond, Waiting: m.Waiting}
	if m.Fence {
		o.Token = token(revision, m.Nth)
	}
	l.noteGrant(key, m, o.Length)
	if l.waker.Granted(key, m.Owner, o) || l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	l.abandon(false, key, m.Owner, "", nil)
}

// noteGrant begins an offer of length d. If an Acquire has found the grant
// first, the claim has its full TTL, which the late message must not shorten.
func (l *Locker) noteGrant(key string, m message, d time.Duration) {
	if m.Limit <= 1 {
		l.mu.Lock()
		l.owned[key] = &line{owner: m.Owner, queue: m.Queue}
		l.mu.Unlock()
		l.sights.Forget(key)
	}
	l.book.Granted(m.Owner, d)
}
