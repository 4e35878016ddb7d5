package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

const (
	lateAfter  = time.Second      // when an Abandon with late is done again
	insistMax  = 30 * time.Second // for which a request without an answer is repeated
	firstLimit = 250 * time.Millisecond
	lastLimit  = 2 * time.Second // short limits find a new leader soon
)

// Abandon takes c out of key and queue, in the background. It takes one request
// or two.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.gate.Enter() != nil {
		return
	}
	defer l.gate.Leave()
	entry, end := "", func(context.Context) error { return nil }
	if st, ok := c.State.(*state); ok {
		entry = l.leaves(st)
		end = func(ctx context.Context) error { return l.endRecorded(ctx, st) }
	}
	l.disown(c.Key, c.Owner)
	key, owner := c.Key, c.Owner
	l.gate.Go(func() {
		until := time.Now().Add(insistMax)
		l.insist(until, end)
		l.clear(key, owner, entry, until)
		if late {
			l.pause(lateAfter)
			l.clear(key, owner, entry, until)
		}
	})
}

// pause waits for d, or until the locker is closed.
func (l *Locker) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closing:
	}
}

// clear leaves nothing of an owner id behind. It tries until end.
func (l *Locker) clear(key, owner, entry string, end time.Time) {
	l.insist(end, func(ctx context.Context) error { return l.leave(ctx, key, owner, entry) })
}

// insist calls try until it succeeds, or until end. Without rights it cannot.
// Close ends the first of its pauses.
func (l *Locker) insist(end time.Time, try func(ctx context.Context) error) {
	closing := l.closing
	limit, pause := firstLimit, 10*time.Millisecond
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(l.ctx, limit)
		err := try(ctx)
		cancel()
		if err == nil || lacksRights(err) {
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-closing:
			closing = nil // once
			limit, pause = firstLimit, 5*time.Millisecond
		}
		t.Stop()
		limit, pause = min(2*limit, lastLimit), min(2*pause, time.Second)
	}
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
		_, err = l.leaveCrowd(ctx, &step{l: l, key: key, owner: owner})
	} else {
		_, err = l.free(ctx, key, owner, nil)
	}
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	return err
}
