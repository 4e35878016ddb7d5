package zookeeperlocker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// view is a queue at a version of its directory. It may be wrong, and the
// transaction of a Release finds that out.
type view struct {
	known   bool
	version int32 // of the directory, which grows when a claim joins
	zxid    int64 // of a transaction that is not older than any entry
	queue   []queued
}

// line is what the owner of a key knows of its queue.
type line struct {
	owner string
	view
	watch *time.Timer // begins the watch of the queue
}

// watchAfter is how long a key is owned before its queue is watched. Short
// sections do without.
const watchAfter = 3 * time.Millisecond

// own begins the line of a key that owner has got.
func (l *Locker) own(key, owner string, v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.owned[key]; old != nil {
		old.watch.Stop()
	}
	ln := &line{owner: owner, view: v}
	l.owned[key] = ln
	ln.watch = time.AfterFunc(watchAfter, func() {
		l.inBackground(func() { l.watchQueue(key, ln) })
	})
}

// disown returns what is known of the queue of a key, and forgets it, because
// owner gives the key up.
func (l *Locker) disown(key, owner string) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.owned[key]
	if ln == nil || ln.owner != owner {
		return view{}
	}
	ln.watch.Stop()
	delete(l.owned, key)
	return ln.view
}

// watchQueue tells the guard of claims that begin to wait for a key of this
// process, and that the key was taken away. It ends when the key is given up or
// l.ctx ends. The next change of the directory ends its watch in the server.
func (l *Locker) watchQueue(key string, ln *line) {
	for {
		w, err := l.watchSurely(l.ctx, l.dir(key))
		if err != nil || w.stat == nil || !l.refresh(key, ln, w.stat.Version) {
			return
		}
		select {
		case <-w.changed:
		case <-l.ctx.Done():
			return
		}
	}
}

// refresh reads the queue if the directory has another version. It reports
// whether ln is still in use.
func (l *Locker) refresh(key string, ln *line, version int32) bool {
	l.mu.Lock()
	current, same := l.owned[key] == ln, ln.known && ln.version == version
	l.mu.Unlock()
	if !current || same {
		return current
	}
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	v, owner, err := l.readQueue(ctx, l.dir(key))
	if err != nil {
		return true
	}
	l.mu.Lock()
	current = l.owned[key] == ln
	if current {
		ln.view = v
	}
	l.mu.Unlock()
	switch {
	case !current:
		return false
	case owner != ln.owner:
		if r, ok := l.waker.(locker.Revoker); ok {
			r.Revoked(key, ln.owner)
		}
	case len(v.queue) > 0:
		l.waker.Wanted(key)
	}
	return true
}

// readQueue finds the queue, with the values of its first, and the owner id of
// the key, or "".
func (l *Locker) readQueue(ctx context.Context, dir string) (v view, owner string, err error) {
	for range maxTries {
		c, err := l.children(ctx, dir)
		if err != nil {
			return v, "", err
		}
		if c.stat == nil {
			return view{known: true}, "", nil
		}
		v = view{known: true, version: c.stat.Version, zxid: c.stat.Pzxid, queue: queueIn(c.names)}
		owner = ownerIn(c.names)
		if len(v.queue) == 0 {
			return v, owner, nil
		}
		if err := l.fill(ctx, dir, v.queue); err != nil {
			return v, "", err
		}
		if v.queue[0].Value != nil {
			return v, owner, nil
		}
	}
	return v, "", errChanging
}

// fill gets the values of the first entries. An entry that is gone has none.
func (l *Locker) fill(ctx context.Context, dir string, queue []queued) error {
	var names []string
	for _, q := range queue[:min(len(queue), shownMax)] {
		names = append(names, q.Name)
	}
	for i, n := range l.getAll(ctx, dir, names, "") {
		queue[i].Value = n.value
	}
	return ctx.Err()
}

// queueIn returns the entries among the children of a directory, in their
// order.
func queueIn(names []string) (queue []queued) {
	for _, name := range names {
		if strings.HasPrefix(name, queueMark) {
			queue = append(queue, queued{Name: name})
		}
	}
	slices.SortFunc(queue, func(a, b queued) int { return strings.Compare(a.Name, b.Name) })
	return queue
}

// ownerIn returns the owner id that the children of a directory tell, or "".
func ownerIn(names []string) string {
	const mark = len(markPrefix) - 1
	for _, name := range names {
		if strings.HasPrefix(name, markPrefix[1:]) && len(name) == mark+locker.OwnerLen {
			return name[mark:]
		}
	}
	return ""
}
