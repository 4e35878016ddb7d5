package etcdlocker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
)

// Abandon takes c out of key and queue, in the background. It takes one request
// or two.
func (l *Locker) Abandon(c *locker.Claim, late bool) {
	if l.life.Enter() != nil {
		return
	}
	defer l.life.Leave()
	st, _ := c.State.(*state)
	entry := ""
	if st != nil {
		entry = st.Leave()
	}
	l.abandon(late, c.Key, c.Owner, entry, st)
}

// abandon leaves nothing of an owner id behind. Without rights it cannot. st is
// nil if nothing of the claim may have been recorded.
func (l *Locker) abandon(late bool, key, owner, entry string, st *state) {
	l.lines.disown(key, owner)
	l.life.Abandon(late, func(ctx context.Context) bool {
		if st != nil {
			if err := l.endRecorded(ctx, st); err != nil && !lacksRights(err) {
				return false
			}
			st = nil // once
		}
		err := l.leave(ctx, key, owner, entry)
		return err == nil || lacksRights(err)
	})
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
		_, err = (&step{l: l, key: key, owner: owner}).leave(ctx)
	} else {
		_, err = l.free(ctx, key, owner, nil)
	}
	if errors.Is(err, locker.ErrLeaseLost) {
		return nil
	}
	return err
}
