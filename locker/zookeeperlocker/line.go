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
	held    bool  // there is an owner node
	marks   []string
	queue   []queued
}

// ofAlone reports whether a look at the children says that owner owns the key.
// A hand may have left others' marks, or have taken the mark or the node away.
// Then only the owner node tells.
func (v *view) ofAlone(owner string) bool { return v.held && len(v.marks) == 1 && v.marks[0] == owner }

// line is what the owner of a key knows of its queue.
type line struct {
	owner string
	node  int32 // version of the owner node, as this process last wrote or read it
	view
	watch *time.Timer // begins the watch of the queue
}

// watchAfter is how long a key is owned before its queue is watched. Short
// sections do without.
const watchAfter = 3 * time.Millisecond

// own begins the line of a key that owner has got, with an owner node of the
// given version.
func (l *Locker) own(key, owner string, node int32, v view) {
	v.held, v.marks = true, []string{owner}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.owned[key]; old != nil {
		old.watch.Stop()
	}
	ln := &line{owner: owner, node: node, view: v}
	l.owned[key] = ln
	ln.watch = time.AfterFunc(watchAfter, func() {
		l.life.Serve(func() { l.watchQueue(key, ln) })
	})
}

// disown returns what is known of the owner node and the queue of a key, and
// forgets it, because owner gives the key up.
func (l *Locker) disown(key, owner string) (node int32, v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.owned[key]
	if ln == nil || ln.owner != owner {
		return noVersion, view{}
	}
	ln.watch.Stop()
	delete(l.owned, key)
	return ln.node, ln.view
}

// nodeOf returns the version of the owner node of a claim, or noVersion if this
// process does not own the key by it.
func (l *Locker) nodeOf(c *locker.Claim) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.owned[c.Key]; ln != nil && ln.owner == c.Owner {
		return ln.node
	}
	return noVersion
}

// noteNode notes the version of the owner node of a claim. It reports whether
// this process owns the key by it.
func (l *Locker) noteNode(c *locker.Claim, version int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.owned[c.Key]
	if ln == nil || ln.owner != c.Owner {
		return false
	}
	ln.node = version
	return true
}

// watchQueue tells the guard of claims that begin to wait for a key of this
// process, and that the key was taken away. It ends when the key is given up or
// l.life.Context() ends. The next change of the directory ends its watch in the server.
func (l *Locker) watchQueue(key string, ln *line) {
	for {
		w, err := l.watchSurely(l.life.Context(), l.dir(key))
		if err != nil || w.stat == nil || !l.refresh(key, ln, w.stat.Version) {
			return
		}
		select {
		case <-w.changed:
		case <-l.life.Context().Done():
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
	ctx, cancel := context.WithTimeout(l.life.Context(), time.Second)
	defer cancel()
	v, err := l.readQueue(ctx, l.dir(key))
	owner := ln.owner
	if err == nil && !v.ofAlone(owner) {
		var n node
		n, err = l.get(ctx, l.dir(key)+ownerNode)
		owner, _, _ = parse(n.value)
	}
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

// readQueue finds the queue, with the values of its first, and the marks.
func (l *Locker) readQueue(ctx context.Context, dir string) (v view, err error) {
	for range maxTries {
		c, err := l.children(ctx, dir)
		if err != nil {
			return v, err
		}
		if c.stat == nil {
			return view{known: true}, nil
		}
		v = view{
			known: true, version: c.stat.Version, zxid: c.stat.Pzxid,
			held: slices.Contains(c.names, ownerNode[1:]), marks: marksIn(c.names), queue: queueIn(c.names),
		}
		if len(v.queue) == 0 {
			return v, nil
		}
		if err := l.fill(ctx, dir, v.queue); err != nil {
			return v, err
		}
		if v.queue[0].Value != nil {
			return v, nil
		}
	}
	return v, errChanging
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

// marksIn returns the owner ids of the marks among the children of a directory.
// There is one if the key is owned, and none if it is not, unless a hand
// changed that.
func marksIn(names []string) (owners []string) {
	for _, name := range names {
		if owner, ok := strings.CutPrefix(name, markPrefix[1:]); ok {
			owners = append(owners, owner)
		}
	}
	return owners
}
