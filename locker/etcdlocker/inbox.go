package etcdlocker

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// rewatchPause is the pause before a watch that broke is made again.
const rewatchPause = 50 * time.Millisecond

// inbox is where other processes leave messages for this one.
type inbox struct {
	l     *Locker
	begin sync.Once // the first Acquire begins the watch

	mu   sync.Mutex         // guards stop; never held across I/O or a callback
	stop context.CancelFunc // ends the present watch, to begin it anew; nil before the first
}

// open begins the watch, unless it has begun.
func (in *inbox) open() { in.begin.Do(func() { in.l.life.Serve(in.hear) }) }

// watchAgain begins the watch anew, by the member that is now in use.
func (in *inbox) watchAgain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stop != nil {
		in.stop()
	}
}

// hear watches the inbox until the locker is closed. A watch that broke goes on
// where it was. If etcd has compacted that, messages are missing, and a new
// watch begins now.
//
// A watch from the present or an older revision is served only every 100 ms
// until it has caught up (etcd's watchResyncPeriod). A watch therefore begins
// once, and stays.
func (in *inbox) hear() {
	last := int64(0) // the revision of the last message; 0 begins now
	for in.l.life.Context().Err() == nil {
		last = in.hearFrom(last)
		lockerkit.Pause(rewatchPause, in.l.life.Context().Done())
	}
}

// hearFrom watches until the watch breaks. hearFrom returns the revision from
// which to go on.
//
// A watcher of its own could hang in its Close for good, if etcd refuses the
// watch at that moment. That of the client ends the watch with ctx.
func (in *inbox) hearFrom(last int64) int64 {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(in.l.life.Context()))
	defer stop()
	in.mu.Lock()
	in.stop = stop
	in.mu.Unlock()
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()}
	if last > 0 {
		opts = append(opts, clientv3.WithRev(last+1))
	}
	for r := range in.l.client().Watch(ctx, in.l.inboxOf(in.l.instance), opts...) {
		switch {
		case r.CompactRevision > 0:
			return 0
		case r.Err() != nil:
			return last
		case r.Created:
			last = max(last, r.Header.Revision)
			in.l.waker.WakeAll()
		}
		for _, e := range r.Events {
			last = max(last, e.Kv.ModRevision)
			in.l.heard(e.Kv.ModRevision)
			var m message
			if json.Unmarshal(e.Kv.Value, &m) == nil {
				in.told(m, e.Kv.ModRevision)
				for _, m := range m.And {
					in.told(m, e.Kv.ModRevision)
				}
			}
		}
	}
	return last
}

// told passes a message on to the guard.
func (in *inbox) told(m message, revision int64) {
	key := string(m.Key)
	switch m.Kind {
	case wanted:
		in.l.lines.join(key, m.Queue)
		in.l.waker.Wanted(key)
	case granted:
		in.toldGranted(key, m, revision)
	case revoked:
		if w, ok := in.l.waker.(locker.Revoker); ok {
			w.Revoked(key, m.Owner)
		}
	case hasRecord:
		in.toldRecorded(m)
	case nothing:
	}
}

// toldGranted notes a grant before the guard hears of it, because the guard may
// release the key at once. A grant that nobody knows is given back (law 3).
func (in *inbox) toldGranted(key string, m message, revision int64) {
	o := locker.Offer{Length: time.Duration(m.Offer) * time.Millisecond, Waiting: m.Waiting}
	if m.Fence {
		o.Token = token(revision, m.Nth)
	}
	news := in.l.book.Granted(m.Owner, o.Length)
	if m.Limit <= 1 {
		in.l.lines.granted(key, m.Owner, m.Queue, news)
		in.l.sights.Forget(key)
	}
	if in.l.waker.Granted(key, m.Owner, o) || in.l.life.Enter() != nil {
		return
	}
	defer in.l.life.Leave()
	in.l.abandon(false, key, m.Owner, "", nil)
}

// toldRecorded notes that a claim of this process has left the queue for a
// record.
func (in *inbox) toldRecorded(m message) {
	in.l.book.Left(m.Owner)
	if w, ok := in.l.waker.(locker.Joiner); ok {
		w.Recorded(string(m.Key), m.Owner, string(m.Value))
	}
}
