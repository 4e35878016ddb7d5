package etcdlocker

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// rewatchPause is the pause before a watch that broke is made again.
const rewatchPause = 50 * time.Millisecond

// watchAgain begins the watch anew, by the member that is now in use.
func (r *rows) watchAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		r.stop()
	}
}

// Listen watches the inbox from the first request on, until ctx ends. A watch
// that broke goes on where it was. If etcd has compacted that, messages are
// missing, and a new watch begins now.
//
// A watch from the present or an older revision is served only every 100 ms
// until it has caught up (etcd's watchResyncPeriod). A watch therefore begins
// once, and stays.
func (r *rows) Listen(ctx context.Context, instance string, hear func(rowlocker.Row), awake func()) {
	select {
	case <-r.sent:
	case <-ctx.Done():
	}
	last := int64(0) // the revision of the last message; 0 begins now
	for ctx.Err() == nil {
		last = r.hearFrom(ctx, r.inbox(instance), last, hear, awake)
		lockerkit.Pause(rewatchPause, ctx.Done())
	}
}

// hearFrom watches until the watch breaks. hearFrom returns the revision from
// which to go on.
//
// A watcher of its own could hang in its Close for good, if etcd refuses the
// watch at that moment. That of the client ends the watch with ctx.
func (r *rows) hearFrom(
	ctx context.Context, inbox string, last int64, hear func(rowlocker.Row), awake func(),
) int64 {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	r.mu.Lock()
	r.stop = stop
	r.mu.Unlock()
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()}
	if last > 0 {
		opts = append(opts, clientv3.WithRev(last+1))
	}
	for w := range r.client().Watch(ctx, inbox, opts...) {
		switch {
		case w.CompactRevision > 0:
			return 0
		case w.Err() != nil:
			return last
		case w.Created:
			last = max(last, w.Header.Revision)
			awake()
		}
		for _, e := range w.Events {
			last = max(last, e.Kv.ModRevision)
			r.heard(e.Kv.ModRevision)
			key := strings.TrimSuffix(strings.TrimPrefix(string(e.Kv.Key), inbox), "}")
			hear(messageOf(key, e.Kv.ModRevision, e.Kv.Value))
		}
	}
	return last
}

// ticketMark is in front of a ticket in an inbox. No row begins so.
const ticketMark = "+"

// messageOf returns what a message tells: a row, a new ticket beside one, or
// nothing but its key.
func messageOf(key string, revision int64, value []byte) rowlocker.Row {
	if text, ok := strings.CutPrefix(string(value), ticketMark); ok {
		name, ticket, _ := strings.Cut(text, "/")
		return rowlocker.Row{Key: key, Tickets: []rowlocker.Ticket{{Name: name, Version: revision, Value: []byte(ticket)}}}
	}
	row := rowlocker.Row{Key: key, Version: revision}
	if len(value) > 0 {
		row.Value = value
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
	r.mu.Lock()
	beats := r.pulse == lease
	r.mu.Unlock()
	if beats {
		return nil
	}
	put := clientv3.OpPut(r.pulseKey(instance), "", clientv3.WithLease(lease))
	if _, err = r.txn(ctx, nil, []clientv3.Op{put}, nil); err != nil {
		if noLease(err) {
			r.places.lost(lease)
		}
		return r.tryError(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulse = lease
	return nil
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
