package zookeeperlocker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// view is a queue at a version of its directory. A view may be wrong, and the
// transaction of a Release finds that out.
type view struct {
	known   bool
	version int32 // of the directory, which grows when a claim joins
	zxid    int64 // of a transaction that is not older than any entry
	held    bool  // there is an owner node
	badges  []string
	queue   []queued
}

// ofAlone reports whether a look at the children says that owner owns the key.
// A hand may have left others' badges, or have taken the badge or the node
// away. In both cases only the owner node tells.
func (v *view) ofAlone(owner string) bool {
	return v.held && len(v.badges) == 1 && v.badges[0] == owner
}

// line is what the owner of a key knows of its queue.
type line struct {
	owner string
	node  int32 // version of the owner node, as this process last wrote or read it
	view
	watch *time.Timer // begins the watch of the queue
}

// lines are what is known of the queues of the keys that claims of this process
// own, by Claim.Key.
type lines struct {
	l *Locker

	mu    sync.Mutex // guards owned; never held across I/O or a callback
	owned map[string]*line
}

// watchAfter is how long a key is owned before its queue is watched. Short
// sections do without.
const watchAfter = 3 * time.Millisecond

// own begins the line of a key that owner has got, with an owner node of the
// given version.
func (ls *lines) own(key, owner string, node int32, v view) {
	v.held, v.badges = true, []string{owner}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if old := ls.owned[key]; old != nil {
		old.watch.Stop()
	}
	ln := &line{owner: owner, node: node, view: v}
	ls.owned[key] = ln
	ln.watch = time.AfterFunc(watchAfter, func() {
		ls.l.life.Serve(func() { ls.watchQueue(key, ln) })
	})
}

// disown returns what is known of the owner node and the queue of a key, and
// forgets it, because owner gives the key up.
func (ls *lines) disown(key, owner string) (node int32, v view) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.owned[key]
	if ln == nil || ln.owner != owner {
		return noVersion, view{}
	}
	ln.watch.Stop()
	delete(ls.owned, key)
	return ln.node, ln.view
}

// nodeOf returns the version of the owner node of a claim, or noVersion if this
// process does not own the key by it.
func (ls *lines) nodeOf(c *locker.Claim) int32 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln := ls.owned[c.Key]; ln != nil && ln.owner == c.Owner {
		return ln.node
	}
	return noVersion
}

// noteNode notes the version of the owner node of a claim. noteNode reports
// whether this process owns the key by it.
func (ls *lines) noteNode(c *locker.Claim, version int32) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.owned[c.Key]
	if ln == nil || ln.owner != c.Owner {
		return false
	}
	ln.node = version
	return true
}

// watchQueue tells the guard of claims that begin to wait for a key of this
// process, and that the key was taken away. watchQueue ends when the key is
// given up or the locker is closed. The next change of the directory ends its
// watch in the server.
func (ls *lines) watchQueue(key string, ln *line) {
	for {
		w, err := ls.l.watchSurely(ls.l.life.Context(), ls.l.dir(key))
		if err != nil || w.stat == nil {
			return
		}
		current, err := ls.refresh(key, ln, w.stat.Version)
		for err != nil && lockerkit.Pause(watchPause, ls.l.life.Context().Done()) {
			current, err = ls.refresh(key, ln, w.stat.Version)
		}
		if !current {
			return
		}
		select {
		case <-w.changed:
		case <-ls.l.life.Context().Done():
			return
		}
	}
}

// refresh reads the queue if the directory has another version. refresh reports
// whether ln is still in use.
func (ls *lines) refresh(key string, ln *line, version int32) (current bool, err error) {
	ls.mu.Lock()
	current = ls.owned[key] == ln
	same := ln.known && ln.version == version
	ls.mu.Unlock()
	if !current || same {
		return current, nil
	}
	ctx, cancel := context.WithTimeout(ls.l.life.Context(), time.Second)
	defer cancel()
	v, err := ls.l.readQueue(ctx, ls.l.dir(key))
	owner := ln.owner
	if err == nil && !v.ofAlone(owner) {
		var n node
		n, err = ls.l.get(ctx, ls.l.dir(key)+ownerNode)
		owner, _, _ = parse(n.value)
	}
	if err != nil {
		return true, err
	}
	ls.mu.Lock()
	current = ls.owned[key] == ln
	if current {
		ln.view = v
	}
	ls.mu.Unlock()
	switch {
	case !current:
		return false, nil
	case owner != ln.owner:
		if r, ok := ls.l.waker.(locker.Revoker); ok {
			r.Revoked(key, ln.owner)
		}
	case len(v.queue) > 0:
		ls.l.waker.Wanted(key)
	}
	return true, nil
}

// queueIn returns the entries among the children of a directory, in their
// order.
func queueIn(names []string) (queue []queued) {
	for _, name := range names {
		if strings.HasPrefix(name, queuePrefix) {
			queue = append(queue, queued{Name: name})
		}
	}
	slices.SortFunc(queue, func(a, b queued) int { return strings.Compare(a.Name, b.Name) })
	return queue
}

// badgesIn returns the owner ids of the badges among the children of a
// directory. There is one if the key is owned, and none if it is not, unless a
// hand changed that.
func badgesIn(names []string) (owners []string) {
	for _, name := range names {
		if owner, ok := strings.CutPrefix(name, badgePrefix[1:]); ok {
			owners = append(owners, owner)
		}
	}
	return owners
}
