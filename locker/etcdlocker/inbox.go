package etcdlocker

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// watchAgain ends the watch, so that another begins by the member that is now
// in use.
func (r *rows) watchAgain() {
	if stop := r.stop.Load(); stop != nil {
		(*stop)()
	}
}

// Listen watches the inbox.
//
// A watch from an older revision is served only every 100 ms until it has
// caught up (etcd's watchResyncPeriod). One that broke is therefore not
// resumed. A watcher of its own could hang in its Close for good, if etcd
// refuses the watch at that moment. That of the client ends the watch with ctx.
func (r *rows) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	r.stop.Store(&stop)
	inbox := r.inbox(instance)
	for w := range r.client().Watch(ctx, inbox,
		clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()) {
		if w.Err() != nil { // a compaction is one, too
			return
		}
		r.heard()
		if w.Created {
			awake()
		}
		for _, e := range w.Events {
			key := strings.TrimSuffix(strings.TrimPrefix(string(e.Kv.Key), inbox), "}")
			hear(messageOf(key, e.Kv.ModRevision, e.Kv.Value))
		}
	}
}

// ticketMark is in front of a ticket in an inbox. No row begins so.
const ticketMark = "+"

// messageOf returns what a message tells: a row, a new ticket beside one, or
// nothing but its key.
func messageOf(key string, revision int64, value []byte) rowlocker.Row {
	if text, ok := strings.CutPrefix(string(value), ticketMark); ok {
		name, ticket, _ := strings.Cut(text, "/")
		t := rowlocker.Ticket{Name: name, Version: revision, Value: []byte(ticket)}
		return rowlocker.Row{Key: key, Tickets: []rowlocker.Ticket{t}}
	}
	row := rowlocker.Row{Key: key, Version: revision}
	if len(value) > 0 {
		row.Value, row.Tag = value, tagOf(value)
	}
	return row
}

// Beat writes the pulse if there is none, under the etcd lease that Work keeps
// alive while it is asked for. Two calls at once may both write it.
func (r *rows) Beat(ctx context.Context, instance string) error {
	lease, err := r.places.lease(ctx, placeNeed)
	if err != nil {
		return r.tryError(err)
	}
	if r.pulse.Load() == int64(lease) {
		return nil
	}
	put := clientv3.OpPut(r.pulseKey(instance), "", clientv3.WithLease(lease))
	_, err = r.txn(ctx, nil, []clientv3.Op{put}, nil)
	switch {
	case err == nil:
		r.pulse.Store(int64(lease))
	case noLease(err):
		r.places.lost(lease)
	}
	return r.tryError(err)
}

// Dead returns the instances without a pulse.
func (r *rows) Dead(ctx context.Context, instances []string) (dead []string, err error) {
	found, err := r.read(ctx, instances, func(instance string) clientv3.Op {
		return clientv3.OpGet(r.pulseKey(instance), clientv3.WithCountOnly())
	})
	for i, one := range found {
		if one.GetResponseRange().Count == 0 {
			dead = append(dead, instances[i])
		}
	}
	return dead, r.tryError(err)
}
